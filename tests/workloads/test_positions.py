"""Committed positions: of read records of assigned partitions, and at the end of all of them."""

from hypothesis import given
from hypothesis import strategies as st

from ackproof.workloads.consuming.polling import Positions

OFFSETS = st.integers(0, 20)
PARTITIONS = st.integers(0, 2)


def test_reading_to_the_end_takes_all_partitions_and_all_ends() -> None:
    positions = Positions()
    assert positions.have_reached({}), "who has nothing has read it"
    positions.begin(0, 0)
    positions.begin(1, None)
    assert not positions.have_reached({0: 0}), "where 1 ends is not known"
    assert not positions.have_reached({0: 0, 1: 0}), "nor where it is read"
    positions.ended(1, 0)
    assert positions.have_reached({0: 0, 1: 0})
    assert not positions.have_reached({0: 1, 1: 0})
    positions.shown({0: 0})
    assert positions.have_reached({0: 1, 1: 0})


def test_an_end_is_no_record_to_commit() -> None:
    positions = Positions()
    positions.begin(0, 5)
    positions.ended(0, 5)
    assert positions.uncommitted() == {}
    positions.shown({0: 5})
    assert positions.uncommitted() == {0: 6}


def test_failed_commit_is_requested_again() -> None:
    positions = Positions()
    positions.begin(0, 0)
    positions.shown({0: 0})
    positions.shown({0: 1})
    positions.committed(0, 1)
    assert positions.uncommitted() == {0: 2}
    positions.committed(0, 2)
    assert positions.uncommitted() == {}


@given(st.lists(st.tuples(PARTITIONS, OFFSETS)), st.sets(PARTITIONS))
def test_revoked_partitions_are_not_committed(
    shown: list[tuple[int, int]], taken: set[int]
) -> None:
    positions = Positions()
    for partition in range(3):
        positions.begin(partition, 0)
    positions.forget(taken)
    for partition, offset in shown:
        positions.shown({partition: offset})
    last = {partition: offset + 1 for partition, offset in shown if partition not in taken}
    assert positions.uncommitted() == last
    positions.forget(last)
    for partition, offset in last.items():
        positions.committed(partition, offset)
        positions.begin(partition, None)
        positions.shown({partition: offset - 1})
    assert positions.uncommitted() == last, "what was committed before says nothing of now"
