"""A value says whose it is, and a damaged value says nothing."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.history.payload import Encoder, Identity, bytes_min, decode, decode_all

CELLS = st.text(min_size=1, max_size=30)
SEQUENCES = st.integers(0, 2**63 - 1)
PRODUCERS = st.integers(0, 2**31 - 1)


@given(CELLS, PRODUCERS, SEQUENCES, st.integers(0, 2000))
def test_payload_decodes_to_its_identity(
    cell: str, producer: int, sequence: int, extra: int
) -> None:
    size = bytes_min(cell) + extra
    value = Encoder(cell, producer, size).encode(sequence)
    assert len(value) == size
    assert decode(value) == Identity(cell, producer, sequence)


@given(CELLS, PRODUCERS, st.integers(0, 2**62), st.integers(0, 50), st.integers(0, 50))
def test_values_of_several_sizes_are_within_them_and_the_same_each_time(
    cell: str, producer: int, sequence: int, extra: int, range_: int
) -> None:
    least = bytes_min(cell) + extra
    encoder = Encoder(cell, producer, least, least + range_)
    value = encoder.encode(sequence)
    assert least <= len(value) <= least + range_
    assert value == Encoder(cell, producer, least, least + range_).encode(sequence)
    assert decode(value) == Identity(cell, producer, sequence)


def test_each_size_is_as_likely() -> None:
    encoder = Encoder("c", 3, 100, 109)
    counts = Counter(len(encoder.encode(number)) for number in range(10_000))
    assert set(counts) == set(range(100, 110))
    assert all(800 < many < 1_200 for many in counts.values())


@given(CELLS, SEQUENCES, st.integers(0, 300), st.data())
def test_any_flipped_bits_within_four_bytes_are_seen(
    cell: str, sequence: int, extra: int, data: st.DataObject
) -> None:
    value = bytearray(Encoder(cell, 0, bytes_min(cell) + extra).encode(sequence))
    position = data.draw(st.integers(0, len(value) - 1))
    damage = data.draw(st.binary(min_size=1, max_size=4).filter(any))
    for index, byte in enumerate(damage[: len(value) - position]):
        value[position + index] ^= byte
    before = Encoder(cell, 0, bytes_min(cell) + extra).encode(sequence)
    assert (decode(bytes(value)) is None) == (bytes(value) != before)


@given(CELLS, st.data())
def test_a_value_cut_short_or_zeroed_at_its_end_is_damaged(cell: str, data: st.DataObject) -> None:
    value = Encoder(cell, 0, bytes_min(cell) + 100).encode(7)
    kept = data.draw(st.integers(0, len(value) - 1))
    assert decode(value[:kept]) is None
    assert decode(value[:kept].ljust(len(value), b"\0")) is None


@given(st.one_of(st.none(), st.binary(max_size=200)))
def test_foreign_payload_decodes_to_none(value: bytes | None) -> None:
    assert decode(value) is None


@given(
    CELLS,
    PRODUCERS,
    st.lists(SEQUENCES, min_size=1, max_size=5),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_payloads_encoded_together_equal_single_ones(
    cell: str, producer: int, sequences: list[int], extra: int, range_: int
) -> None:
    least = bytes_min(cell) + extra
    encoder = Encoder(cell, producer, least, least + range_)
    values = [*encoder.encode_all(sequences)]
    assert values == [encoder.encode(sequence) for sequence in sequences]
    broken = [values[0][:-1], None, b""]
    cells, producers, numbers = decode_all([*values, *broken])
    assert [*zip(cells, producers, numbers, strict=True)] == [
        decode(value) or (None, None, None) for value in (*values, *broken)
    ]


def test_a_value_is_the_same_as_ever() -> None:
    """A history and a log that are kept are read by whatever comes later."""
    value = Encoder("cell", 3, 30, 33).encode(7)
    assert value.hex() == "414b503115a59c1b000000030000000000000007000463656c6c0102030405"


def test_too_small_a_record_is_refused_with_the_size_needed() -> None:
    with pytest.raises(ValueError, match="needs 26 or more"):
        Encoder("cell", 0, 25)
    Encoder("cell", 0, 26)
