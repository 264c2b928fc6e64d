"""The listening socket: frames in, responses out in the order of their requests.

Requests of one connection are started in the order they came, and may be pipelined: a slow one
does not keep the next from starting, but no response overtakes another. Memory is bounded: a
connection has at most ``PIPELINE`` requests unanswered, then it is not read any further, and a
client that does not read its responses is not read either. Whatever is wrong with a frame closes
that connection and no other; so does silence for ``connections.max.idle.ms``, also in the middle of
a frame. TLS, SASL and quotas on bytes and requests are not handled.

What a client still waits for is given up with its connection, and with it what is held for it. What
must not be left in the middle (``Later.to_its_end``) is carried out all the same, as in Kafka,
whose request handler threads nobody interrupts; its answer is dropped.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from ackproof.broker.config import BrokerConfig, Listener
from ackproof.broker.server.network.acceptor import (
    NO_LIMITS,
    ConnectionLimits,
    ConnectionQuotas,
    accept_forever,
    listening_socket,
)
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.wire.framing import BytesLike, FrameBuffer, MalformedFrame

logger = logging.getLogger(__name__)

PIPELINE = 32
"""Requests of one connection that may be unanswered at a time."""


class Peer(NamedTuple):
    """The other end of a connection: its address, and the connection's number, in the order in
    which they were accepted."""

    address: str
    connection: int


NOBODY = Peer("", 0)
PEER: ContextVar[Peer] = ContextVar("PEER", default=NOBODY)
"""Whose request is being started."""

LINGER_S = 1.0
"""How long a closed connection may still send what was written."""

Frame: TypeAlias = bytes | list[BytesLike]
"""A response, framed; perhaps in pieces that are sent one after the other."""


R_co = TypeVar("R_co", covariant=True)


class Later(NamedTuple, Generic[R_co]):
    """A response that is not there yet: what it waits for, and what is made of that then."""

    result: Awaitable[Any]
    then: Callable[[Any], R_co]
    to_its_end: bool = False
    """Also when the client has left, and nobody is told."""


Reply: TypeAlias = Frame | Later[Frame | None] | None
"""None when the request gets no response (acks=0). A Later makes a frame or None."""

Dispatch: TypeAlias = Callable[[bytes | memoryview], Reply]


class CloseConnection(Exception):
    """Raised by a handler: this connection must go; the text says why."""


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """Bounds on connections, in the terms of Kafka's properties.

    ``max_idle_ms`` is ``connections.max.idle.ms``; below 0 no connection is ever too old.
    """

    max_request_bytes: int
    max_idle_ms: int = 600_000
    backlog: int = 50
    limits: ConnectionLimits = NO_LIMITS

    @classmethod
    def of(cls, config: BrokerConfig) -> "ConnectionConfig":
        """The part of the broker's configuration that this is about."""
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
    """Accepts connections and lives as long as the broker.

    Args:
        dispatch: starts one request, given its frame. Raises CloseConnection.
        listen: makes the listening socket, given its backlog.
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
        self._left_behind: set[asyncio.Future[Any]] = set()
        self._numbers = count(1)

    def __len__(self) -> int:
        """How many connections are open."""
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
        """Binds and listens; who connects waits until it is accepted.

        Raises:
            OSError: the address is taken, or none of ours.
        """
        self._listening = self._listen(listener, self._config.backlog)

    def accept(self, spawn: Spawn = asyncio.create_task) -> None:
        """Accepts, from now on, also those that have waited since it was bound.

        Args:
            spawn: starts a task that somebody owns.
        """
        assert self._listening is not None
        self._accepting = spawn(accept_forever(self._listening, self._quotas, self._take))

    @property
    def port(self) -> int:
        """Where it listens, once bound."""
        assert self._listening is not None
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Stops listening and drops every connection."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        await asyncio.gather(*self.drop(), return_exceptions=True)

    def drop(self) -> list[asyncio.Future[Any]]:
        """The same without waiting, when nobody accepts any more; returns what is ending."""
        if self._listening is not None:
            self._listening.close()
        ended: list[asyncio.Future[Any]] = [*self._open.values()]
        for connection in tuple(self._open):
            ended += connection.close()
        for work in tuple(self._left_behind):
            work.cancel()
            ended.append(work)
        return ended

    def _leave_behind(self, work: asyncio.Future[Any]) -> None:
        """Has it done by the end of the broker, though its client has left: kept until then,
        because the event loop does not."""
        self._left_behind.add(work)
        work.add_done_callback(self._left_behind.discard)
        work.add_done_callback(_report)

    async def _take(self, connection: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()

        def lost(protocol: _Connection) -> None:
            gone = self._open.pop(protocol, None)
            if gone is not None:
                self._quotas.leave(address)
                gone.set_result(None)

        peer = Peer(address, next(self._numbers))
        taken = _Connection(self._dispatch, self._config, peer, lost, self._leave_behind)
        self._open[taken] = loop.create_future()
        try:
            await loop.connect_accepted_socket(lambda: taken, connection)
        except BaseException:
            self._open.pop(taken, None)
            raise


class _Connection(asyncio.BufferedProtocol):
    """One connection, from the event loop's hands.

    ``_replies`` are those of the requests that were started and not answered, in their order. The
    connection is read while there is room for more of them and the client takes its responses;
    else it is held.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        config: ConnectionConfig,
        peer: Peer,
        lost: Callable[["_Connection"], None],
        leave_behind: Callable[[asyncio.Future[Any]], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._dispatch = dispatch
        self._peer = peer
        self._lost = lost
        self._leave_behind = leave_behind
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
        """Closes the socket; what was not sent is given up when the client takes no more of it.

        Returns:
            The requests that were given up, cancelled.
        """
        given_up = []
        unanswered = [reply for reply in self._replies if isinstance(reply, Later)]
        self._replies.clear()
        for reply in unanswered:
            result = cast(asyncio.Future[Any], reply.result)
            if reply.to_its_end:
                result.remove_done_callback(self._answered)
                self._leave_behind(result)
            else:
                result.cancel()
                given_up.append(result)
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._set_timer(LINGER_S, self._transport.abort)
        return given_up

    # --- what the event loop tells ----------------------------------------------------------

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
        self._go_on(arrived=True)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._last_active = self._loop.time()
        self._go_on()

    # --- requests and responses -------------------------------------------------------------

    def _go_on(self, *, arrived: bool = False) -> None:
        """Sends the responses that are due and starts the requests that are there: none, unless
        bytes have ``arrived`` or the connection was held until now."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        try:
            if self._replies:
                self._send_those_ready(transport)
            if arrived or self._held:
                self._start_those_there(transport)
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
        """Reads no further as long as no request can be started."""
        is_full = len(self._replies) >= PIPELINE or not self._writable
        if self._held != is_full:
            self._held = is_full
            (transport.pause_reading if is_full else transport.resume_reading)()

    def _start_those_there(self, transport: asyncio.Transport) -> None:
        """Starts requests, as far as they are there as a whole and there is room for them.

        A coroutine begins in the loop's next turn, and the next request after it. DeleteRecords
        and ListOffsets arrive in one piece: answered at once, the second would tell the log's
        start before the first has moved it.
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
                self._send_those_ready(transport)

    def _begun(self) -> None:
        self._beginning = False
        self._go_on(arrived=True)

    def _answered(self, result: asyncio.Future[Any]) -> None:
        if self._replies:
            self._go_on()
        else:
            _report(result)

    def _send_those_ready(self, transport: asyncio.Transport) -> None:
        """Sends responses up to the first that is not there yet, while the client takes them."""
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
