"""Frames from a stream, for the other end of what is tested."""

import asyncio
import struct

_SIZE = struct.Struct(">i")


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame's payload, None at the end of the stream."""
    try:
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    except asyncio.IncompleteReadError:
        return None
    return await reader.readexactly(size)
