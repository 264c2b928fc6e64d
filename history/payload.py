"""Record values that say whose they are.

A value holds a magic number, a CRC-32C of all that follows it, producer, sequence, cell and
padding up to the size asked for. The final read then needs no look-up to tell which send a record
came from, and a damaged value is seen as such, wherever the damage lies. The padding is not
zeros, which is what a file system gives back for blocks that it lost.
"""

import struct
from typing import NamedTuple

import crc32c

MAGIC = b"AKP1"
_HEAD = struct.Struct(">4sI")
_BODY = struct.Struct(">iqH")
_WHOLE = struct.Struct(">4sIiqH")
"""Head and body, read in one go: the readers of a cell do that for each record that they are
shown."""
_FILLER = bytes(range(1, 256))


class Identity(NamedTuple):
    """Whose a record is."""

    cell: str
    producer: int
    sequence: int


def bytes_min(cell: str) -> int:
    """Size in bytes of the smallest value that can name ``cell``."""
    return _HEAD.size + _BODY.size + len(cell.encode())


class Encoder:
    """Makes the values of one producer.

    Args:
        record_bytes: The size of a value.
        record_bytes_max: Where values differ in size, that of the largest; each size from
            ``record_bytes`` on is as likely. Which one a record has follows from its producer and
            sequence number: it is the same in every run.

    Raises ValueError when ``record_bytes`` is too small to hold what a value says.
    """

    def __init__(
        self, cell: str, producer: int, record_bytes: int, record_bytes_max: int | None = None
    ) -> None:
        if record_bytes < (needed := bytes_min(cell)):
            raise ValueError(
                f"record_bytes is {record_bytes}; cell {cell!r} needs {needed} or more"
            )
        name = cell.encode()
        most = max(record_bytes, record_bytes_max or 0)
        filler = (_FILLER * (most // len(_FILLER) + 1))[: most - needed]
        self._producer = producer
        self._name_bytes = len(name)
        self._tail = name + filler
        self._least = len(name) + record_bytes - needed
        self._sizes = most - record_bytes + 1

    def encode(self, sequence: int) -> bytes:
        """The value of that sequence number."""
        head = _BODY.pack(self._producer, sequence, self._name_bytes)
        drawn = crc32c.crc32c(head) % self._sizes if self._sizes > 1 else 0
        body = head + self._tail[: self._least + drawn]
        return _HEAD.pack(MAGIC, crc32c.crc32c(body)) + body


def decode(value: bytes | None) -> Identity | None:
    """Whose value it is; None for what no :class:`Encoder` made, or was damaged since."""
    if value is None or len(value) < _WHOLE.size:
        return None
    magic, checksum, producer, sequence, name_bytes = _WHOLE.unpack_from(value)
    if magic != MAGIC or crc32c.crc32c(memoryview(value)[_HEAD.size :]) != checksum:
        return None
    name = value[_WHOLE.size : _WHOLE.size + name_bytes]
    return Identity(name.decode(), producer, sequence)
