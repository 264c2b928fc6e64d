"""Record values that say whose they are.

A value holds a magic number, a CRC-32C of all that follows it, producer, sequence, cell and
padding up to the size asked for. The final read then needs no look-up to tell which send a record
came from, and a damaged value is seen as such, wherever the damage lies. The padding is not
zeros, which is what a file system gives back for blocks that it lost.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import crc32c

MAGIC = b"AKP1"
_HEAD = struct.Struct(">4sI")
_BODY = struct.Struct(">iqH")
_WHOLE = struct.Struct(">4sIiqH")
"""Head and body, read in one go: the readers of a cell do that for each record that they are
shown."""
SEQUENCE_AT = _HEAD.size + struct.calcsize(">i")
"""Where a value's sequence number begins."""
SEQUENCE_BYTES = 8
CHECKSUM_AT = len(MAGIC)
BODY_AT = _HEAD.size
NAME_AT = _WHOLE.size
"""Where the cell's name begins, in all values alike."""
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
        self._least = record_bytes - _HEAD.size
        self._sizes = most - record_bytes + 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Of the smallest value and of the largest, in bytes."""
        least = self._least + _HEAD.size
        return least, least + self._sizes - 1

    def body(self, sequence: int) -> bytes:
        """All that follows the checksum, of that sequence number, and as long as any is: what is
        shorter is the beginning of it."""
        return _BODY.pack(self._producer, sequence, self._name_bytes) + self._tail

    def encode(self, sequence: int) -> bytes:
        """The value of that sequence number."""
        return next(self.encode_all((sequence,)))

    def encode_all(self, sequences: Iterable[int]) -> Iterator[bytes]:
        """The values of these sequence numbers, each made when it is asked for."""
        producer, name_bytes, tail = self._producer, self._name_bytes, self._tail
        least, sizes = self._least, self._sizes
        for sequence in sequences:
            head = _BODY.pack(producer, sequence, name_bytes)
            body = head + tail
            if sizes > 1:
                body = body[: least + crc32c.crc32c(head) % sizes]
            yield _HEAD.pack(MAGIC, crc32c.crc32c(body)) + body


def decode(value: bytes | None) -> Identity | None:
    """Whose value it is; None for what no :class:`Encoder` made, or was damaged since."""
    told = next(_told((value,)))
    return None if told is None else Identity(*told)


def decode_all(
    values: Iterable[bytes | None],
) -> tuple[Sequence[str | None], Sequence[int | None], Sequence[int | None]]:
    """Likewise of one or more: cells, producers and sequence numbers, None in all three for a value
    that tells nothing."""
    cells, producers, sequences = zip(
        *[told or (None, None, None) for told in _told(values)], strict=True
    )
    return cells, producers, sequences


def _told(values: Iterable[bytes | None]) -> Iterator[tuple[str, int, int] | None]:
    for value in values:
        if value is None or len(value) < _WHOLE.size:
            yield None
            continue
        magic, checksum, producer, sequence, name_bytes = _WHOLE.unpack_from(value)
        if magic != MAGIC or crc32c.crc32c(value[_HEAD.size :]) != checksum:
            yield None
            continue
        yield value[_WHOLE.size : _WHOLE.size + name_bytes].decode(), producer, sequence
