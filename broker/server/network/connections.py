"""The listening socket: frames in, responses out in the order of their requests.

Requests of one connection are started in the order of their arrival, and may be pipelined. A slow
one does not delay the start of the next, but no response overtakes another. Memory is limited: a
connection with ``PIPELINE`` unanswered requests is not read any further, nor is a client that does
not read its responses. An invalid frame closes its own connection and no other. So does silence for
``connections.max.idle.ms``, even in the middle of a frame. Not handled: TLS, SASL, and quotas on
bytes and requests.

Waiting requests are given up with their connection, and so is what is held for them. A request that
must not be interrupted (``Later.to_its_end``) is carried out all the same. This is as in Kafka,
whose request handler threads are never interrupted. Its answer is dropped.
"""

import asyncio
import contextlib
import ipaddress
import logging
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from ackproof.broker.config import BrokerConfig, Listener
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.wire.framing import BytesLike, FrameBuffer, MalformedFrame

# --- acceptance -----------------------------------------------------------------------------------
#
# Acceptance of connections: Kafka's ``max.connections``, and new connections.
#
# At ``max.connections`` no connection is accepted until another closes. New ones wait in the
# kernel's queue (``socket.listen.backlog.size``). Above ``max.connections.per.ip`` a new connection
# is closed at once. If file descriptors run out, accepting pauses. Not handled: limits and rates
# per listener (KIP-402, KIP-612), because there is one listener.


logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""The pause after the system could not provide a socket."""

NO_LIMIT = 2**31 - 1

Take = Callable[[socket.socket, str], Awaitable[None]]
"""A function that takes a new connection: its socket, and the address it came from."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """``max.connections``, ``max.connections.per.ip`` and its overrides by address."""

    total: int = NO_LIMIT
    per_ip: int = NO_LIMIT
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)

    def of(self, address: str) -> int:
        """Return how many connections may come from ``address``."""
        return self.per_ip_overrides.get(address, self.per_ip)


NO_LIMITS = ConnectionLimits()


class ConnectionQuotas:
    """The counts of open connections."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        self._by_address: Counter[str] = Counter()
        self._left = asyncio.Event()

    @property
    def total(self) -> int:
        """The number of counted connections."""
        return self._by_address.total()

    async def room(self) -> None:
        """Wait until there are fewer than ``max.connections``."""
        while self.total >= self._limits.total:
            self._left.clear()
            await self._left.wait()

    def enter(self, address: str) -> bool:
        """Count one more from ``address``. Return False if that would be one too many."""
        if self._by_address[address] >= self._limits.of(address):
            return False
        self._by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Count one less from ``address``."""
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self._left.set()


def listening_socket(listener: Listener, backlog: int) -> socket.socket:
    """Return a listening socket. Without a host it listens on every address, with IPv6 if
    available.

    Raises:
        OSError: the address is taken, or none of ours.
    """
    everywhere = not listener.host and socket.has_dualstack_ipv6()
    if everywhere:
        family = socket.AF_INET6
    else:
        ((family, *_), *_) = socket.getaddrinfo(
            listener.host or "0.0.0.0", listener.port, type=socket.SOCK_STREAM
        )
    listening = socket.create_server(
        (listener.host, listener.port),
        family=family,
        backlog=backlog,
        dualstack_ipv6=everywhere,
    )
    listening.setblocking(False)
    return listening


async def accept_forever(listening: socket.socket, quotas: ConnectionQuotas, take: Take) -> None:
    """Accept connections and pass them to ``take``, until cancelled. Whatever takes a connection
    must count it out of the quotas again."""
    loop = asyncio.get_running_loop()
    while True:
        await quotas.room()
        try:
            connection, (host, *_) = await loop.sock_accept(listening)
        except ConnectionAbortedError:
            continue
        except OSError as error:
            logger.warning("Cannot accept connections, trying again: %s", error)
            await asyncio.sleep(RETRY_S)
            continue
        address = _without_mapping(host)
        if not quotas.enter(address):
            logger.info("Closing a connection from %s: it has too many", address)
            connection.close()
            continue
        try:
            await take(connection, address)
        except OSError as error:
            logger.debug("Connection from %s lost at once: %s", address, error)
            connection.close()
            quotas.leave(address)


def _without_mapping(host: str) -> str:
    """Return ``127.0.0.1`` for ``::ffff:127.0.0.1``, which a socket for both families reports."""
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(host)
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            return str(address.ipv4_mapped)
    return host


# --- connections ----------------------------------------------------------------------------------


PIPELINE = 32
"""The limit of unanswered requests of one connection."""


class Peer(NamedTuple):
    """The other end of a connection: its address, and the connection's number in the order of
    acceptance."""

    address: str
    connection: int


NO_PEER = Peer("", 0)
PEER: ContextVar[Peer] = ContextVar("PEER", default=NO_PEER)
"""The client whose request is being started."""

LINGER_S = 1.0
"""The time for which a closed connection may still send written data."""

Frame: TypeAlias = bytes | list[BytesLike]
"""A framed response, perhaps in pieces that are sent one after the other."""


R_co = TypeVar("R_co", covariant=True)


class Later(NamedTuple, Generic[R_co]):
    """A future response: what it waits for, and the function that makes the response of its
    result."""

    result: Awaitable[Any]
    then: Callable[[Any], R_co]
    to_its_end: bool = False
    """Whether it is finished even when the client has disconnected."""


Reply: TypeAlias = Frame | Later[Frame | None] | None
"""The reply to a request. None when it gets no response (acks=0). A Later makes a frame or None."""

Dispatch: TypeAlias = Callable[[bytes | memoryview], Reply]


class CloseConnection(Exception):
    """Raised by a handler to close this connection. The text gives the reason."""


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """The limits of connections, in the terms of Kafka's properties.

    ``max_idle_ms`` is ``connections.max.idle.ms``. Below 0 no connection is ever idle for too long.
    """

    max_request_bytes: int
    max_idle_ms: int = 600_000
    backlog: int = 50
    limits: ConnectionLimits = NO_LIMITS

    @classmethod
    def of(cls, config: BrokerConfig) -> "ConnectionConfig":
        """Return the limits in the broker's configuration."""
        return cls(
            max_request_bytes=config.socket_request_max_bytes,
            max_idle_ms=config.connections_max_idle_ms,
            backlog=config.socket_listen_backlog_size,
            limits=ConnectionLimits(
                total=config.max_connections,
                per_ip=config.max_connections_per_ip,
                per_ip_overrides=dict(config.max_connections_per_ip_overrides),
            ),
        )


