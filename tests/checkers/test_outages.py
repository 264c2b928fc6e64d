"""Unavailability: the time asked between two acks, by hand and against a plain second version."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.outages import (
    LISTED_MAX,
    OUTAGE_MIN_NS,
    Outage,
    asked,
    by_fault,
    counts,
    outages,
    spent,
    together,
    unavailable,
)
from ackproof.checkers.context.fault_windows import NO_FAULTS, FaultWindows
from tests.support.builders.histories import Made, Send, at, indexed, send

MS = 1_000_000


def found(*events: Send) -> list[Outage]:
    return list(outages(asked(indexed(Made(sends=events, log=(), end=0)))))


def told(*events: Send) -> list[tuple[float, int]]:
    """Seconds since the workload began, and milliseconds."""
    return [((one.start - at(0)) / 1e9, one.length // MS) for one in found(*events)]


def record(number: int, asked: float, answered: float | None, kind: str = "ok") -> list[Send]:
    invoke = send("invoke", 1, number, at(asked))
    return [invoke] if answered is None else [invoke, send(kind, 1, number, at(answered))]


def test_nothing_sent_is_no_outage() -> None:
    assert told() == []


def test_the_time_an_ack_takes_is_none() -> None:
    assert told(*record(0, 1, 1.01), *record(1, 1.5, 1.9), *record(2, 1.8, 2.1)) == []


def test_outage_lasts_from_the_first_waiting_record_to_the_next_ack() -> None:
    """The client had nothing to send for a second: no record waited."""
    assert told(*record(0, 1, 1.01), *record(1, 2, 5), *record(2, 3, 5.1)) == [(2.0, 3000)]


def test_a_record_that_was_under_way_at_the_last_ack_has_waited_since_that() -> None:
    assert told(*record(0, 1, 4.0), *record(1, 1, 1.1)) == [(1.1, 2900)]


def test_error_does_not_end_an_outage_and_abandoned_send_does_not_extend_it() -> None:
    sends = (*record(0, 1, 1.01), *record(1, 2, 3, "info"), *record(2, 6, 7, "fail"))
    assert told(*sends, *record(3, 8, 8.1)) == [(2.0, 2100)]


def test_outage_without_an_ack_ends_with_the_sends() -> None:
    assert told(*record(0, 1, 1.01), *record(1, 2, None), *record(2, 4, None)) == [(2.0, 2000)]


def test_outage_begins_with_the_first_ack_or_else_the_first_record() -> None:
    assert told(*record(0, 1, 9), *record(1, 9, 9.1)) == []
    assert told(*record(0, 1, None), *record(1, 4, 6, "info")) == [(1.0, 5000)]


def test_outage_is_attributed_to_the_fault_at_its_beginning() -> None:
    windows = FaultWindows(bounds=(at(10), at(20)), labels=(None, "kill#1", None))
    sends = (
        *record(0, 1, 1.1),
        *record(1, 2, 3.5),
        *record(2, 11, 14),
        *record(3, 15, 16),
        *record(4, 19, 25),
    )
    counted = counts(asked(indexed(Made(sends=sends, log=(), end=0))), windows)
    whole = spent(counted)
    assert whole is not None
    assert (whole.longest // MS, whole.total // MS) == (6000, 1500 + 3000 + 1000 + 6000)
    parts = {name: (one.longest // MS, one.total // MS) for name, one in by_fault(counted).items()}
    assert parts == {None: (1500, 1500), "kill#1": (6000, 10000)}


def test_each_outage_is_listed_with_its_times_faults_and_end() -> None:
    windows = FaultWindows(bounds=(at(10), at(20)), labels=(None, "kill#1,cut#2", None))
    sends = (*record(0, 1, 1.1), *record(1, 2, 3.5), *record(2, 11, 14), *record(3, 15, None))
    counted = counts(
        asked(indexed(Made(sends=[*sends, *record(4, 17, None)], log=(), end=0))), windows
    )
    found = unavailable({"t-0": counted})
    assert found is not None
    assert [(one.start - at(0), one.end - at(0)) for one in found.periods] == [
        (2_000 * MS, 3_500 * MS),
        (11_000 * MS, 14_000 * MS),
        (15_000 * MS, 17_000 * MS),
    ]
    assert [(one.length_ms, one.acked, one.fault) for one in found.periods] == [
        (1500, True, None),
        (3000, True, "kill#1,cut#2"),
        (2000, False, "kill#1,cut#2"),
    ]


def test_only_the_longest_outages_are_listed() -> None:
    sends = [e for n in range(LISTED_MAX + 5) for e in record(n, 10 * n, 10 * n + 1 + n / 10)]
    found = unavailable(
        {"t-0": counts(asked(indexed(Made(sends=sends, log=(), end=0))), NO_FAULTS)}
    )
    assert found is not None
    lengths = [one.length_ms for one in found.periods]
    assert len(lengths) == LISTED_MAX
    assert lengths == sorted(lengths)
    assert lengths[-1] == found.longest_ms


def test_uncounted_outages_are_not_0() -> None:
    assert spent({}) is None
    assert spent(counts(asked(indexed(Made(sends=(), log=(), end=0))), NO_FAULTS)) is not None


STEP_NS = OUTAGE_MIN_NS // 4

records = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.one_of(st.none(), st.integers(0, 20)),
        st.sampled_from(["ok", "info", "fail"]),
    ),
    max_size=12,
)


def plainly(events: Sequence[tuple[int, int | None, str]]) -> list[tuple[int, int]]:
    """Step by step: was anything under way, and when was the last ack?"""
    if not events:
        return []
    last = max(begun + (took or 0) for begun, took, _ in events)
    acks = sorted({a + t for a, t, kind in events if t is not None and kind == "ok"})
    edges = [*acks, last] if acks else [min(begun for begun, _, _ in events), last]
    told = []
    for start, end in pairwise(edges):
        waiting = [
            step
            for step in range(start, end)
            if any(a <= step < (last if t is None else a + t) for a, t, _ in events)
        ]
        if len(waiting) * STEP_NS > OUTAGE_MIN_NS:
            told.append((waiting[0], len(waiting)))
    return told


def sends_of(events: Sequence[tuple[int, int | None, str]]) -> list[list[Send]]:
    """Record by record."""
    return [
        [
            send("invoke", 1, number, begun * STEP_NS),
            *([] if took is None else [send(kind, 1, number, (begun + took) * STEP_NS)]),
        ]
        for number, (begun, took, kind) in enumerate(events)
    ]


@settings(deadline=None)
@given(records)
def test_outages_agree_with_a_step_by_step_computation(
    events: list[tuple[int, int | None, str]],
) -> None:
    sends = [event for one in sends_of(events) for event in one]
    assert [(o.start // STEP_NS, o.length // STEP_NS) for o in found(*sends)] == plainly(events)


@settings(deadline=None)
@given(events=records, data=st.data())
def test_outages_of_slices_equal_outages_of_the_whole(
    events: list[tuple[int, int | None, str]], data: st.DataObject
) -> None:
    """However records are dealt out."""
    sends = sends_of(events)
    dealt = [data.draw(st.integers(0, 2)) for _ in sends]
    slices = [
        [event for one, to in zip(sends, dealt, strict=True) if to == mine for event in one]
        for mine in range(3)
    ]
    told = together([asked(indexed(Made(sends=some, log=(), end=0))) for some in slices])
    assert list(outages(told)) == found(*[event for one in sends for event in one])
