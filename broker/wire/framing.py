"""Size-prefixed frames: four bytes of big-endian length, then that many bytes.

Every request and every response of the Kafka protocol travels in one. Nothing here knows what is
inside.
"""

import asyncio
import struct

_SIZE = struct.Struct(">i")


class MalformedFrame(ValueError):
    """A size prefix that no sane peer sends: negative, or above the limit."""


def frame(payload: bytes | memoryview) -> bytes:
    """``payload`` with its size in front, ready to be sent."""
    return b"".join((_SIZE.pack(len(payload)), payload))


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
