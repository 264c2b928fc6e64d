"""Frames from a stream, and what is in them, for the other end of what is tested."""

import asyncio
import struct
from typing import TypeVar

from ackproof.broker.wire import codec
from ackproof.broker.wire.framing import BytesLike
from ackproof.broker.wire.message import Request, Response

Q = TypeVar("Q", bound=Request[Response])

_SIZE = struct.Struct(">i")


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next frame's payload, None at the end of the stream."""
    try:
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    except asyncio.IncompleteReadError:
        return None
    return await reader.readexactly(size)


def read_request(request_type: type[Q], payload: BytesLike) -> tuple[codec.RequestHeader, Q]:
    """A whole payload, of a request whose type is known."""
    return codec.read_request(request_type, codec.first_fields(payload), payload)
