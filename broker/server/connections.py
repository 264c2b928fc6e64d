"""The listening socket: frames in, responses out in the order of their requests.

Requests of one connection are started in the order they came, and may be pipelined: a slow one
does not keep the next from starting, but no response overtakes another. Memory is bounded: a
connection has at most ``PIPELINE`` requests unanswered, then it is not read any further, and a
client that does not read its responses is not read either. Whatever is wrong with a frame closes
that connection and no other. TLS, SASL and quotas are not handled.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

from broker.config import Listener
from broker.wire.framing import MalformedFrame, read_frame

logger = logging.getLogger(__name__)

PIPELINE = 32
"""Requests of one connection that may be unanswered at a time."""

Reply: TypeAlias = bytes | Awaitable[bytes | None] | None
"""A response, framed; None when the request gets no response (acks=0)."""


class CloseConnection(Exception):
    """Raised by a handler: this connection must go; the text says why."""


class Connections:
    """Accepts connections and lives as long as the broker.

    Args:
        dispatch: starts one request, given its frame. Raises CloseConnection.
        max_request_bytes: ``socket.request.max.bytes``.
    """

    def __init__(self, dispatch: Callable[[bytes], Reply], max_request_bytes: int) -> None:
        self._dispatch = dispatch
        self._max_request_bytes = max_request_bytes
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, listener: Listener) -> None:
        """Binds and listens; raises OSError if the address is taken."""
        self._server = await asyncio.start_server(
            self._accept, listener.host or None, listener.port, limit=2**18
        )

    @property
    def port(self) -> int:
        """Where it listens, once started."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stops listening and drops every connection."""
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        connection = _Connection(self._dispatch, reader, writer)
        try:
            await connection.serve(self._max_request_bytes)
        except asyncio.CancelledError:
            pass  # close() asked for it
        finally:
            self._open.discard(task)
            writer.close()


class _Connection:
    def __init__(
        self,
        dispatch: Callable[[bytes], Reply],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._dispatch = dispatch
        self._reader = reader
        self._writer = writer
        self._peer = writer.get_extra_info("peername")
        self._replies: asyncio.Queue[Reply | asyncio.Task[bytes | None]] = asyncio.Queue(PIPELINE)

    async def serve(self, max_request_bytes: int) -> None:
        answering = asyncio.create_task(self._answer())
        reading = asyncio.create_task(self._read(max_request_bytes))
        try:
            await asyncio.wait((answering, reading), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(answering)
            await _end(reading)
            while not self._replies.empty():
                reply = self._replies.get_nowait()
                if isinstance(reply, asyncio.Task):
                    await _end(reply)

    async def _read(self, max_request_bytes: int) -> None:
        with self._closing_reasons_logged():
            while (frame := await read_frame(self._reader, max_request_bytes)) is not None:
                reply = self._dispatch(frame)
                if not (reply is None or isinstance(reply, bytes)):
                    reply = asyncio.ensure_future(reply)
                await self._replies.put(reply)

    async def _answer(self) -> None:
        with self._closing_reasons_logged():
            while True:
                reply = await self._replies.get()
                if not (reply is None or isinstance(reply, bytes)):
                    reply = await reply
                if reply is not None:
                    self._writer.write(reply)
                    await self._writer.drain()

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
