"""Addressing gives the numbers that hashing gives, and is used where it should be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.checkers.index.partition_history import addresses, hashed, record_numbers

INT64 = st.integers(-(2**63), 2**63 - 1)
NEAR = st.integers(-40, 40)
STRIDED = st.builds(lambda place, stride: place * stride, st.integers(0, 30), st.integers(1, 7))
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(-2, 2), NEAR | STRIDED | INT64), max_size=40
)


@settings(deadline=None)
@given(rows=ROWS)
def test_numbers_are_dense_and_in_the_order_of_appearance(rows: list[tuple[int, int, int]]) -> None:
    numbers, first = record_numbers(*columns(rows))
    seen = list(dict.fromkeys(rows))
    assert numbers.tolist() == [seen.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in seen]


@settings(deadline=None)
@given(rows=st.lists(st.tuples(st.integers(0, 3), NEAR | STRIDED | INT64), max_size=40))
def test_addresses_are_of_the_same_rows_as_hashes(rows: list[tuple[int, int]]) -> None:
    stream, sequence = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
    streams = int(stream.max(initial=-1)) + 1
    found = addresses(stream, streams, sequence)
    if found is not None:
        address, size = found
        assert all(0 <= one < size for one in address)
        numbers, _ = hashed(stream, sequence)
        together = set(zip(address.tolist(), numbers.tolist(), strict=True))
        assert len(together) == len(set(numbers)) == len(set(address))


@pytest.mark.parametrize("stride", [1, 3, 300])
@pytest.mark.parametrize("begins", [0, -(2**40)])
def test_producer_numbering_gets_addresses(stride: int, begins: int) -> None:
    """Two of them, of whose records every other one was sent elsewhere after a while."""
    sequence = begins + stride * np.tile(np.arange(10_000), 2)
    stream = np.repeat([0, 1], 10_000)
    kept = (sequence < begins + stride * 5_000) | (sequence % (2 * stride) == begins % (2 * stride))
    found = addresses(stream[kept], 2, sequence[kept])
    assert found is not None
    assert found[1] <= 20_000


@pytest.mark.parametrize("far", [10**6, 2**62, 2**63 - 1])
def test_scattered_sequences_take_no_memory(far: int) -> None:
    sequence = np.array([-1, 0, far])
    assert addresses(np.zeros(3, np.int64), 1, sequence) is None
    numbers, first = record_numbers(np.zeros(3, np.int64), np.zeros(3, np.int64), sequence)
    assert numbers.tolist() == first.tolist() == [0, 1, 2]


def columns(rows: list[tuple[int, int, int]]) -> list[np.ndarray]:
    return [np.array([row[n] for row in rows], np.int64) for n in range(3)]
