"""Many record values at once, as arrays.

The bytes are the same as those of :meth:`history.payload.Encoder.encode`, in rows of one block of
memory. The identities are decoded in the same way.

A CRC is affine: for two bodies of one length, the XOR of their checksums follows from the XOR of
the bodies, bit by bit. If bodies only differ in the eight bytes of a sequence number, a checksum is
that of sequence number 0 combined with one of 256 words for each of the eight bytes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import crc32c
import numpy as np
from numpy.typing import NDArray

from ackproof.history.payload import (
    BODY_AT,
    CHECKSUM_AT,
    MAGIC,
    NAME_AT,
    SEQUENCE_AT,
    SEQUENCE_BYTES,
    Encoder,
    decode,
    decode_all,
)

_CHECKSUM = slice(CHECKSUM_AT, BODY_AT)
_SEQUENCE = slice(SEQUENCE_AT, SEQUENCE_AT + SEQUENCE_BYTES)

_PRODUCER = slice(BODY_AT, SEQUENCE_AT)
_WORD_BYTES = 8
_COMPARED_BYTES = 4 << 20
"""The number of bytes that are compared at once."""
_KNOWN_MAX = 16
"""The number of producers whose values are cached."""

Bytes = NDArray[np.uint8]
Given = Bytes | Sequence[bytes | None]
"""Values, either as rows of one size or as single values. Null is None."""
Identities = tuple[
    str | Sequence[str | None],
    NDArray[np.int32] | Sequence[int | None],
    NDArray[np.int64] | Sequence[int | None],
]


class _ValueIdentities(NamedTuple):
    """The identities of values of one cell."""

    cell: str
    producers: NDArray[np.int32]
    sequences: NDArray[np.int64]


class Values:
    """A block of rows, each the value of another sequence number. New values replace the old ones.

    Args:
        rows: The capacity.

    Attributes:
        block: The rows. If values differ in size, the bytes after the end of a value are not part
            of it.
    """

    def __init__(self, encoder: Encoder, rows: int) -> None:
        least, most = encoder.sizes
        self._least = least
        self._sizes = most - least + 1
        body = encoder.body(0)
        self._bodies = Checksums(body)
        # These checksums determine the size of a value; see Encoder.encode_all.
        self._heads = Checksums(body[: NAME_AT - BODY_AT])
        self.block: Bytes = np.tile(np.frombuffer(MAGIC + bytes(4) + body, np.uint8), (rows, 1))

    def make(self, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Make the values of these sequence numbers in the first rows, and return their sizes in
        bytes."""
        rows = self.block[: len(sequences)]
        _numbers(rows, _SEQUENCE, ">i8")[:] = sequences
        if self._sizes == 1:
            sizes = np.full(len(rows), self._least, np.int64)
            checksums = self._bodies.of(sequences)
        else:
            sizes = self._least + self._heads.of(sequences).astype(np.int64) % self._sizes
            checksums = np.array(
                [
                    crc32c.crc32c(row[BODY_AT:size])
                    for row, size in zip(rows, sizes.tolist(), strict=True)
                ],
                np.uint32,
            )
        _numbers(rows, _CHECKSUM, ">u4")[:] = checksums
        return sizes


