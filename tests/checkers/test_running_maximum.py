"""One running maximum over all producers finds what one of each finds."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ackproof.checkers.index.partition_history import one_by_one, overtaken, stream_numbers

NEAR = st.integers(-20, 20)
FAR = st.integers(-(2**63), 2**63 - 1)
PRODUCERS = st.integers(-1, 3)


@settings(deadline=None)
@given(
    records=st.lists(st.tuples(st.integers(0, 1), PRODUCERS, NEAR), max_size=30)
    | st.lists(st.tuples(st.integers(0, 1), PRODUCERS, NEAR | FAR), max_size=30)
)
@example([(0, 0, 5), (0, 1, 1), (0, 0, 4), (0, 1, 0)])
@example([(0, 0, 2**63 - 1), (0, 1, 0), (0, 0, -(2**63)), (0, 1, -1)])
def test_both_find_the_same(records: list[tuple[int, int, int]]) -> None:
    cells, producers, ranks = (np.array([one[n] for one in records], np.int64) for n in range(3))
    stream = stream_numbers(cells, producers)
    found = overtaken(stream, ranks)
    slowly = one_by_one(stream, ranks, np.argsort(stream, kind="stable"))
    assert [each.tolist() for each in found] == [each.tolist() for each in slowly]
    behind, ahead = (each.tolist() for each in found)
    assert sorted(behind) == [
        place for place, one in enumerate(records) if passed(records, one, place)
    ]
    for place, before in zip(behind, ahead, strict=True):
        assert before < place
        assert records[before][:2] == records[place][:2]
        assert records[before][2] == max(passed(records, records[place], place))


def passed(records: list[tuple[int, int, int]], one: tuple[int, int, int], place: int) -> list[int]:
    """The ranks of those of its producer before it that rank higher."""
    return [other[2] for other in records[:place] if other[:2] == one[:2] and other[2] > one[2]]
