"""Values that are made many at once are byte for byte those that are made one by one."""

import struct

import crc32c
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from history.payload import Encoder, Identity, bytes_min, decode
from history.values import Values

CELLS = st.text(min_size=1, max_size=30)
SEQUENCES = st.lists(st.integers(0, 2**63 - 1), max_size=9)
PRODUCERS = st.integers(0, 2**31 - 1)


def plain(cell: str, producer: int, sequence: int, least: int, most: int) -> bytes:
    """What a value is, as plainly as it can be said."""
    name = cell.encode()
    head = struct.pack(">iqH", producer, sequence, len(name))
    filler = bytes(1 + n % 255 for n in range(most))
    size = least + (crc32c.crc32c(head) % (most - least + 1) if most > least else 0)
    body = (head + name + filler)[: size - 8]
    return b"AKP1" + struct.pack(">I", crc32c.crc32c(body)) + body


@given(CELLS, PRODUCERS, st.lists(SEQUENCES, max_size=3), st.integers(0, 600), st.integers(0, 40))
@example("c", 0, [[0, 255, 256, 2**63 - 1], [7]], 0, 0)
@example("c", 2**31 - 1, [[2**62, 1], [], [2**32 - 1]], 700, 0)
def test_they_are_the_same_bytes_whatever_was_in_the_rows_before(
    cell: str, producer: int, rounds: list[list[int]], extra: int, range_: int
) -> None:
    least = bytes_min(cell) + extra
    most = least + range_
    encoder = Encoder(cell, producer, least, most)
    values = Values(encoder, rows=9)
    for sequences in rounds:
        sizes = values.make(np.array(sequences, np.int64))
        made = [
            row[:size].tobytes() for row, size in zip(values.block, sizes.tolist(), strict=False)
        ]
        assert made == [plain(cell, producer, one, least, most) for one in sequences]
        assert made == [*encoder.encode_all(sequences)]
        assert [decode(value) for value in made] == [
            Identity(cell, producer, one) for one in sequences
        ]


def test_a_value_is_the_same_as_ever() -> None:
    """A history and a log that are kept are read by whatever comes later."""
    values = Values(Encoder("cell", 3, 30, 33), rows=1)
    (size,) = values.make(np.array([7]))
    told = values.block[0, :size].tobytes().hex()
    assert told == "414b503115a59c1b000000030000000000000007000463656c6c0102030405"
