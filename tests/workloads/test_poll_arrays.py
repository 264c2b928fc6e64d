"""The arrays of a poll: equal to its records one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ackproof.workloads.polled import Records

PLACES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**62)), max_size=12)


@given(PLACES, st.integers(0, 12), st.integers(0, 12))
def test_the_last_of_each_partition_is_that_of_its_last_run(
    places: list[tuple[int, int]], begin: int, end: int
) -> None:
    partitions = np.array([partition for partition, _ in places], np.int32)
    offsets = np.array([offset for _, offset in places], np.int64)
    many = len(places)
    epochs, times = np.zeros(many, np.int32), np.zeros(many, np.int64)
    records = Records(partitions, offsets, epochs, times, [b""] * many)
    assert records.last(begin, end) == dict(places[begin:end])
