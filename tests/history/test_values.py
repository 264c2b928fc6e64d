"""Values that are made many at once are byte for byte those that are made one by one."""

import struct

import crc32c
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ackproof.history.payload import Encoder, Identity, bytes_min, decode
from ackproof.history.payload_arrays import Decoder, Values

CELLS = st.text(min_size=1, max_size=30)
SEQUENCES = st.lists(st.integers(0, 2**63 - 1), max_size=9)
PRODUCERS = st.integers(0, 2**31 - 1)


def plain(cell: str, producer: int, sequence: int, least: int, most: int) -> bytes:
    """Return the specified bytes of a value, computed in the plainest way."""
    name = cell.encode()
    head = struct.pack(">iqH", producer, sequence, len(name))
    filler = bytes(1 + n % 255 for n in range(most))
    size = least + (crc32c.crc32c(head) % (most - least + 1) if most > least else 0)
    body = (head + name + filler)[: size - 8]
    return b"AKP1" + struct.pack(">I", crc32c.crc32c(body)) + body


@given(CELLS, PRODUCERS, st.lists(SEQUENCES, max_size=3), st.integers(0, 600), st.integers(0, 40))
@example("c", 0, [[0, 255, 256, 2**63 - 1], [7]], 0, 0)
@example("c", 2**31 - 1, [[2**62, 1], [], [2**32 - 1]], 700, 0)
def test_value_bytes_do_not_depend_on_former_rows(
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


OURS = st.tuples(st.sampled_from("cd"), st.integers(0, 2), st.integers(0, 2**63 - 1))
DAMAGE = st.one_of(
    st.none(), st.integers(0, 39), st.just("none"), st.just("shorter"), st.just("foreign")
)


def damaged(value: bytes, how: object) -> bytes | None:
    """A byte of it changed, or the whole replaced."""
    if isinstance(how, int):
        return value[:how] + bytes([value[how] ^ 1]) + value[how + 1 :]
    return {None: value, "none": None, "shorter": value[:-1], "foreign": bytes(len(value))}[how]


@given(st.lists(st.lists(st.tuples(OURS, DAMAGE), min_size=1, max_size=6), max_size=3))
@example([[(("c", 1, 5), None), (("c", 2, 6), None)], [(("c", 1, 5), None), (("d", 1, 6), None)]])
@example([[(("c", 0, number), None) for number in range(5)], [(("c", 0, 9), 39)]])
def test_values_decoded_together_equal_single_ones(polls: list[list[tuple]]) -> None:
    decoder = Decoder()
    for poll in polls:
        values = [
            damaged(Encoder(cell, producer, 40).encode(sequence), how)
            for (cell, producer, sequence), how in poll
        ]
        cells, producers, sequences = decoder.decode(values)
        cells = [cells] * len(values) if isinstance(cells, str) else cells
        told = [*zip(cells, producers, sequences, strict=True)]
        assert told == [decode(value) or (None, None, None) for value in values]
        if None not in values and len({len(value) for value in values}) == 1:
            rows = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
            again = decoder.decode(rows)
            cells = [again[0]] * len(values) if isinstance(again[0], str) else again[0]
            assert [*zip(cells, *again[1:], strict=True)] == told


@pytest.mark.parametrize("other", ["c", "d"])
@pytest.mark.parametrize("how", [None, 39])
def test_values_beyond_one_comparison_equal_single_ones(other: str, how: int | None) -> None:
    """Four of a megabyte are; of the two behind them one is another cell's, or one damaged."""
    size = 1 << 20
    values = [Encoder("c", 1, size).encode(sequence) for sequence in range(4)]
    values += [Encoder(other, 2, size).encode(4), damaged(Encoder("c", 1, size).encode(5), how)]
    rows = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), size)
    cells, producers, sequences = Decoder().decode(rows)
    cells = [cells] * len(values) if isinstance(cells, str) else cells
    told = [*zip(cells, producers, sequences, strict=True)]
    assert told == [decode(value) or (None, None, None) for value in values]