class Checksums:
    """The CRC-32C checksums of bodies that only differ in the sequence number.

    Args:
        body: The body with sequence number 0, or its beginning.
    """

    def __init__(self, body: bytes) -> None:
        changed, at = bytearray(body), SEQUENCE_AT - BODY_AT
        self._zero = crc32c.crc32c(changed)
        self._words = np.zeros((SEQUENCE_BYTES, 256), np.uint32)
        for place, words in enumerate(self._words):
            for bit in range(8):
                changed[at + place] = 1 << bit
                word = np.uint32(crc32c.crc32c(changed) ^ self._zero)
                words[np.arange(256) >> bit & 1 == 1] ^= word
            changed[at + place] = 0

    def of(self, sequences: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Return the checksums of the bodies with these sequence numbers."""
        checksums = np.full(len(sequences), self._zero, np.uint32)
        bytes_ = sequences.astype("<i8").view(np.uint8).reshape(-1, SEQUENCE_BYTES)
        highest = int(sequences.view(np.uint64).max(initial=0))
        for place in range((highest.bit_length() + 7) // 8):  # of 0 the word is 0
            # In a body the highest byte comes first.
            checksums ^= self._words[-1 - place].take(bytes_[:, place])
        return checksums


class Decoder:
    """A decoder of the identities in many values.

    If all values have the same size, as for producers whose values do not vary, they are compared
    with encoded values of the same identities. A value without a different byte has the right
    checksum.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int, int], Values] = {}

    def decode(self, values: Given) -> Identities:
        """Return the same as :func:`history.payload.decode_all` for one or more values. If all have
        the same cell, it is returned once."""
        rows = values if isinstance(values, np.ndarray) else _rows(values)
        identities = None if rows is None else self._alike(rows)
        if identities is not None:
            return identities
        return decode_all(map(bytes, values) if isinstance(values, np.ndarray) else values)

    def _alike(self, rows: Bytes) -> Identities | None:
        """Return the identities of values of one cell, or None if the cells differ or a value is
        damaged."""
        most = max(1, _COMPARED_BYTES // rows.shape[1])
        parts = [self._compared(rows[at : at + most]) for at in range(0, len(rows), most)]
        decoded_parts = [part for part in parts if part is not None]
        if len(decoded_parts) < len(parts) or len({part.cell for part in decoded_parts}) > 1:
            return None
        if len(decoded_parts) == 1:
            return decoded_parts[0]
        _, producers, sequences = zip(*decoded_parts, strict=True)
        return decoded_parts[0].cell, np.concatenate(producers), np.concatenate(sequences)

    def _compared(self, rows: Bytes) -> _ValueIdentities | None:
        first = decode(rows[0].tobytes())
        if first is None:
            return None
        size = rows.shape[1]
        producers = _numbers(rows, _PRODUCER, ">i4").astype(np.int32)
        sequences = _numbers(rows, _SEQUENCE, ">i8").astype(np.int64)
        is_alone = (producers == first.producer).all()
        for producer in [first.producer] if is_alone else np.unique(producers).tolist():
            which = slice(None) if is_alone else producers == producer
            made = self._values(first.cell, producer, size, len(rows))
            made.make(sequences[which])
            if not _same(mine := rows[which], made.block[: len(mine)]):
                return None
        return _ValueIdentities(first.cell, producers, sequences)

    def _values(self, cell: str, producer: int, size: int, rows: int) -> Values:
        rows = 1 << (rows - 1).bit_length()
        key = (cell, producer, size, rows)
        if key not in self._known:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[key] = Values(Encoder(cell, producer, size), rows)
        return self._known[key]


def _rows(values: Sequence[bytes | None]) -> Bytes | None:
    """Return the values as rows, or None if they differ in size or are too many."""
    present = [value for value in values if value is not None]
    size = len(present[0]) if present else 0
    if not 0 < size * len(values) <= _COMPARED_BYTES:
        return None
    if len(present) < len(values) or any(len(value) != size for value in present):
        return None
    return np.frombuffer(b"".join(present), np.uint8).reshape(-1, size)


def _numbers(rows: Bytes, place: slice, kind: str) -> NDArray[Any]:
    """Return a view of this part of the rows as numbers."""
    return rows[:, place].view(kind)[:, 0]


def _same(some: Bytes, others: Bytes) -> bool:
    """Return whether rows of one size are equal. They are compared by words, of which there are
    fewer than bytes."""
    flat, other = some.reshape(-1), others.reshape(-1)
    whole = len(flat) // _WORD_BYTES * _WORD_BYTES
    return np.array_equal(flat[whole:], other[whole:]) and np.array_equal(
        flat[:whole].view(np.int64), other[:whole].view(np.int64)
    )
