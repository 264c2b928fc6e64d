"""kazoo's client without its threads and its socket.

:class:`KazooClient` itself queues requests, reports states to listeners and completes chains of
requests such as ``ensure_path_async``, as in production. Two parts are replaced. Its *handler*,
which runs callbacks in threads, runs them in the loop. Its *connection*, a thread that talks to a
socket, is a state machine that talks to the simulated ensemble. It behaves as kazoo's
``ConnectionHandler``, with the same timeouts, pings, pauses between attempts and order of state
changes.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from random import Random
from threading import Event
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError, ZookeeperError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.handlers.utils import AsyncResult
from kazoo.protocol.connection import CHILD_EVENT, DELETED_EVENT
from kazoo.protocol.serialization import Exists, GetChildren, GetChildren2, PingInstance
from kazoo.protocol.serialization import Transaction as TransactionRequest
from kazoo.protocol.states import (
    EVENT_TYPE_MAP,
    Callback,
    EventType,
    KeeperState,
    WatchedEvent,
)
from kazoo.retry import KazooRetry

from ackproof.broker.server.zk.session import RECONNECT_DELAY_S_MAX, ClientFactory
from simulation.loop import SimulatedLoop
from simulation.zookeeper.ensemble import HOST, SimulatedZooKeeper
from simulation.zookeeper.server import ZkConnection

Job = Callable[[], None]

SLOW_THREAD: Final = 0.1
"""The probability that one of kazoo's threads is late with its work, so that the other thread runs
first."""
SLOW_THREAD_S_MAX: Final = 0.002


def client_factory(
    zookeeper: SimulatedZooKeeper, host: str, loop: asyncio.AbstractEventLoop
) -> ClientFactory:
    """Return a factory of clients that run on ``host``. It takes only the chroot from the connect
    string."""
    return partial(SimulatedKazooClient, zookeeper, host, loop)


class SimulatedKazooClient(KazooClient):  # type: ignore[misc]  # kazoo is not typed
    """A client of the simulated ensemble. It runs completely in the loop, so ``stop`` does not
    wait."""

    _child_watchers: defaultdict[str, dict[Any, None]]
    _data_watchers: defaultdict[str, dict[Any, None]]

    def __init__(
        self,
        zookeeper: SimulatedZooKeeper,
        host: str,
        loop: asyncio.AbstractEventLoop,
        connect: str,
        session_timeout_ms: int,
    ) -> None:
        rng = zookeeper.fork_rng()
        super().__init__(
            hosts=connect,
            timeout=session_timeout_ms / 1000,
            handler=_Handler(loop, rng),
        )
        self._connection = _ConnectionHandler(self, zookeeper, host, loop, rng)

    def _reset_watchers(self) -> None:
        """Do what kazoo does, but in a reproducible order. kazoo's sets have the order of memory
        addresses."""
        tables = (self._child_watchers, self._data_watchers)
        watchers = [each for table in tables for on_path in table.values() for each in on_path]
        self._child_watchers = defaultdict(dict)
        self._data_watchers = defaultdict(dict)
        event = WatchedEvent(EventType.NONE, self._state, None)
        for watcher in watchers:
            self.handler.dispatch_callback(Callback("watch", watcher, (event,)))


class _Worker:
    """The replacement of one of kazoo's threads. It runs jobs in their order, a moment later."""

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self._jobs: deque[Job] = deque()
        self._is_due = False

    def put(self, job: Job) -> None:
        self._jobs.append(job)
        self._wake()

    def drain(self) -> None:
        """Run all jobs, including those after a job that fails."""
        self._is_due = False
        try:
            while self._jobs:
                self._jobs.popleft()()
        finally:
            self._wake()

    def _wake(self) -> None:
        if self._is_due or not self._jobs:
            return
        self._is_due = True
        if self._rng.random() < SLOW_THREAD:
            self._loop.call_later(self._rng.random() * SLOW_THREAD_S_MAX, self.drain)
        else:
            self._loop.call_soon(self.drain)


class _Handler:
    """The part of ``SequentialThreadingHandler`` that kazoo uses.

    Completions and watches have a thread each. A watch event may therefore be processed after an
    answer that was sent later than the event.
    """

    sleep_func = staticmethod(lambda _seconds: None)
    timeout_exception = KazooTimeoutError
    event_object = Event

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random) -> None:
        self.running = False
        self.completion_queue = _Worker(loop, rng)
        self._callback_queue = _Worker(loop, rng)

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False
        self.completion_queue.drain()
        self._callback_queue.drain()

    def async_result(self) -> AsyncResult:
        return AsyncResult(self, _Unlocked, KazooTimeoutError)

    def dispatch_callback(self, callback: Any) -> None:
        self._callback_queue.put(partial(callback.func, *callback.args))


