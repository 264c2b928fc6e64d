"""The arrays of unresolved records: equal to a dictionary."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.workloads.unresolved import _ROOM_MIN, Unresolved
from tests.support.builders.examples import examples

PARTITIONS = 3
MANY = st.integers(0, 3 * _ROOM_MIN)
WHICH = st.lists(st.integers(-5, 9 * _ROOM_MIN), max_size=30)
EVENTS = st.one_of(
    st.tuples(st.just("add"), MANY),
    st.tuples(st.just("take"), st.integers(-5, 9 * _ROOM_MIN)),
    st.tuples(st.just("take_all"), WHICH),
    st.tuples(st.just("take_range"), st.tuples(MANY, MANY)),
)


@settings(deadline=None, max_examples=examples(50))
@given(st.lists(EVENTS, max_size=12))
def test_unresolved_records_behave_like_a_dictionary(events: list[tuple]) -> None:
    unresolved = Unresolved(PARTITIONS)
    plain: dict[int, int] = {}
    added = 0
    for name, argument in events:
        if name == "add":
            partitions = np.arange(added, added + argument) % PARTITIONS
            sequences = unresolved.add(partitions)
            assert sequences == range(added, added + argument)
            plain.update(zip(sequences, partitions.tolist(), strict=True))
            added += argument
        elif name == "take":
            assert (argument in unresolved) == (argument in plain)
            assert unresolved.take(argument) == plain.pop(argument, None)
        else:
            some = argument if name == "take_all" else [*range(*argument)]
            expected = [
                (place, plain.pop(sequence))
                for place, sequence in enumerate(some)
                if sequence in plain
            ]
            found = unresolved.take_all(some)
            assert [*zip(*(one.tolist() for one in found), strict=True)] == expected
        assert unresolved.count == len(plain)
        assert unresolved.left().tolist() == [*plain]
        assert unresolved.waiting.tolist() == [
            [*plain.values()].count(partition) for partition in range(PARTITIONS)
        ]


def test_resolved_records_take_no_memory() -> None:
    unresolved = Unresolved(1)
    for _ in range(1_000):
        unresolved.take_all(unresolved.add([0] * 500))
    assert len(unresolved._partitions) <= 4 * _ROOM_MIN
