"""A client that writes bytes as it likes: many requests at once, or one of them in pieces.

:class:`~broker.server.network.broker_connection.BrokerConnection` writes each request as a whole.
"""

import asyncio
from collections.abc import Iterable, Iterator
from itertools import cycle
from typing import Any

from ackproof.broker.wire.framing import FrameBuffer

RESPONSE_BYTES_MAX = 2**24


class Pipeline(asyncio.Protocol):
    """One connection. Responses are kept as they come."""

    def __init__(self) -> None:
        self.responses: list[bytes] = []
        self.is_lost = False
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self._transport: Any = None
        self._news = asyncio.Event()

    @classmethod
    async def to(cls, host: str, port: int) -> "Pipeline":
        """Raises OSError."""
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(cls, host, port)
        return protocol

    def write(self, pieces: Iterable[bytes]) -> None:
        """Each in a segment of its own."""
        for piece in pieces:
            self._transport.write(piece)

    async def has(self, count: int, within_s: float) -> bool:
        """Whether so many responses have come, or the connection was lost before the time was
        over."""
        try:
            async with asyncio.timeout(within_s):
                while len(self.responses) < count and not self.is_lost:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            pass
        return len(self.responses) >= count

    def pause(self) -> None:
        """Reads nothing for now."""
        self._transport.pause_reading()

    def resume(self) -> None:
        self._transport.resume_reading()

    def hang_up(self) -> None:
        """Whatever was not answered is not waited for."""
        self._transport.abort()

    def close_with_reset(self) -> None:
        """Break the connection off so that the other end does not find it either."""
        self._transport.close_with_reset()

    # --- what the event loop tells ----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_lost = True
        self._news.set()

    def data_received(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            room = self._frames.room()
            count = min(len(room), len(rest))
            room[:count], rest = rest[:count], rest[count:]
            self._frames.filled(count)
            while (payload := self._frames.next()) is not None:
                self.responses.append(bytes(payload))
        self._news.set()


def in_pieces(whole: bytes, sizes: Iterable[int]) -> Iterator[bytes]:
    """``whole``, cut into pieces of ``sizes`` in turn."""
    at = 0
    for size in cycle(sizes):
        if at >= len(whole):
            return
        yield whole[at : at + size]
        at += size
