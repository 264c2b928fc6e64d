"""The bytes of a message, read from the first to the last, each once.

No claim in the bytes is trusted beyond the remaining bytes: a length that does not fit is rejected
before anything is built of it. Callers catch the errors in :data:`UNREADABLE`.
"""

import struct
import uuid
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Self, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.framing import BytesLike

T = TypeVar("T")

ELEMENTS_MAX = 2**20
"""The limit of array elements in one message. An element of two bytes becomes an object of some
hundred. Without a limit, a request of ``socket.request.max.bytes`` would take tens of gigabytes."""

NIL: Final = bytes(16)
"""The id that means none."""

IDS_REMEMBERED = 1024
"""The number of cached ids. Those of a broker's topics recur, and to create a ``UUID`` takes its
time."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VARINT_BYTES_MAX = 5
_NULL = -1
_ERRORS: Final = {int(error): error for error in ErrorCode}


class MalformedMessage(ValueError):
    """Bytes that are not a valid message. The text says which message and what is wrong."""


UNREADABLE: Final = (MalformedMessage, UnicodeDecodeError, struct.error, IndexError)
"""The errors of reading bytes that are no message. The last two occur where they end before a field
does."""


class Reader:
    """Reads the fields of a version that is not flexible: lengths of two and four bytes.

    ``at`` is the position of the next field.
    """

    __slots__ = ("_elements_left", "at", "data")

    def __init__(self, data: BytesLike, at: int = 0) -> None:
        self.data = data
        self.at = at
        self._elements_left = ELEMENTS_MAX

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        """Read consecutive fields of fixed size."""
        at = self.at
        self.at = at + form.size
        return form.unpack_from(self.data, at)

    def text(self, size: int) -> str:
        """Read text of so many bytes."""
        return str(self._take(self._not_below_null(size)), "utf-8")

    def string(self) -> str:
        """Read text that is not null."""
        return str(self._take(self._not_null(self._short_length())), "utf-8")

    def nullable_string(self) -> str | None:
        """Read text, or null."""
        size = self._short_length()
        return None if size == _NULL else str(self._take(size), "utf-8")

    def blob(self) -> bytes:
        """Read bytes that are not null, as a copy: they may outlive the frame."""
        return bytes(self._take(self._not_null(self._length())))

    def nullable_blob(self) -> bytes | None:
        """Read bytes as a copy, or null."""
        size = self._length()
        return None if size == _NULL else bytes(self._take(size))

    def nullable_records(self) -> BytesLike | None:
        """Read record batches, or null. From a frame with a buffer of its own, they are a part of
        that buffer."""
        size = self._length()
        return None if size == _NULL else self._take(size)

    def structs(self, read: Callable[[Self, int], T], version: int) -> tuple[T, ...]:
        """Read an array of structs that is not null."""
        count = self._length()
        if count == 0:
            return ()
        self._admitted(self._not_null(count))
        if count == 1:  # as in nearly all messages that are sent with every record
            return (read(self, version),)
        return tuple([read(self, version) for _ in range(count)])

    def nullable_structs(
        self, read: Callable[[Self, int], T], version: int
    ) -> tuple[T, ...] | None:
        """Read an array of structs, or null."""
        count = self._length()
        if count == _NULL:
            return None
        return tuple([read(self, version) for _ in range(self._admitted(count))])

    def strings(self) -> tuple[str, ...]:
        """Read an array of texts that is not null."""
        count = self._admitted(self._not_null(self._length()))
        return tuple([self.string() for _ in range(count)])

    def nullable_strings(self) -> tuple[str, ...] | None:
        """Read an array of texts, or null."""
        count = self._length()
        if count == _NULL:
            return None
        return tuple([self.string() for _ in range(self._admitted(count))])

    def int32s(self) -> tuple[Any, ...]:
        """Read an array of numbers that is not null."""
        return self._int32s(self._not_null(self._length()))

    def nullable_int32s(self) -> tuple[Any, ...] | None:
        """Read an array of numbers, or null."""
        count = self._length()
        return None if count == _NULL else self._int32s(count)

    def skip_tags(self) -> None:
        """Skip the tagged fields of a struct, none of which is used here (KIP-482)."""
        if self.data[self.at] == 0:
            self.at += 1
            return
        for _ in range(self._admitted(self._varint())):
            self._varint()
            self._take(self._varint())

    def _int32s(self, count: int) -> tuple[Any, ...]:
        at = self.at
        self.at = at + 4 * self._admitted(count)
        return struct.unpack_from(f">{count}i", self.data, at)

    def _take(self, size: int) -> BytesLike:
        at = self.at
        end = at + size
        if end > len(self.data):
            raise MalformedMessage(f"{len(self.data)} bytes, but a length in them asks for {end}")
        self.at = end
        return self.data[at:end]

    def _admitted(self, count: int) -> int:
        """Return ``count`` if so many elements are possible, each of which takes at least a
        byte."""
        self._elements_left -= count
        if count > len(self.data) - self.at or self._elements_left < 0:
            raise MalformedMessage(f"an array at byte {self.at} claims {count} elements")
        return count

    def _not_null(self, size: int) -> int:
        if size == _NULL:
            raise MalformedMessage(f"null before byte {self.at}, where there is none")
        return size

    # --- lengths; -1 is null ------------------------------------------------------------------

    def _short_length(self) -> int:
        (size,) = _INT16.unpack_from(self.data, self.at)
        self.at += 2
        return self._not_below_null(size)

    def _length(self) -> int:
        (size,) = _INT32.unpack_from(self.data, self.at)
        self.at += 4
        return self._not_below_null(size)

    def _not_below_null(self, size: int) -> int:
        if size < _NULL:
            raise MalformedMessage(f"length {size} before byte {self.at}")
        return size

    def _varint(self) -> int:
        at = self.at
        value = self.data[at]
        if value < 0x80:
            self.at = at + 1
            return value
        value &= 0x7F
        for number in range(1, _VARINT_BYTES_MAX):
            byte = self.data[at + number]
            value |= (byte & 0x7F) << (7 * number)
            if byte < 0x80:
                self.at = at + number + 1
                return value
        raise MalformedMessage(f"the varint at byte {at} does not end")


class FlexibleReader(Reader):
    """Reads the fields of a flexible version: lengths are varints, one more than they say."""

    __slots__ = ()

    def _short_length(self) -> int:
        return self._varint() - 1

    def _length(self) -> int:
        return self._varint() - 1


def error(code: int) -> ErrorCode:
    """Return the error of that code. Raise MalformedMessage if Kafka has none."""
    try:
        return _ERRORS[code]
    except KeyError:
        raise MalformedMessage(f"there is no error code {code}") from None


@lru_cache(IDS_REMEMBERED)
def uuid_of(raw: bytes) -> uuid.UUID | None:
    """Return the id of these 16 bytes, or None for :data:`NIL`."""
    return None if raw == NIL else uuid.UUID(bytes=raw)
