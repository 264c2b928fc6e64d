"""Size-prefixed frames: four bytes of big-endian length, then that many bytes.

Every request and every response of the Kafka protocol is sent in one. Nothing here knows its
content.
"""

import struct
from typing import TypeAlias, cast

BytesLike: TypeAlias = bytes | bytearray | memoryview

LARGE_BYTES = 4096
"""The size from which on a piece of its own is cheaper than a copy."""

CHUNK_BYTES = 2**16
"""The size of one read from a connection. Frames from this size on get a buffer of their own."""

GROWTH_BYTES = 2**20
"""The most by which a frame's buffer exceeds twice the bytes that were really sent."""

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
        """Append ``value``, which must not change any more."""
        if len(value) < LARGE_BYTES:
            self._small += value
        else:
            self._small = bytearray()
            self._pieces += (value, self._small)

    def put(self, value: bytes) -> None:
        """Append a value that is known to be small."""
        self._small += value

    def pieces(self) -> list[BytesLike]:
        """Return the whole frame. Nothing may be written after that."""
        first = cast(bytearray, self._pieces[0])
        if first is self._small:
            _SIZE.pack_into(first, 0, len(first) - _SIZE.size)
            return self._pieces
        size = sum(map(len, self._pieces)) - _SIZE.size
        _SIZE.pack_into(first, 0, size)
        return [piece for piece in self._pieces if piece]


class FrameBuffer:
    """Takes bytes as they arrive and returns whole frames' payloads, for asyncio.BufferedProtocol.

    Memory follows what was really sent, not what a size prefix claims: the buffer for a large frame
    grows as it fills. A large frame gets a buffer of its own, which is returned with it and not
    copied.

    Args:
        max_bytes: ``socket.request.max.bytes``; a larger frame is rejected before it is read.
    """

    __slots__ = ("_begin", "_buffer", "_end", "_max_bytes")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = memoryview(bytearray(CHUNK_BYTES))
        self._begin = self._end = 0

    def room(self) -> memoryview:
        """Return the buffer for the next bytes."""
        if self._begin == self._end and len(self._buffer) == CHUNK_BYTES:
            self._begin = self._end = 0
            return self._buffer
        if self._end == len(self._buffer) or self._begin == self._end:
            self._make_room()
        return self._buffer[self._end :]

    def filled(self, count: int) -> None:
        """Note that ``count`` bytes were put there."""
        self._end += count

    def next(self) -> bytes | memoryview | None:
        """Return the next whole frame's payload, or None until more has arrived.

        Raises:
            MalformedFrame: the size is negative or above ``max_bytes``.
        """
        if self._begin == self._end:
            return None
        size = self._size()
        first = self._begin + _SIZE.size
        if size is None or first + size > self._end:
            return None
        payload = self._buffer[first : first + size]
        self._begin = first + size
        if size < CHUNK_BYTES:
            return bytes(payload)
        self._replace(CHUNK_BYTES)
        return payload.toreadonly()

    def _size(self) -> int | None:
        if self._end - self._begin < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, self._begin)
        if size < 0 or size > self._max_bytes:
            raise MalformedFrame(f"frame of {size} bytes, expected 0 to {self._max_bytes}")
        return int(size)

    def _make_room(self) -> None:
        """Move the remaining bytes to the start of the buffer, and enlarge it if they fill it."""
        left = self._end - self._begin
        missing = _SIZE.size + (self._size() or 0) - left
        if missing <= 0:  # whole frames, not taken yet
            missing = left
        self._replace(max(CHUNK_BYTES, left + min(missing, left + GROWTH_BYTES)))

    def _replace(self, capacity: int) -> None:
        rest = self._buffer[self._begin : self._end]
        self._buffer = memoryview(bytearray(max(capacity, len(rest))))
        self._buffer[: len(rest)] = rest
        self._begin, self._end = 0, len(rest)
