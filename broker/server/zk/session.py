"""A ZooKeeper session for asyncio, on top of kazoo.

kazoo has threads of its own (connection, completions, watches). Results and state changes are
passed to the asyncio loop, and nothing here blocks the loop.

Properties of sessions:

- *Disconnected is not expired.* While the connection is down it is unknown whether the session
  lives. Only ZooKeeper can tell, when it is back. Requests in flight then have an unknown outcome.
- kazoo reconnects by itself, and after an expiry opens a *new* session on the same client. A
  request meant for the old session must not slip into the new one. Each session therefore has a
  number. Requests are submitted under a lock, and kazoo's connection thread takes it to raise the
  number before it accepts requests for the new session. A request with an old number is refused.
- Watches do not survive a disconnection. kazoo then fires all of them once, so a watch that fires
  means "read again", not "it changed".
- kazoo wakes its connection thread with one byte per request through a socket pair. It would block
  the loop once some hundred bytes lie unread before a hung ZooKeeper. The number of requests in
  flight is therefore limited, and further ones wait in the loop.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NewType

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from ackproof.broker.types import ZkVersion

logger = logging.getLogger(__name__)

SessionNumber = NewType("SessionNumber", int)
"""The number of one of this process's ZooKeeper sessions, counted from 0."""

REQUESTS_IN_FLIGHT_MAX = 50
RECONNECT_DELAY_S_MAX = 1.0

Callback = Callable[[], None]
Submit = Callable[[KazooClient], Any]
"""A function that starts one request on the client and returns kazoo's async result."""
ClientFactory = Callable[[str, int], KazooClient]
"""A function that creates a client, not connected yet, from a ``zookeeper.connect`` string and the
session timeout in milliseconds."""


def kazoo_client(connect: str, session_timeout_ms: int) -> KazooClient:
    """Return kazoo's own client, with threads and sockets, which reconnects for ever."""
    return KazooClient(
        hosts=connect,
        timeout=session_timeout_ms / 1000,
        connection_retry=KazooRetry(max_tries=-1, max_delay=RECONNECT_DELAY_S_MAX),
    )


class ZkError(Exception):
    """A request that ZooKeeper could not carry out."""


class SessionExpired(ZkError):
    """The end of the session that the request was meant for. It is unknown whether the request was
    carried out in its last moments."""


class OutcomeUnknown(ZkError):
    """The loss of the connection or session before the answer came. The request was carried out, or
    not."""


class ZkClosed(ZkError):
    """A client that was closed."""


class ZkConnectionTimeout(ZkError):
    """The lack of a connection within ``zookeeper.connection.timeout.ms``."""


@dataclass(frozen=True, slots=True)
class _Watch:
    """Passes kazoo's watch event to the loop. Watches with equal callbacks are equal: kazoo keeps
    watches in a set, so reading a node twice does not make it fire twice."""

    loop: asyncio.AbstractEventLoop
    callback: Callback

    def __call__(self, _event: object) -> None:
        self.loop.call_soon_threadsafe(self.callback)


