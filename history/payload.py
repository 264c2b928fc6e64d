"""Record values that contain the identity of the record.

A value consists of a magic number, a CRC-32C of everything after it, the producer, the sequence
number, the cell, and padding up to the requested size. The final read can then identify a record
without a look-up, and damage anywhere in a value is detected. The padding is not zeros, because a
file system returns zeros for lost blocks.

A tombstone has no value. Its identity is the same bytes without padding, in the header
:data:`TOMBSTONE_HEADER`. Compaction keeps or removes a record together with its headers.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import crc32c

MAGIC = b"AKP1"
_HEAD = struct.Struct(">4sI")
_BODY = struct.Struct(">iqH")
_WHOLE = struct.Struct(">4sIiqH")
"""The head and the body as one structure, because the readers of a cell unpack it for each record
that they read."""
SEQUENCE_AT = _HEAD.size + struct.calcsize(">i")
"""The position of the sequence number in a value."""
SEQUENCE_BYTES = 8
CHECKSUM_AT = len(MAGIC)
BODY_AT = _HEAD.size
NAME_AT = _WHOLE.size
"""The position of the cell's name, which is the same in all values."""
_FILLER = bytes(range(1, 256))

TOMBSTONE_HEADER = "ackproof"
"""The name of the header of a tombstone with its identity. Other records have no headers."""


class Identity(NamedTuple):
    """The identity of a record."""

    cell: str
    producer: int
    sequence: int


def bytes_min(cell: str) -> int:
    """Return the size in bytes of the smallest value that can contain the name ``cell``."""
    return _HEAD.size + _BODY.size + len(cell.encode())


class Encoder:
    """An encoder of the values of one producer.

    Args:
        record_bytes: The size of a value.
        record_bytes_max: The size of the largest value if values differ in size. All sizes from
            ``record_bytes`` on are equally likely. The size of a record follows from its producer
            and sequence number, so it is the same in every run.

    Raises ValueError when ``record_bytes`` is too small for the identity of a record.
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
        """The sizes of the smallest and of the largest value in bytes."""
        least = self._least + _HEAD.size
        return least, least + self._sizes - 1

    def body(self, sequence: int) -> bytes:
        """Return everything after the checksum for that sequence number, in the greatest length.
        Shorter bodies are the beginning of it."""
        return _BODY.pack(self._producer, sequence, self._name_bytes) + self._tail

    def encode(self, sequence: int) -> bytes:
        """Return the value of that sequence number."""
        return next(self.encode_all((sequence,)))

    def encode_all(self, sequences: Iterable[int]) -> Iterator[bytes]:
        """Yield the values of these sequence numbers. Each is made when it is requested."""
        producer, name_bytes, tail = self._producer, self._name_bytes, self._tail
        least, sizes = self._least, self._sizes
        for sequence in sequences:
            head = _BODY.pack(producer, sequence, name_bytes)
            body = head + tail
            if sizes > 1:
                body = body[: least + crc32c.crc32c(head) % sizes]
            yield _HEAD.pack(MAGIC, crc32c.crc32c(body)) + body


def tombstones_of(cell: str, producer: int) -> Encoder:
    """Return the encoder of the identities of a producer's tombstones."""
    return Encoder(cell, producer, bytes_min(cell))


def identifying(
    value: bytes | None, headers: Iterable[tuple[str, bytes | None]] | None
) -> bytes | None:
    """Return the bytes of a record that contain its identity: its value, or the header of a
    tombstone. Return None for a null value without that header."""
    if value is not None:
        return value
    return next((text for name, text in headers or () if name == TOMBSTONE_HEADER), None)


def decode(value: bytes | None) -> Identity | None:
    """Return the identity in a value, or None if no :class:`Encoder` made it or it was damaged
    since."""
    identity = next(_identities((value,)))
    return None if identity is None else Identity(*identity)


def decode_all(
    values: Iterable[bytes | None],
) -> tuple[Sequence[str | None], Sequence[int | None], Sequence[int | None]]:
    """Return the cells, producers and sequence numbers in one or more values; all three are None
    for a value without a valid identity."""
    cells, producers, sequences = zip(
        *[identity or (None, None, None) for identity in _identities(values)], strict=True
    )
    return cells, producers, sequences


def _identities(values: Iterable[bytes | None]) -> Iterator[tuple[str, int, int] | None]:
    for value in values:
        if value is None or len(value) < _WHOLE.size:
            yield None
            continue
        magic, checksum, producer, sequence, name_bytes = _WHOLE.unpack_from(value)
        if magic != MAGIC or crc32c.crc32c(value[_HEAD.size :]) != checksum:
            yield None
            continue
        yield value[_WHOLE.size : _WHOLE.size + name_bytes].decode(), producer, sequence
