"""What is not counted, or not copied, since a history is sound as it mostly is, is nothing that a
damaged one lacks."""

from collections import Counter

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from made_histories import Made, entry, indexed, send

from checkers.indexes import NONE

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
def test_contradictory_is_who_has_events_twice_or_was_never_sent(
    rows: list[tuple[int, str]],
) -> None:
    sends = tuple(
        send(kind, 0, number, time, time if kind == "ok" else None)
        for time, (number, kind) in enumerate(rows)
    )
    invokes = Counter(number for number, kind in rows if kind == "invoke")
    ends = Counter(number for number, kind in rows if kind != "invoke")
    expected = {
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
