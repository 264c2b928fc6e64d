"""Size-prefixed frames: four bytes of big-endian length, then that many bytes.

Every request and every response of the Kafka protocol travels in one. Nothing here knows what is
inside.
"""

import asyncio
import struct
from typing import TypeAlias, cast

BytesLike: TypeAlias = bytes | bytearray | memoryview

LARGE_BYTES = 4096
"""From here on a piece of its own is cheaper than a copy."""

_SIZE = struct.Struct(">i")


class MalformedFrame(ValueError):
    """A size prefix that no sane peer sends: negative, or above the limit."""


class FrameWriter:
    """Collects a frame's payload, with its size in front, ready to be sent.

    Large values (records) are kept as they are and never copied: ``pieces`` is for sockets that
    gather.
    """

    __slots__ = ("_pieces", "_small")

    def __init__(self) -> None:
        self._small = bytearray(_SIZE.size)
        self._pieces: list[BytesLike] = [self._small]

    def write(self, value: BytesLike) -> None:
        """Appends ``value``, which must not change any more."""
        if len(value) < LARGE_BYTES:
            self._small += value
        else:
            self._small = bytearray()
            self._pieces += (value, self._small)

    def pieces(self) -> list[BytesLike]:
        """The whole frame; nothing may be written after that."""
        size = sum(map(len, self._pieces)) - _SIZE.size
        first = cast(bytearray, self._pieces[0])
        _SIZE.pack_into(first, 0, size)
        return [piece for piece in self._pieces if piece]


async def read_frame(reader: asyncio.StreamReader, max_bytes: int) -> bytes | None:
    """The next frame's payload, or None when the peer closed the connection between two frames.

    Args:
        max_bytes: ``socket.request.max.bytes``. Checked before anything is read or allocated.

    Raises:
        MalformedFrame: the size is negative or above ``max_bytes``.
        asyncio.IncompleteReadError: the connection ended inside a frame.
    """
    try:
        prefix = await reader.readexactly(_SIZE.size)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    (size,) = _SIZE.unpack(prefix)
    if size < 0 or size > max_bytes:
        raise MalformedFrame(f"frame of {size} bytes, expected 0 to {max_bytes}")
    return await reader.readexactly(size)
