"""The listening socket: frames in, responses out in the order of their requests.

Requests of one connection are started in the order they came, and may be pipelined: a slow one
does not keep the next from starting, but no response overtakes another. Memory is bounded: a
connection has at most ``PIPELINE`` requests unanswered, then it is not read any further, and a
client that does not read its responses is not read either. Whatever is wrong with a frame closes
that connection and no other; so does silence for ``connections.max.idle.ms``, also in the middle of
a frame. TLS, SASL and quotas on bytes and requests are not handled.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

from broker.config import BrokerConfig, Listener
from broker.server.acceptor import (
    NO_LIMIT,
    NO_LIMITS,
    ConnectionLimits,
    ConnectionQuotas,
    accept_forever,
    listening_socket,
)
from broker.wire.framing import BytesLike, MalformedFrame, read_frame

logger = logging.getLogger(__name__)

PIPELINE = 32
"""Requests of one connection that may be unanswered at a time."""

READ_AHEAD_BYTES = 2**18
"""Where reading from a connection pauses until its requests are taken."""

PEER: ContextVar[str] = ContextVar("PEER", default="")
"""Where the connection comes from whose request is being started."""

LINGER_S = 1.0
"""How long a closed connection may still send what was written."""

Frame: TypeAlias = bytes | list[BytesLike]
"""A response, framed; perhaps in pieces that are sent one after the other."""

Reply: TypeAlias = Frame | Awaitable[Frame | None] | None
"""None when the request gets no response (acks=0)."""

Spawn: TypeAlias = Callable[[Coroutine[None, None, None]], asyncio.Task[None]]


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
    """

    def __init__(self, dispatch: Callable[[bytes], Reply], config: ConnectionConfig) -> None:
        self._dispatch = dispatch
        self._config = config
        self._quotas = ConnectionQuotas(config.limits)
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._open: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many connections are open."""
        return len(self._open)

    async def start(self, listener: Listener, spawn: Spawn = asyncio.create_task) -> None:
        """Binds and listens; raises OSError if the address is taken.

        Args:
            spawn: starts a task that somebody owns.
        """
        self._listening = listening_socket(listener, self._config.backlog)
        self._accepting = spawn(accept_forever(self._listening, self._quotas, self._take))

    @property
    def port(self) -> int:
        """Where it listens, once started."""
        assert self._listening is not None
        return int(self._listening.getsockname()[1])

    async def close(self) -> None:
        """Stops listening and drops every connection."""
        if self._accepting is not None:
            await _end(self._accepting)
        if self._listening is not None:
            self._listening.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _take(self, connection: socket.socket, address: str) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_AHEAD_BYTES)
        protocol = _Protocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        task = asyncio.create_task(
            self._serve(_Connection(self._dispatch, reader, writer, protocol), address)
        )
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, connection: "_Connection", address: str) -> None:
        PEER.set(address)
        try:
            await connection.serve(self._config)
        except asyncio.CancelledError:
            pass  # close() asked for it
        finally:
            await connection.close()
            await self._quotas.leave(address)


class _Protocol(asyncio.StreamReaderProtocol):
    """Remembers when something last arrived, be it half a frame."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        super().__init__(reader)
        self.last_active = 0.0
        self.note_activity()

    def note_activity(self) -> None:
        self.last_active = asyncio.get_running_loop().time()

    def data_received(self, data: bytes) -> None:
        self.note_activity()
        super().data_received(data)


class _Connection:
    def __init__(
        self,
        dispatch: Callable[[bytes], Reply],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        protocol: _Protocol,
    ) -> None:
        self._dispatch = dispatch
        self._reader = reader
        self._writer = writer
        self._protocol = protocol
        self._peer = writer.get_extra_info("peername")
        self._replies: asyncio.Queue[Reply | asyncio.Task[Frame | None]] = asyncio.Queue(PIPELINE)

    async def serve(self, config: ConnectionConfig) -> None:
        answering = asyncio.create_task(self._answer())
        reading = asyncio.create_task(self._read(config.max_request_bytes))
        try:
            await self._until_done_or_idle((answering, reading), config.max_idle_ms)
        finally:
            await _end(answering)
            await _end(reading)
            while not self._replies.empty():
                reply = self._replies.get_nowait()
                if isinstance(reply, asyncio.Task):
                    await _end(reply)

    async def close(self) -> None:
        """Closes the socket; what was not sent is given up when the client takes no more of it."""
        self._writer.close()
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    await self._writer.wait_closed()
        finally:
            self._writer.transport.abort()

    async def _until_done_or_idle(
        self, tasks: tuple[asyncio.Task[None], ...], max_idle_ms: int
    ) -> None:
        loop = asyncio.get_running_loop()
        max_idle_s = max_idle_ms / 1000 if max_idle_ms >= 0 else float(NO_LIMIT)
        while (left := self._protocol.last_active + max_idle_s - loop.time()) > 0:
            done, _ = await asyncio.wait(tasks, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return
        logger.info("Closing the connection from %s: idle for %s ms", self._peer, max_idle_ms)

    async def _read(self, max_request_bytes: int) -> None:
        with self._closing_reasons_logged():
            while (frame := await read_frame(self._reader, max_request_bytes)) is not None:
                reply = self._dispatch(frame)
                if not (reply is None or isinstance(reply, (bytes, list))):
                    reply = asyncio.ensure_future(reply)
                await self._replies.put(reply)

    async def _answer(self) -> None:
        with self._closing_reasons_logged():
            while True:
                reply = await self._replies.get()
                if not (reply is None or isinstance(reply, (bytes, list))):
                    reply = await reply
                if reply is not None:
                    self._writer.writelines(reply if isinstance(reply, list) else (reply,))
                    await self._writer.drain()
                    self._protocol.note_activity()

    @contextlib.contextmanager
    def _closing_reasons_logged(self) -> Iterator[None]:
        try:
            yield
        except (CloseConnection, MalformedFrame) as error:
            logger.warning("Closing the connection from %s: %s", self._peer, error)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError) as error:
            logger.debug("Connection from %s lost: %r", self._peer, error)
        except Exception:
            logger.exception("Closing the connection from %s: request failed", self._peer)


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