class _Unlocked(nullcontext[None]):
    """A condition without a lock: there is one thread, and it never waits."""

    def notify_all(self) -> None:
        pass


class _ConnectionHandler:
    """The replacement of kazoo's connection thread, as an :class:`TcpEndpoint` of the ensemble."""

    def __init__(
        self,
        client: Any,
        zookeeper: SimulatedZooKeeper,
        host: str,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
    ) -> None:
        self._write_sock: Any = self
        """The socket to which kazoo writes a byte when the client's queue has a request."""
        self._client = client
        self._zookeeper = zookeeper
        self._host = host
        self._loop = loop
        self._rng = rng
        self._pauses = KazooRetry(max_tries=-1, max_delay=RECONNECT_DELAY_S_MAX)
        self._pause_s = self._pauses.delay
        self._connection: ZkConnection | None = None
        self._is_connected = False
        self._timer: asyncio.TimerHandle | None = None
        self._ping_outstanding = False
        self._last_send_s = 0.0
        self._last_event_s = 0.0
        self._read_timeout_s = 0.0

    # --- calls of kazoo's client ------------------------------------------------------------

    def start(self) -> None:
        self._pause_s = self._pauses.delay
        self._set_timer(0.0, self._attempt)

    def stop(self, _timeout_s: float | None = None) -> bool:
        """Stop the connection, and return True. The request that closes the session has been sent
        already, if there was a connection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._zookeeper.hang_up(self._connection)
            self._connection = None
            self._is_connected = False
        self._client._session_callback(KeeperState.CLOSED)
        return True

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def send(self, _byte: bytes) -> None:
        """Send the requests of the client's queue, if there is a connection."""
        if not self._is_connected or self._connection is None:
            return
        queue, pending = self._client._queue, self._client._pending
        while queue:
            request, result = queue.popleft()
            pending.append((request, result, None))
            self._zookeeper.request(self._connection, request)
        self._last_send_s = self._last_event_s = self._loop.time()

    # --- connecting -------------------------------------------------------------------------

    def _attempt(self) -> None:
        client = self._client
        if client._state != KeeperState.CONNECTING:
            client._session_callback(KeeperState.CONNECTING)
        timeout_ms = client._session_timeout
        self._connection = self._zookeeper.connect(
            self._host, self, client._session_id or 0, timeout_ms, client.last_zxid
        )
        self._set_timer(timeout_ms / 1000, self._reconnect)

    def _reconnect(self) -> None:
        """Handle a missing answer or a broken connection: try again after a pause."""
        if self._connection is not None:
            self._zookeeper.hang_up(self._connection)
        self._connection = None
        self._is_connected = False
        if self._client._state != KeeperState.CONNECTING:
            self._client._session_callback(KeeperState.CONNECTING)
        self._pause()

    def _pause(self) -> None:
        jitter = self._pauses.max_jitter
        pause_s = self._pause_s * self._rng.uniform(1 - jitter, 1 + jitter)
        self._pause_s = min(pause_s * self._pauses.backoff, self._pauses.max_delay)
        self._set_timer(pause_s, self._attempt)

    def established(
        self, connection: ZkConnection, session: int, password: bytes, timeout_ms: int
    ) -> None:
        if connection is not self._connection or connection.is_reset:
            return
        client = self._client
        client._session_id, client._session_passwd = session, password
        self._is_connected = True
        self._pause_s = self._pauses.delay
        self._read_timeout_s = timeout_ms / 1000 * 2 / 3
        self._ping_outstanding = False
        client._session_callback(KeeperState.CONNECTED)
        self._last_send_s = self._last_event_s = self._loop.time()
        self._await_ping_time()
        if client._queue:
            self.send(b"")

    def expired(self, connection: ZkConnection) -> None:
        if connection is not self._connection:
            return
        self._connection = None
        self._pause_s = self._pauses.delay
        self._client._session_callback(KeeperState.EXPIRED_SESSION)
        self._pause()

    def closed(self, connection: ZkConnection) -> None:
        if connection is self._connection:
            self._reconnect()

    # --- connected --------------------------------------------------------------------------

    def answered(self, connection: ZkConnection, zxid: int, answer: Any) -> None:
        if connection is not self._connection or connection.is_reset:
            return
        client = self._client
        self._last_event_s = self._loop.time()
        request, result, _ = client._pending.popleft()
        if zxid > 0:
            client.last_zxid = zxid
        is_absent = isinstance(answer, NoNodeError) and type(request) is Exists
        if isinstance(answer, ZookeeperError) and not is_absent:
            result.set_exception(answer)
            return
        if type(request) is TransactionRequest:
            answer = TransactionRequest.unchroot(client, answer)
        result.set(None if is_absent else answer)
        watcher = getattr(request, "watcher", None)
        if watcher and not client._stopped.is_set():
            is_children = isinstance(request, GetChildren | GetChildren2)
            table = client._child_watchers if is_children else client._data_watchers
            table[request.path][watcher] = None

    def fired(self, connection: ZkConnection, event: int, path: str) -> None:
        if connection is not self._connection or connection.is_reset:
            return
        client = self._client
        self._last_event_s = self._loop.time()
        watchers: list[Any] = []
        if event != CHILD_EVENT:
            watchers += client._data_watchers.pop(path, ())
        if event in (CHILD_EVENT, DELETED_EVENT):
            watchers += client._child_watchers.pop(path, ())
        if client._stopped.is_set():
            return
        watched = WatchedEvent(EVENT_TYPE_MAP[event], client._state, client.unchroot(path))
        for watcher in watchers:
            client.handler.dispatch_callback(Callback("watch", watcher, (watched,)))

    def pong(self, connection: ZkConnection) -> None:
        if connection is self._connection and not connection.is_reset:
            self._last_event_s = self._loop.time()
            self._ping_outstanding = False

    def _await_ping_time(self) -> None:
        """Schedule the next ping, as kazoo does.

        kazoo pings when it has sent nothing for half the read timeout, less a jitter. The
        connection is dead if the next ping falls due without an answer to the last one, and nothing
        was sent or received meanwhile.
        """
        jitter_s = self._rng.randint(1, 40) / 100
        ping_s = self._last_send_s + self._read_timeout_s / 2 - jitter_s
        silent_s = self._last_event_s + jitter_s
        self._set_timer(max(ping_s, silent_s) - self._loop.time(), partial(self._check, jitter_s))

    def _check(self, jitter_s: float) -> None:
        now_s = self._loop.time()
        is_silent = now_s >= self._last_event_s + jitter_s
        if now_s >= self._last_send_s + self._read_timeout_s / 2 - jitter_s:
            if is_silent and self._ping_outstanding:
                self._reconnect()
                return
            if self._connection is not None:
                self._ping_outstanding = True
                self._last_send_s = self._last_event_s = now_s
                self._zookeeper.request(self._connection, PingInstance)
        self._await_ping_time()

    def _set_timer(self, delay_s: float, job: Job) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(delay_s, 0.0), job)


