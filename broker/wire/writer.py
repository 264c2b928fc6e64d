"""The fields of a message, written one after the other into a frame."""

import struct
import uuid
from collections.abc import Sequence
from typing import Protocol

from ackproof.broker.wire.framing import BytesLike, FrameWriter
from ackproof.broker.wire.reader import NIL

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NULL = -1


def to_varint(value: int) -> bytes:
    """Encode ``value``, which is not negative, as an unsigned varint."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_SMALL = [to_varint(value) for value in range(0x80)]


class Struct(Protocol):
    """A message, or a part of one."""

    def write(self, writer: "Writer", version: int) -> None:
        """Append all fields of that version."""
        ...


class Writer(FrameWriter):
    """Writes the fields of a version that is not flexible: lengths of two and four bytes.

    Callers pack fields of fixed size together, because they know which follow each other: ``put``.
    """

    __slots__ = ()

    def string(self, value: str | None) -> None:
        """Write text, or null."""
        if value is None:
            self.put(self._short_length(_NULL))
        else:
            encoded = value.encode()
            self.put(self._short_length(len(encoded)) + encoded)

    def blob(self, value: BytesLike | None) -> None:
        """Write bytes or record batches, or null. Large ones are not copied."""
        if value is None:
            self.put(self._length(_NULL))
        else:
            self.put(self._length(len(value)))
            self.write(value)

    def structs(self, structs: Sequence["Struct"] | None, version: int) -> None:
        """Write an array of structs, or null."""
        if structs is None:
            self.put(self._length(_NULL))
        else:
            self.put(self._length(len(structs)))
            for struct_ in structs:
                struct_.write(self, version)

    def strings(self, values: Sequence[str] | None) -> None:
        """Write an array of texts, or null."""
        if values is None:
            self.put(self._length(_NULL))
        else:
            self.put(self._length(len(values)))
            for value in values:
                self.string(value)

    def int32s(self, values: Sequence[int] | None) -> None:
        """Write an array of numbers, or null."""
        if values is None:
            self.put(self._length(_NULL))
        else:
            count = len(values)
            self.put(self._length(count) + struct.pack(f">{count}i", *values))

    def no_tags(self) -> None:
        """Write that there are no tagged fields, at the end of a struct of a flexible version."""
        self._small.append(0)

    def payload(self) -> bytes:
        """Return the written bytes, without a frame's size. Nothing may be written after that."""
        return b"".join(self.pieces())[_INT32.size :]

    def _short_length(self, size: int) -> bytes:
        return _INT16.pack(size)

    def _length(self, size: int) -> bytes:
        return _INT32.pack(size)


class FlexibleWriter(Writer):
    """Writes the fields of a flexible version: lengths are varints, one more than they say."""

    __slots__ = ()

    def _short_length(self, size: int) -> bytes:
        return _SMALL[size + 1] if size < 0x7F else to_varint(size + 1)

    def _length(self, size: int) -> bytes:
        return _SMALL[size + 1] if size < 0x7F else to_varint(size + 1)


def uuid_bytes(value: uuid.UUID | None) -> bytes:
    """Return the 16 bytes of an id, which are zero for none."""
    return NIL if value is None else value.bytes
