"""Values of one producer, many at once: the same bytes as :meth:`history.payload.Encoder.encode`
makes one by one, in rows of one block of memory, by arrays.

A CRC is affine: of two bodies of one length, the XOR of their checksums follows from the XOR of the
bodies, bit by bit. So where bodies differ in nothing but the eight bytes of a sequence number, a
checksum is that of the sequence number 0, and for each of the eight bytes one of 256 words more.
"""

import crc32c
import numpy as np
from numpy.typing import NDArray

from history.payload import (
    BODY_AT,
    CHECKSUM_AT,
    MAGIC,
    NAME_AT,
    SEQUENCE_AT,
    SEQUENCE_BYTES,
    Encoder,
)

_CHECKSUM = slice(CHECKSUM_AT, BODY_AT)
_SEQUENCE = slice(SEQUENCE_AT, SEQUENCE_AT + SEQUENCE_BYTES)

Bytes = NDArray[np.uint8]


class Values:
    """A block of rows, each the value of another sequence number; the next ones replace them.

    Args:
        rows: How many it has room for.

    Attributes:
        block: The rows. Where values differ in size, what is behind the end of one is not its.
    """

    def __init__(self, encoder: Encoder, rows: int) -> None:
        least, most = encoder.sizes
        self._least = least
        self._sizes = most - least + 1
        body = encoder.body(0)
        self._bodies = Checksums(body)
        # By these the size of a value is drawn: see Encoder.encode_all.
        self._heads = Checksums(body[: NAME_AT - BODY_AT])
        self.block: Bytes = np.tile(np.frombuffer(MAGIC + bytes(4) + body, np.uint8), (rows, 1))

    def make(self, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
        """Make the values of these sequence numbers, in the first rows; their sizes in bytes."""
        rows = self.block[: len(sequences)]
        bytes_ = sequences.astype(">i8").view(np.uint8).reshape(-1, SEQUENCE_BYTES)
        rows[:, _SEQUENCE] = bytes_
        if self._sizes == 1:
            sizes = np.full(len(rows), self._least, np.int64)
            checksums = self._bodies.of(bytes_)
        else:
            sizes = self._least + self._heads.of(bytes_).astype(np.int64) % self._sizes
            checksums = np.array(
                [
                    crc32c.crc32c(row[BODY_AT:size])
                    for row, size in zip(rows, sizes.tolist(), strict=True)
                ],
                np.uint32,
            )
        rows[:, _CHECKSUM] = checksums.astype(">u4").view(np.uint8).reshape(-1, 4)
        return sizes


class Checksums:
    """CRC-32C of bodies that are the same but for a sequence number.

    Args:
        body: One of them, or its beginning, of the sequence number 0.
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

    def of(self, sequences: Bytes) -> NDArray[np.uint32]:
        """The checksums of the bodies with these sequence numbers: a row each, as its eight bytes
        are in the body."""
        made = np.full(len(sequences), self._zero, np.uint32)
        for place, words in enumerate(self._words):
            made ^= words[sequences[:, place]]
        return made