# --- shell ----------------------------------------------------------------------------------------
#
# The commands of an administrator in ZooKeeper, as in ``zkCli.sh``.

SESSION_MS: Final = 6_000
CHECK_INTERVAL_S: Final = 0.05


class ZkShell:
    """A shell on ``host`` that opens one session for each command. Errors are ignored."""

    def __init__(self, zookeeper: SimulatedZooKeeper, host: str, loop: SimulatedLoop) -> None:
        self._zookeeper = zookeeper
        self._host = host
        self._loop = loop

    async def delete(self, path: str) -> None:
        """Run ``delete PATH``."""
        await self._do("delete_async", path)

    async def create(self, path: str, data: bytes) -> None:
        """Run ``create PATH DATA``."""
        await self._do("create_async", path, data)

    async def set(self, path: str, data: bytes) -> None:
        """Run ``set PATH DATA``."""
        await self._do("set_async", path, data)

    async def _do(self, command: str, *args: Any) -> None:
        client = client_factory(self._zookeeper, self._host, self._loop)(f"{HOST}:2181", SESSION_MS)
        client.start_async()
        while not client.connected:
            await asyncio.sleep(CHECK_INTERVAL_S)
        done: asyncio.Future[None] = self._loop.create_future()
        getattr(client, command)(*args).rawlink(lambda _: done.set_result(None))
        await done
        client.stop()
        client.close()
