"""A simulated ZooKeeper ensemble: one linearizable state machine in virtual time.

Requests, answers and watch events are messages over the network's links between the host of a
client and the host of the ensemble. They arrive in order, as over TCP. The ensemble knows nothing
about the processes of its clients. A client that is killed or paused falls silent, and its session
lives until the ensemble has received nothing from it for the session timeout (ZooKeeper
Programmer's Guide, "ZooKeeper Sessions"). Expiry is checked once a tick, as in ``ExpiryQueue``.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from kazoo.protocol.serialization import Close, Ping, Sync

from simulation.loop import PROCESS, Killed
from simulation.zookeeper.server import (
    ZkCommit,
    ZkConnection,
    ZkEndpoint,
    ZkServer,
    ZkSession,
    send_session,
)
from simulation.zookeeper.znodes import WRITES, Txn

# --- streams --------------------------------------------------------------------------------------
#
# The order of messages and of jobs.


class MessageNetwork(Protocol):
    """The messages of a network."""

    def delay(
        self,
        source: str,
        target: str,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> None:
        """Call ``callback`` in the receiver's ``context`` when a message from ``source`` has
        reached ``target``.

        Messages do not overtake each other. They wait while the link is cut.
        """


class DelayQueue:
    """A queue that runs jobs in their order, each not before its own time."""

    __slots__ = ("_context", "_last_s", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._last_s = 0.0
        self._waiting: deque[Callable[[], object]] = deque()

    def put(self, delay_s: float, job: Callable[[], object]) -> None:
        """Run ``job`` in ``delay_s`` seconds, or when the jobs before it are done."""
        self._last_s = max(self._last_s, self._loop.time() + delay_s)
        self._waiting.append(job)
        self._loop.call_at(self._last_s, self._next, context=self._context)

    def finish(self) -> None:
        """Run all waiting jobs now."""
        while self._waiting:
            self._waiting.popleft()()

    def _next(self) -> None:
        if self._waiting:
            self._waiting.popleft()()


HOST: Final = "zookeeper"
TICK_MS: Final = 2000
FIRST_SESSION: Final = 1 << 56


class SimulatedZooKeeper:
    """The whole ensemble.

    Its host always has power, because no message to it may be lost. ``stop`` simulates an outage.

    Args:
        network: The network that carries messages between ``host`` and the hosts of clients.
        rng: The source of all randomness in the ensemble.
        tick_ms: The setting ``tickTime``. A session timeout is between 2 and 20 ticks.
        servers: The number of servers. With more than one, a client reads what its server has
            applied. That may be up to ``lag_s`` seconds behind the writes of other clients, but
            never behind what the client has seen itself (ZooKeeper Programmer's Guide, "Consistency
            Guarantees").
        wall_ms: The time of day for ``ctime`` and ``mtime``. None means the loop's own time.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        network: MessageNetwork,
        rng: Random,
        *,
        host: str = HOST,
        tick_ms: int = TICK_MS,
        servers: int = 1,
        lag_s: float = 0.0,
        wall_ms: Callable[[], int] | None = None,
    ) -> None:
        self.host = host
        self.sessions: dict[int, ZkSession] = {}
        """The open sessions by session id, in the order in which they were opened."""
        self.requests: Counter[str] = Counter()
        """The number of requests by kazoo's name of the request, including pings."""
        self.is_running = True
        self.before_write: Callable[[ZkSession, Any], None] | None = None
        """A function called with the session and the request of each write. If it drops the
        connection, the write is not carried out."""
        self._loop = loop
        self._network = network
        self._rng = rng
        self._tick_ms = tick_ms
        self._lag_s = lag_s
        self._wall_ms = wall_ms or (lambda: int(loop.time() * 1000))
        self._context = copy_context()
        self._zxid = 0
        self._sessions_opened = 0
        self._servers = [ZkServer(self._resume) for _ in range(servers)]
        self._logs = [DelayQueue(loop, self._context) for _ in self._servers[1:]]

    @property
    def leader(self) -> ZkServer:
        """Return the server whose tree is authoritative."""
        return self._servers[0]

    # --- control by the simulation ----------------------------------------------------------

    def fork_rng(self) -> Random:
        """Return a source of randomness for one client."""
        return Random(self._rng.getrandbits(64))

    def sessions_of(self, host: str) -> list[ZkSession]:
        """Return the open sessions of clients on a host, the oldest first.

        A restarted broker may have the session of its former process beside its own.
        """
        return [session for session in self.sessions.values() if session.host == host]

    def expire(self, session: ZkSession) -> bool:
        """Expire a session, and return whether this was possible.

        Its client learns of it when it reconnects. A session that is over, or a stopped ensemble,
        gives False.
        """
        is_alive = self.is_running and session.id in self.sessions
        if is_alive:
            self._end(session)
        return is_alive

    def drop_connection(self, session: ZkSession) -> None:
        """Reset the connection of a session. Some of the requests in flight have been carried out
        and others never will be, and all their answers are lost."""
        if session.connection is not None:
            self._reset(session.connection)

    def stop(self) -> None:
        """Stop all servers. Connections break, new ones are refused, and no session expires."""
        self.is_running = False
        for session in tuple(self.sessions.values()):
            self.drop_connection(session)
        for log in self._logs:
            log.finish()

    def start(self) -> None:
        """Start all servers again with everything that was written. Each session gets its full
        timeout."""
        self.is_running = True
        for session in self.sessions.values():
            self._touch(session)
            self._schedule_expiry(session)

    # --- connections ------------------------------------------------------------------------

    def connect(
        self, host: str, endpoint: ZkEndpoint, session_id: int, timeout_ms: int, last_zxid: int
    ) -> ZkConnection:
        """Open a connection for a session, in the client's context. Id 0 requests a new session.

        The answer is a call of a method of ``endpoint``.
        """
        send = partial(self._network.delay, self.host, host, context=copy_context())
        connection = ZkConnection(host, endpoint, send)
        self._send(connection, self._accept, session_id, timeout_ms, last_zxid)
        return connection

    def request(self, connection: ZkConnection, request: Any) -> None:
        """Send a request of the client."""
        self._send(connection, self._receive, request)

    def hang_up(self, connection: ZkConnection) -> None:
        """Close a connection from the client's end. The session stays."""
        connection.is_abandoned = True
        self._send(connection, self._close)

    def _send(self, connection: ZkConnection, receive: Callable[..., None], *args: Any) -> None:
        process = PROCESS.get()
        if process is not None and process.is_dead:
            raise Killed
        self._network.delay(
            connection.host, self.host, receive, connection, *args, context=self._context
        )

    def _accept(
        self, connection: ZkConnection, session_id: int, timeout_ms: int, last_zxid: int
    ) -> None:
        if connection.is_abandoned:
            return  # the connection was given up while this message waited for a cut link
        if not self.is_running:
            connection.send(connection.endpoint.closed, connection)
            return
        self._join(connection, session_id, timeout_ms, last_zxid)

    def _join(
        self, connection: ZkConnection, session_id: int, timeout_ms: int, last_zxid: int
    ) -> None:
        if not self.is_running or not connection.is_open:
            return
        session = self.sessions.get(session_id)
        if session_id and session is None:
            connection.is_open = False
            connection.send(connection.endpoint.expired, connection)
            return
        # A client never reads an older state than it has seen
        # (ZooKeeperServer.processConnectRequest).
        caught_up = [server for server in self._servers if server.zxid >= last_zxid]
        connection.server = caught_up[0] if len(caught_up) == 1 else self._rng.choice(caught_up)
        if session is None:
            self._open(connection, timeout_ms)
            return
        session.connection, connection.session = connection, session
        self._touch(session)
        send_session(connection, session)

    def _receive(self, connection: ZkConnection, request: Any) -> None:
        if not connection.is_open or connection.session is None:
            return
        self._touch(connection.session)
        self.requests[type(request).__name__] += 1
        self._process(connection, request)

    def _process(self, connection: ZkConnection, request: Any) -> None:
        session, server = connection.session, connection.server
        if not connection.is_open or session is None or server is None:
            return
        kind = type(request)
        if connection.awaits is not None:
            connection.later.append(request)
        elif kind is Ping:
            connection.send(connection.endpoint.pong, connection)
        elif kind is Close:
            self._end(session)
        elif kind in WRITES:
            if self.before_write is not None:
                self.before_write(session, request)
            if connection.is_open:
                self._commit(session.id, request, connection)
        elif kind is Sync and server is not self.leader:
            self._sync(connection, server, request)
        else:
            server.read(connection, request)

    def _resume(self, connection: ZkConnection) -> None:
        while connection.later and connection.awaits is None:
            self._process(connection, connection.later.popleft())

    def _close(self, connection: ZkConnection) -> None:
        if not connection.is_open:
            return
        connection.is_open = False
        if connection.server is not None:
            connection.server.watches.forget(connection)
        session = connection.session
        if session is not None and session.connection is connection:
            session.connection = None

    def _reset(self, connection: ZkConnection) -> None:
        if connection.is_open:
            self._close(connection)
            connection.is_reset = True
            connection.send(connection.endpoint.closed, connection)

    # --- transactions -----------------------------------------------------------------------

    def _commit(self, session_id: int, request: Any, connection: ZkConnection | None) -> None:
        """Commit a write. The first server leads, so what it has applied is committed. The others
        follow."""
        self._zxid += 1
        commit = ZkCommit(Txn(self._zxid, self._wall_ms(), session_id), request, connection)
        leader, *followers = self._servers
        if connection is not None and connection.server is not leader:
            connection.awaits = self._zxid
        for server, log in zip(followers, self._logs, strict=True):
            log.put(self._rng.random() * self._lag_s, partial(server.apply, commit))
        leader.apply(commit)

    def _sync(self, connection: ZkConnection, server: ZkServer, request: Sync) -> None:
        """Answer after everything that is committed now has been applied. The client's next
        requests wait for it."""
        connection.awaits = self._zxid
        log = self._logs[self._servers.index(server) - 1]
        log.put(self._rng.random() * self._lag_s, partial(server.caught_up, connection, request))

    # --- sessions ---------------------------------------------------------------------------

    def _open(self, connection: ZkConnection, asked_ms: int) -> None:
        timeout_ms = min(max(asked_ms, 2 * self._tick_ms), 20 * self._tick_ms)
        self._sessions_opened += 1
        session_id = FIRST_SESSION + self._sessions_opened
        session = ZkSession(session_id, self._rng.randbytes(16), timeout_ms, connection.host)
        session.connection, connection.session = connection, session
        self.sessions[session_id] = session
        self._touch(session)
        self._schedule_expiry(session)
        self._commit(session_id, None, connection)

    def _end(self, session: ZkSession) -> None:
        del self.sessions[session.id]
        self._commit(session.id, None, None)
        connection = session.connection
        if connection is not None and connection.is_open:
            self._close(connection)
            connection.send(connection.endpoint.closed, connection)

    def _touch(self, session: ZkSession) -> None:
        """Extend a session, because its client was heard from. The expiry is rounded up to the next
        tick."""
        heard_ms = int(self._loop.time() * 1000)
        ticks = (heard_ms + session.timeout_ms) // self._tick_ms + 1
        session.ends_s = ticks * self._tick_ms / 1000

    def _schedule_expiry(self, session: ZkSession) -> None:
        """Expire the session when it is due. There is one timer for a session, not one for each
        request."""
        if session.is_timed or not self.is_running or session.id not in self.sessions:
            return
        if self._loop.time() >= session.ends_s:
            self._end(session)
        else:
            session.is_timed = True
            self._loop.call_at(session.ends_s, self._check_expiry, session, context=self._context)

    def _check_expiry(self, session: ZkSession) -> None:
        session.is_timed = False
        self._schedule_expiry(session)