class Connections:
    """The connections of a broker, from its start to its end.

    Args:
        dispatch: starts one request, given its frame. Raises CloseConnection.
        listen: creates the listening socket, given its backlog.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        config: ConnectionConfig,
        listen: Callable[[Listener, int], socket.socket] = listening_socket,
    ) -> None:
        self._dispatch = dispatch
        self._config = config
        self._listen = listen
        self._quotas = ConnectionQuotas(config.limits)
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._open: dict[_Connection, asyncio.Future[None]] = {}
        self._finishing: set[asyncio.Future[Any]] = set()
        self._numbers = count(1)

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._open)

    @property
    def unanswered(self) -> int:
        """The number of requests of open connections that are not answered yet."""
        return sum(connection.unanswered for connection in self._open)

    @property
    def counted(self) -> int:
        """The number of connections that count for ``max.connections``."""
        return self._quotas.total

    def bind(self, listener: Listener) -> None:
        """Bind and listen. New connections wait until they are accepted.

        Raises:
            OSError: the address is taken, or none of ours.
        """
        self._listening = self._listen(listener, self._config.backlog)

    def accept(self, spawn: Spawn = asyncio.create_task) -> None:
        """Accept connections from now on, including those that have waited since ``bind``.

        Args:
            spawn: starts a task that has an owner.
        """
        assert self._listening is not None
        self._accepting = spawn(accept_forever(self._listening, self._quotas, self._take))

    @property
    def port(self) -> int:
        """The port on which it listens, once bound."""
        assert self._listening is not None
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        await asyncio.gather(*self.drop(), return_exceptions=True)

    def drop(self) -> list[asyncio.Future[Any]]:
        """Drop all connections without waiting, when none is accepted any more. Return the futures
        of what is ending."""
        if self._listening is not None:
            self._listening.close()
        ended: list[asyncio.Future[Any]] = [*self._open.values()]
        for connection in tuple(self._open):
            ended += connection.close()
        for work in tuple(self._finishing):
            work.cancel()
            ended.append(work)
        return ended

    def _finish_later(self, work: asyncio.Future[Any]) -> None:
        """Have work finished by the end of the broker, though its client has disconnected. It is
        kept until then, because the event loop does not keep it."""
        self._finishing.add(work)
        work.add_done_callback(self._finishing.discard)
        work.add_done_callback(_report)

    async def _take(self, connection: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()

        def lost(protocol: _Connection) -> None:
            gone = self._open.pop(protocol, None)
            if gone is not None:
                self._quotas.leave(address)
                gone.set_result(None)

        peer = Peer(address, next(self._numbers))
        taken = _Connection(self._dispatch, self._config, peer, lost, self._finish_later)
        self._open[taken] = loop.create_future()
        try:
            await loop.connect_accepted_socket(lambda: taken, connection)
        except BaseException:
            self._open.pop(taken, None)
            raise


class _Connection(asyncio.BufferedProtocol):
    """One connection, driven by the event loop.

    ``_replies`` are those of the requests that were started and not answered, in their order. The
    connection is read while there is room for more of them and the client takes its responses.
    Otherwise it is held.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        config: ConnectionConfig,
        peer: Peer,
        lost: Callable[["_Connection"], None],
        finish_later: Callable[[asyncio.Future[Any]], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._dispatch = dispatch
        self._peer = peer
        self._lost = lost
        self._finish_later = finish_later
        self._frames = FrameBuffer(config.max_request_bytes)
        self._replies: deque[Frame | Later[Frame | None]] = deque()
        self._transport: asyncio.Transport | None = None
        self._writable = True
        self._held = False
        self._beginning = False
        self._max_idle_s = config.max_idle_ms / 1000
        self._last_active = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def unanswered(self) -> int:
        """The number of requests that are not answered yet."""
        return sum(isinstance(reply, Later) for reply in self._replies)

    def close(self) -> Iterable[asyncio.Future[Any]]:
        """Close the socket. Unsent responses are given up when the client takes no more of them.

        Returns:
            The requests that were given up, cancelled.
        """
        abandoned = []
        unanswered = [reply for reply in self._replies if isinstance(reply, Later)]
        self._replies.clear()
        for reply in unanswered:
            result = cast(asyncio.Future[Any], reply.result)
            if reply.to_its_end:
                result.remove_done_callback(self._answered)
                self._finish_later(result)
            else:
                result.cancel()
                abandoned.append(result)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._set_timer(LINGER_S, self._transport.abort)
        return abandoned

    # --- callbacks of the event loop --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._max_idle_s >= 0:
            self._set_timer(self._max_idle_s, self._close_if_idle)

    def connection_lost(self, exc: Exception | None) -> None:
        logger.debug("Connection from %s lost: %r", self._peer.address, exc)
        if self._timer is not None:
            self._timer.cancel()
        self._lost(self)
        self._transport = None
        self.close()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._last_active = self._loop.time()
        self._frames.filled(nbytes)
        self._continue(arrived=True)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._last_active = self._loop.time()
        self._continue()

    # --- requests and responses -------------------------------------------------------------

    def _continue(self, *, arrived: bool = False) -> None:
        """Send the responses that are due and start the requests that have arrived. No request is
        started unless bytes have ``arrived`` or the connection was held until now."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        try:
            if self._replies:
                self._send_ready_answers(transport)
            if arrived or self._held:
                self._start_received_requests(transport)
        except (CloseConnection, MalformedFrame) as error:
            logger.warning("Closing the connection from %s: %s", self._peer.address, error)
            self.close()
        except asyncio.CancelledError:
            self.close()
        except Exception:
            logger.exception("Closing the connection from %s: request failed", self._peer.address)
            self.close()
        else:
            self._hold(transport)

    def _hold(self, transport: asyncio.Transport) -> None:
        """Stop reading as long as no request can be started."""
        is_full = len(self._replies) >= PIPELINE or not self._writable
        if self._held != is_full:
            self._held = is_full
            (transport.pause_reading if is_full else transport.resume_reading)()

    def _start_received_requests(self, transport: asyncio.Transport) -> None:
        """Start requests, as far as they have arrived completely and there is room for them.

        A coroutine begins in the loop's next turn, and the next request after it. Suppose
        DeleteRecords and ListOffsets arrive in one piece. If both were answered at once, the second
        would return the log's start before the first has moved it.
        """
        while len(self._replies) < PIPELINE and self._writable and not self._beginning:
            frame = self._frames.next()
            if frame is None:
                return
            PEER.set(self._peer)
            reply = self._dispatch(frame)
            if isinstance(reply, Later):
                result = asyncio.ensure_future(reply.result)
                result.add_done_callback(self._answered)
                self._replies.append(reply._replace(result=result))
                if result is not reply.result:
                    self._beginning = True
                    self._loop.call_soon(self._begun)
            elif reply is not None:
                self._replies.append(reply)
            if self._replies:
                self._send_ready_answers(transport)

    def _begun(self) -> None:
        self._beginning = False
        self._continue(arrived=True)

    def _answered(self, result: asyncio.Future[Any]) -> None:
        if self._replies:
            self._continue()
        else:
            _report(result)

    def _send_ready_answers(self, transport: asyncio.Transport) -> None:
        """Send responses up to the first that is not ready, while the client takes them."""
        while self._replies and self._writable:
            frame = self._replies[0]
            if isinstance(frame, Later):
                result = cast(asyncio.Future[Any], frame.result)
                if not result.done():
                    return
                frame = frame.then(result.result())
            self._replies.popleft()
            if frame is not None:
                transport.writelines(frame if isinstance(frame, list) else (frame,))
                self._last_active = self._loop.time()

    # --- time -------------------------------------------------------------------------------

    def _close_if_idle(self) -> None:
        left = self._last_active + self._max_idle_s - self._loop.time()
        if left > 0:
            self._set_timer(left, self._close_if_idle)
        else:
            logger.info("Closing the connection from %s: idle", self._peer.address)
            self.close()

    def _set_timer(self, delay_s: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, then)


def _report(result: asyncio.Future[Any]) -> None:
    if not result.cancelled() and (error := result.exception()) is not None:
        logger.debug("A request of a client that has left failed", exc_info=error)