class ZkSession:
    """The session of one process, replaced by a new one whenever it expires.

    ``connect`` is a ``zookeeper.connect`` string (``host:port,host:port/chroot``).
    """

    def __init__(
        self, connect: str, session_timeout_ms: int, client: ClientFactory = kazoo_client
    ) -> None:
        self.number = SessionNumber(0)
        """The number of the current session in the loop, raised just before the expiry
        callbacks."""
        self.session_id: int | None = None
        """ZooKeeper's own id of the session (``ephemeralOwner`` of its nodes)."""
        self._connect = connect
        self._client = client(connect, session_timeout_ms)
        self._fence = threading.Lock()
        self._fenced_number = SessionNumber(0)
        self._connected = asyncio.Event()
        self._slots = asyncio.Semaphore(REQUESTS_IN_FLIGHT_MAX)
        self._in_flight: set[asyncio.Future[Any]] = set()
        self._restart: asyncio.Task[None] | None = None
        self._closed = False
        self.expired_callbacks: list[Callback] = []
        self.established_callbacks: list[Callback] = []
        self.disconnected_callbacks: list[Callback] = []

    @property
    def requests_in_flight(self) -> int:
        """The number of requests that ZooKeeper has not answered yet."""
        return len(self._in_flight)

    # --- life -------------------------------------------------------------------------------

    async def start(self, connection_timeout_ms: int) -> None:
        """Connect, and keep trying until ``connection_timeout_ms`` have passed.

        Raises:
            ZkConnectionTimeout: ZooKeeper did not answer in time; nothing is left running.
        """
        self._loop = asyncio.get_running_loop()
        self._client.add_listener(self._on_state)
        logger.info("connecting to ZooKeeper at %s", self._connect)
        self._client.start_async()
        try:
            async with asyncio.timeout(connection_timeout_ms / 1000):
                await self._connected.wait()
        except TimeoutError as error:
            await self.close()
            raise ZkConnectionTimeout(
                f"no connection to ZooKeeper at zookeeper.connect={self._connect} within "
                f"zookeeper.connection.timeout.ms={connection_timeout_ms}"
            ) from error

    async def close(self) -> None:
        """End the session (its ephemeral nodes vanish) and kazoo's threads. Waiting calls fail.

        This takes up to the session timeout when ZooKeeper hangs.
        """
        if self._closed:
            return
        self._closed = True
        self._connected.set()
        if self._restart is not None:
            await asyncio.wait([self._restart])
        await asyncio.to_thread(self._stop_client)

    def _stop_client(self) -> None:
        self._client.stop()
        self._client.close()

    # --- state ------------------------------------------------------------------------------

    def _on_state(self, state: str) -> None:
        """Take over a state, in kazoo's connection thread, before it accepts requests in the new
        state."""
        if state == KazooState.LOST:
            with self._fence:
                self._fenced_number = SessionNumber(self._fenced_number + 1)
        client_id = self._client.client_id
        session_id = client_id[0] if client_id else None
        dead = self._client.client_state == KeeperState.CLOSED
        if not self._closed:
            self._loop.call_soon_threadsafe(self._on_state_in_loop, state, session_id, dead)

    def _on_state_in_loop(self, state: str, session_id: int | None, dead: bool) -> None:
        if self._closed:
            return
        if state == KazooState.CONNECTED:
            self._established(session_id)
        elif state == KazooState.SUSPENDED:
            logger.warning(
                "disconnected from ZooKeeper; session 0x%x may live", self.session_id or 0
            )
            self._connected.clear()
            _run_all(self.disconnected_callbacks)
        else:
            logger.error("ZooKeeper session 0x%x has expired", self.session_id or 0)
            self._connected.clear()
            self.number = SessionNumber(self.number + 1)
            _run_all(self.expired_callbacks)
            if dead:
                self._restart = asyncio.create_task(self._revive(), name="revive kazoo")

    def _established(self, session_id: int | None) -> None:
        renewed = self.session_id not in (None, session_id)
        self.session_id = session_id
        self._connected.set()
        logger.info("connected to ZooKeeper, session 0x%x", session_id or 0)
        if renewed:
            _run_all(self.established_callbacks)

    async def _revive(self) -> None:
        """Restart the client. kazoo's connection thread ends on an answer that it cannot parse."""
        logger.error("the ZooKeeper client stopped by itself, starting it again")
        await asyncio.to_thread(self._stop_client)
        if not self._closed:
            self._client.start_async()

    # --- requests ---------------------------------------------------------------------------

    def watch(self, callback: Callback | None) -> _Watch | None:
        """Return a watch for kazoo by which ``callback`` runs in the loop, once."""
        return None if callback is None else _Watch(self._loop, callback)

    @property
    def last_zxid(self) -> int:
        """The latest transaction named by an answer, at least the one that began the current
        session."""
        return int(self._client.last_zxid)

    async def request(self, submit: Submit, session: SessionNumber | None = None) -> Any:
        """Carry out a request, and repeat it until the connection holds for its answer.

        After a lost connection the request may be carried out twice. The caller's request must
        tolerate that (conditional writes then see their own first attempt as a conflict).
        ``session`` ties it to one session. None means whichever is current, in reads.

        Raises:
            SessionExpired: ``session`` is over.
            ZkClosed: closed before or meanwhile.
            kazoo's NoNodeError, NodeExistsError, BadVersionError, ...: ZooKeeper's answer.
        """
        while True:
            try:
                return await self._attempt(submit, session)
            except ConnectionLoss:
                continue
            except ConnectionClosedError as error:
                if self._closed:
                    raise ZkClosed("the ZooKeeper client was closed") from error
            except SessionExpiredError as error:
                if session is not None:
                    raise SessionExpired(f"ZooKeeper session {session} has expired") from error

    async def once(self, submit: Submit, session: SessionNumber | None = None) -> Any:
        """Carry out a request that must not be repeated blindly. Wait for a connection, then send
        it at most once.

        Raises:
            OutcomeUnknown: no answer came, or ``session`` was over.
            ZkClosed: closed before or meanwhile.
            kazoo's NoNodeError, NodeExistsError, BadVersionError, ...: ZooKeeper's answer.
        """
        try:
            return await self._attempt(submit, session)
        except (ConnectionLoss, SessionExpiredError, SessionExpired) as error:
            raise OutcomeUnknown("no answer from ZooKeeper") from error
        except ConnectionClosedError as error:
            if self._closed:
                raise ZkClosed("the ZooKeeper client was closed") from error
            raise OutcomeUnknown("no answer from ZooKeeper") from error

    async def _attempt(self, submit: Submit, session: SessionNumber | None) -> Any:
        await self._connected.wait()
        await self._slots.acquire()
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._in_flight.add(answer)
        try:
            self._submit(submit, session, answer)
        except BaseException:
            self._release(answer)
            raise
        return await answer

    def _submit(
        self, submit: Submit, session: SessionNumber | None, answer: asyncio.Future[Any]
    ) -> None:
        def completed(result: Any) -> None:
            self._loop.call_soon_threadsafe(self._complete, answer, result)

        if self._closed:
            raise ZkClosed("the ZooKeeper client was closed")
        with self._fence:
            if session is not None and session != self._fenced_number:
                raise SessionExpired(f"ZooKeeper session {session} has expired")
            submit(self._client).rawlink(completed)

    def _complete(self, answer: asyncio.Future[Any], result: Any) -> None:
        self._release(answer)
        if answer.done():
            return
        if result.successful():
            answer.set_result(result.value)
        else:
            answer.set_exception(result.exception)

    def _release(self, answer: asyncio.Future[Any]) -> None:
        """Free the slot once: kazoo may complete a request twice while it is closing."""
        if answer in self._in_flight:
            self._in_flight.discard(answer)
            self._slots.release()

    # --- nodes ------------------------------------------------------------------------------

    async def get(self, path: str, watch: Callback | None = None) -> tuple[bytes, Any] | None:
        """Return a node's data and stat, or None when it does not exist (then ``watch`` is not
        set). A node without data counts as one with empty data."""
        armed = self.watch(watch)
        try:
            data, stat = await self.request(lambda c: c.get_async(path, armed))
        except NoNodeError:
            return None
        return data or b"", stat

    async def children(self, path: str, watch: Callback | None = None) -> list[str]:
        """Return the names of a node's children, none when the node does not exist."""
        armed = self.watch(watch)
        try:
            names: list[str] = await self.request(lambda c: c.get_children_async(path, armed))
        except NoNodeError:
            return []
        return names

    async def children_of(
        self, path: str, watch: Callback | None = None
    ) -> tuple[list[str], int | None]:
        """Return the names of a node's children and the node's czxid, in one request. None and None
        when the node does not exist."""
        armed = self.watch(watch)
        try:
            names, stat = await self.request(
                lambda client: client.get_children_async(path, armed, include_data=True)
            )
        except NoNodeError:
            return [], None
        return names, int(stat.czxid)

    async def ensure(self, path: str) -> None:
        """Create ``path`` and its missing parents, in however many sessions."""
        await self.request(lambda c: c.ensure_path_async(path))

    async def sync(self, path: str, session: SessionNumber | None = None) -> None:
        """Have the server of this session catch up with ZooKeeper's leader: the next reads are no
        older than any earlier answer. ``session`` is as in :meth:`request`. A new session begins at
        the time of its creation."""
        await self.request(lambda c: c.sync_async(path), session)

    async def create(
        self, path: str, data: bytes, session: SessionNumber, *, ephemeral: bool = False
    ) -> int:
        """Create a node below an existing one, and return its czxid.

        Raises:
            NodeExistsError: kazoo's; maybe by our own first attempt, see ZkSession.request.
        """
        _, stat = await self.request(
            lambda c: c.create_async(path, data, ephemeral=ephemeral, include_data=True), session
        )
        return int(stat.czxid)

    async def set(self, path: str, data: bytes, version: int, session: SessionNumber) -> ZkVersion:
        """Write an existing node if it is at ``version`` (-1: any), and return its new version.

        Raises:
            BadVersionError, NoNodeError: kazoo's.
        """
        stat = await self.request(lambda c: c.set_async(path, data, version), session)
        return ZkVersion(stat.version)

    async def put(self, path: str, data: bytes, session: SessionNumber) -> None:
        """Write ``data`` to ``path``, whether it exists or not."""
        try:
            await self.create(path, data, session)
        except NodeExistsError:
            await self.set(path, data, -1, session)


def _run_all(callbacks: list[Callback]) -> None:
    for callback in tuple(callbacks):
        callback()
