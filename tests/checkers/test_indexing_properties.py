"""Shortcuts for sound histories: counts and copies that are omitted there are never missing for a
damaged history."""

from collections import Counter
from dataclasses import fields

import numpy as np
import pyarrow as pa
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ackproof.checkers.arrays import NONE
from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.index.columns import schema_of
from ackproof.checkers.index.indexing import Unindexed, index
from ackproof.checkers.index.partition_history import LOG_COLUMNS, SEND_COLUMNS, record_numbers
from tests.support.builders.histories import Made, entry, indexed, send

EVENTS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["invoke", "ok", "fail", "info"])), max_size=10
)
SOUND = st.lists(st.sampled_from(["ok", "fail", "info", None]), max_size=5).map(
    lambda ends: [
        (number, kind)
        for number, end in enumerate(ends)
        for kind in ("invoke", end)
        if kind is not None
    ]
)


@settings(deadline=None)
@given(rows=EVENTS | SOUND)
def test_record_with_repeated_or_unsent_events_is_contradictory(
    rows: list[tuple[int, str]],
) -> None:
    sends = tuple(
        send(kind, 0, number, time, time if kind == "ok" else None)
        for time, (number, kind) in enumerate(rows)
    )
    invokes = Counter(number for number, kind in rows if kind == "invoke")
    ends = Counter(number for number, kind in rows if kind != "invoke")
    backwards = {
        number
        for place, (number, kind) in enumerate(rows)
        if kind == "invoke" and any(of == number for of, _ in rows[:place])
    }
    expected = backwards | {
        number
        for number, _ in rows
        if invokes[number] > 1 or ends[number] > 1 or ends[number] > invokes[number]
    }
    event("contradictory" if expected else "sound")
    history = indexed(Made(sends=sends, log=(), end=0))
    assert set(history.sequence[history.contradicted].tolist()) == expected


@settings(deadline=None)
@given(
    told=st.lists(
        st.tuples(st.none() | st.integers(0, 2), st.none() | st.integers(0, 3), st.integers(0, 2)),
        max_size=10,
    )
)
def test_each_row_of_a_log_counts_once_and_names_its_record_or_none(
    told: list[tuple[int | None, int | None, int]],
) -> None:
    """``told``: producer, sequence, and how far the offset is behind that of the row before."""
    offsets = np.cumsum([step for *_, step in told]).tolist()
    log = [
        entry(at, producer, sequence)
        for at, (producer, sequence, _) in zip(offsets, told, strict=True)
    ]
    names = [
        (at, None if None in (producer, sequence) else (producer, sequence))
        for at, (producer, sequence, _) in zip(offsets, told, strict=True)
    ]
    expected = [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]
    history = indexed(Made(sends=(), log=log, end=30))
    found = [
        None if record == NONE else (history.producer[record], history.sequence[record])
        for record in history.log_record.tolist()
    ]
    assert list(zip(history.log_offset.tolist(), found, strict=True)) == expected


CELLS, PRODUCERS = st.sampled_from("cd"), st.sampled_from([-1, 0, 1, 2**31 - 1])
SEQUENCES = st.integers(0, 5) | st.sampled_from([-3, 2**62])
TIMES, OFFSETS = st.integers(0, 9), st.integers(0, 9)
SENDS = st.fixed_dictionaries(
    {
        "cell": CELLS,
        "producer": PRODUCERS,
        "sequence": SEQUENCES,
        "type": st.sampled_from(["invoke", "ok", "fail", "info"]),
        "time": TIMES,
        "offset": st.none() | OFFSETS,
        "due": st.none() | TIMES,
    }
)
LOGS = st.fixed_dictionaries(
    {
        "offset": OFFSETS,
        "leader_epoch": st.none() | st.integers(0, 2),
        "cell": st.none() | CELLS,
        "producer": st.none() | PRODUCERS,
        "sequence": st.none() | SEQUENCES,
    }
)


def unindexed(sends: list[dict], log: list[dict], last: dict[tuple[str, int], int]) -> Unindexed:
    return Unindexed(
        cell="c",
        topic="t",
        partition=0,
        sends=pa.Table.from_pylist(sends, schema=schema_of("sends", SEND_COLUMNS)),
        log=pa.Table.from_pylist(log, schema=schema_of("log", LOG_COLUMNS)),
        read=FinalRead(complete=True),
        last_recorded=last,
    )


def test_addresses_of_streams_that_span_all_numbers_do_not_overflow() -> None:
    """Two streams of 2**62 numbers each have more addresses than an int64 can count."""
    cells, producers = np.array([0, 0, 1, 1]), np.zeros(4, dtype=np.int32)
    sequences = np.array([0, 2**62 - 1, 1, 2**62 - 1])
    numbers, first = record_numbers(cells, producers, sequences)
    assert numbers.tolist() == first.tolist() == [0, 1, 2, 3]


@settings(deadline=None)
@given(
    some=st.lists(
        st.builds(
            unindexed,
            st.lists(SENDS, max_size=6),
            st.lists(LOGS, max_size=6),
            st.dictionaries(st.tuples(CELLS, PRODUCERS), st.integers(0, 4), max_size=2),
        ),
        min_size=2,
        max_size=4,
    )
)
def test_partitions_that_are_indexed_together_are_as_each_alone(some: list[Unindexed]) -> None:
    """E.g. a record of a log that was never sent has a higher number than all that were sent to its
    own partition, and a lower one than those of the next."""
    for together, one in zip(index(some), some, strict=True):
        (alone,) = index([one])
        for field in fields(alone):
            found, expected = getattr(together, field.name), getattr(alone, field.name)
            assert np.array_equal(found, expected) or found == expected, field.name
            if isinstance(expected, np.ndarray):
                assert found.dtype == expected.dtype
