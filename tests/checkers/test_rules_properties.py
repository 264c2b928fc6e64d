"""Generated histories: a consistent one is clean, a planted anomaly is found and nothing else, and
whatever comes is judged like the plain second implementation judges it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.partition_rules import CHECKERS
from tests.support.builders.examples import examples
from tests.support.builders.histories import Entry, Made, Send, entry, indexed, send
from tests.support.oracles.reference_checker import Finding, findings

ANY_MACHINE = settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
"""However slow it is."""

COMPLETIONS = ("ok", "ok without offset", "info", "fail", "none")


def found(made: Made) -> set[Finding]:
    history = indexed(made)
    rows = [row for checker in CHECKERS.values() for row in checker(history).to_pylist()]
    result = {(row["anomaly"], row["offset"], row["producer"], row["sequence"]) for row in rows}
    assert len(result) == len(rows), "a row twice"
    return result


@st.composite
def consistent(draw: st.DrawFn) -> Made:
    """Producers take turns; what is acked was appended, what failed was not, the rest may be."""
    start = draw(st.integers(0, 5))
    sends: list[Send] = []
    log: list[Entry] = []
    sequences: dict[int, int] = {}
    for time, producer in enumerate(draw(st.lists(st.integers(0, 2), max_size=12))):
        sequence = sequences[producer] = sequences.get(producer, -1) + draw(st.integers(1, 3))
        completion = draw(st.sampled_from(COMPLETIONS))
        offset = start + len(log)
        appended = completion.startswith("ok") or (completion != "fail" and draw(st.booleans()))
        if appended:
            log.append(entry(offset, producer, sequence))
        sends.append(send("invoke", producer, sequence, 10 * time))
        if completion != "none":
            told = offset if completion == "ok" else None
            kind = completion.split()[0]
            sends.append(send(kind, producer, sequence, 10 * time + draw(st.integers(1, 99)), told))
    in_time_order = sorted(sends, key=lambda event: event.time)
    return Made(sends=in_time_order, log=log, start=start, end=start + len(log))


def acked_entries(made: Made) -> list[tuple[Send, Entry]]:
    acks = {
        (s.producer, s.sequence): s for s in made.sends if s.type == "ok" and s.offset is not None
    }
    return [(acks[e.producer, e.sequence], e) for e in made.log if (e.producer, e.sequence) in acks]


def appended(made: Made, *entries: tuple[int | None, int | None], acked: bool = False) -> Made:
    """With records of a new producer, invoked last and appended last."""
    new = [entry(made.end + n, *record) for n, record in enumerate(entries)]
    sends = [send("invoke", e.producer, e.sequence, 9_000) for e in new if acked and e.producer]
    sends += [
        send("ok", e.producer, e.sequence, 9_001, e.offset) for e in new if acked and e.producer
    ]
    return made.but(sends=[*made.sends, *sends], log=[*made.log, *new], end=made.end + len(new))


def lose_rewritten(made: Made, choose: Callable[[int], int]) -> tuple[Made, Finding]:
    candidates = acked_entries(made)
    assume(candidates)
    ack, gone = candidates[choose(len(candidates))]
    log = [entry(e.offset, 99, 0) if e is gone else e for e in made.log]
    sends = [*made.sends, send("invoke", 99, 0, 9_000)]
    return made.but(sends=sends, log=log), ("lost", gone.offset, ack.producer, ack.sequence)


def lose_tail(made: Made, _: Callable[[int], int]) -> tuple[Made, Finding]:
    candidates = acked_entries(made)
    assume(candidates and candidates[-1][1] is made.log[-1])
    gone = made.log[-1]
    planted = made.but(log=made.log[:-1], end=made.end - 1)
    return planted, ("lost", gone.offset, gone.producer, gone.sequence)


def duplicate(made: Made, choose: Callable[[int], int]) -> tuple[Made, Finding]:
    assume(made.log)
    twin = made.log[choose(len(made.log))]
    planted = appended(made, (twin.producer, twin.sequence))
    return planted, ("duplicated", twin.offset, twin.producer, twin.sequence)


def reorder(made: Made, _: Callable[[int], int]) -> tuple[Made, Finding]:
    planted = appended(made, (99, 1), (99, 0))
    sends = [send("invoke", 99, sequence, 9_000) for sequence in (0, 1)]
    return planted.but(sends=[*planted.sends, *sends]), ("reordered", made.end + 1, 99, 0)


def ack_backwards(made: Made, _: Callable[[int], int]) -> tuple[Made, Finding]:
    """Plant acknowledgements of records at unknown places: the read broke off before them."""
    planted = made.but(
        sends=[
            *made.sends,
            *[send("invoke", 99, sequence, 9_000) for sequence in (0, 1)],
            *[send("ok", 99, n, 9_001 + n, made.end + 1 - n) for n in (0, 1)],
        ],
        complete=False,
    )
    return planted, ("nonmonotonic-send", made.end, 99, 1)


def ack_twice(made: Made, choose: Callable[[int], int]) -> tuple[Made, Finding]:
    """Another record was acked at the offset of one that stands there."""
    candidates = acked_entries(made)
    assume(candidates)
    _, there = candidates[choose(len(candidates))]
    twice = [send("invoke", 99, 0, 9_000), send("ok", 99, 0, 9_001, there.offset)]
    planted = made.but(sends=[*made.sends, *twice], complete=False)
    return planted, ("offset-mismatch", there.offset, 99, 0)


def add_phantom(made: Made, _: Callable[[int], int]) -> tuple[Made, Finding]:
    return appended(made, (99, 0)), ("phantom", made.end, 99, 0)


def add_alien(made: Made, _: Callable[[int], int]) -> tuple[Made, Finding]:
    return appended(made, (None, None)), ("phantom", made.end, None, None)


def misroute(made: Made, choose: Callable[[int], int]) -> tuple[Made, Finding]:
    """Plant a record of another cell, by a number that may be that of a record of this one."""
    numbers = [(event.producer, event.sequence) for event in made.sends] or [(1, 0)]
    producer, sequence = numbers[choose(len(numbers))]
    strange = replace(entry(made.end, producer, sequence), cell="elsewhere")
    planted = made.but(log=[*made.log, strange], end=made.end + 1)
    return planted, ("wrong-topic", made.end, producer, sequence)


def raise_failed(made: Made, _: Callable[[int], int]) -> tuple[Made, Finding]:
    planted = appended(made, (99, 0))
    events = [send("invoke", 99, 0, 9_000), send("fail", 99, 0, 9_001)]
    planted = planted.but(sends=[*made.sends, *events])
    return planted, ("failed-but-present", made.end, 99, 0)


def misplace(made: Made, choose: Callable[[int], int]) -> tuple[Made, Finding]:
    lasts = {ack.producer: (ack, there) for ack, there in acked_entries(made)}
    candidates = list(lasts.values())
    assume(candidates)
    ack, _ = candidates[choose(len(candidates))]
    offset = made.end + 7
    told = send("ok", ack.producer, ack.sequence, ack.time, offset)
    sends = [told if event is ack else event for event in made.sends]
    return made.but(sends=sends), ("offset-mismatch", offset, ack.producer, ack.sequence)


def tear(made: Made, _: Callable[[int], int]) -> tuple[Made, Finding]:
    planted = appended(made.but(end=made.end + 2), (99, 0), acked=True)
    return planted, ("offset-gap", made.end, None, None)


OBSERVED = {
    "watermark-regressed",
    "epoch-regressed",
    "two-leaders",
    "stale-leader-ack",
    "acked-below-min-isr",
    "deleted-too-early",
    "tombstone-too-early",
    "resurrected-value",
}
"""The anomalies that only an observed timeline shows (test_timeline_properties), observed starts of
the log (test_retention_properties), or keys (test_tombstone_properties)."""

PLANTS = (
    lose_rewritten,
    lose_tail,
    duplicate,
    reorder,
    add_phantom,
    add_alien,
    misroute,
    raise_failed,
    misplace,
    tear,
    ack_backwards,
    ack_twice,
)


@ANY_MACHINE
@given(consistent())
def test_a_consistent_history_is_clean(made: Made) -> None:
    assert found(made) == set()


@pytest.mark.parametrize("plant", PLANTS)
@ANY_MACHINE
@given(made=consistent(), data=st.data())
def test_a_planted_anomaly_is_found_and_nothing_else(
    plant: Callable[[Made, Callable[[int], int]], tuple[Made, Finding]],
    made: Made,
    data: st.DataObject,
) -> None:
    planted, expected = plant(made, lambda count: data.draw(st.integers(0, count - 1)))
    assert found(planted) == {expected}


@ANY_MACHINE
@given(made=consistent())
def test_every_checker_has_its_plant(made: Made) -> None:
    assume(acked_entries(made) and acked_entries(made)[-1][1] is made.log[-1])
    planted = {plant(made, lambda _: 0)[1][0] for plant in PLANTS}
    assert planted == CHECKERS.keys() - OBSERVED


@st.composite
def arbitrary(draw: st.DrawFn) -> Made:
    """Anything a broken cluster could leave: copies, holes, strangers, any order."""
    records = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), unique=True))
    sends: list[Send] = []
    for time, (producer, sequence) in enumerate(records):
        sends.append(send("invoke", producer, sequence, time))
        kind = draw(st.sampled_from(["ok", "ok", "info", "fail", None]))
        offset = draw(st.none() | st.integers(0, 15)) if kind == "ok" else None
        if kind:
            sends.append(send(kind, producer, sequence, time, offset))
    offsets = sorted(draw(st.sets(st.integers(0, 15))))
    content = st.tuples(st.integers(0, 3), st.integers(0, 5)) | st.just((None, None))
    log = [entry(offset, *draw(content)) for offset in offsets]
    return Made(sends=sends, log=log, end=16, complete=draw(st.booleans()))


@ANY_MACHINE
@given(arbitrary())
def test_any_history_is_judged_as_by_the_plain_implementation(made: Made) -> None:
    assert found(made) == findings(made)


@ANY_MACHINE
@given(consistent(), st.data())
def test_loss_is_reported_only_above_offsets_deleted_by_order(
    made: Made, data: st.DataObject
) -> None:
    def choose(count: int) -> int:
        return data.draw(st.integers(0, count - 1))

    planted, (_, offset, producer, sequence) = lose_rewritten(made, choose)
    before = data.draw(st.integers(made.start, made.end))
    left = [e for e in planted.log if e.offset >= before]
    history = indexed(planted.but(log=left, start=before), deleted_before=before)
    rows = [row for checker in CHECKERS.values() for row in checker(history).to_pylist()]
    told = [(row["anomaly"], row["offset"], row["producer"], row["sequence"]) for row in rows]
    assert told == ([("lost", offset, producer, sequence)] if offset >= before else [])
    unnamed = {(s.producer, s.sequence) for s in made.sends if s.type == "ok" and s.offset is None}
    deleted = {(e.producer, e.sequence) for e in made.log if e.offset < before}
    assert history.lost_or_deleted == (len(unnamed & deleted) if before else 0)
