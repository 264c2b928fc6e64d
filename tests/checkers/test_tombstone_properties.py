"""Generated compacted logs with tombstones, by a plain model of Kafka's cleaner (KIP-534): a sound
log and its readers are clean, and each planted anomaly is found alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.check_reads import check_rows
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.checks.read_anomalies import PartitionGuarantees
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.observed import Observed, PartitionState, Span
from ackproof.checkers.context.retention import TombstoneEvidence, longest_absence_ns
from ackproof.checkers.context.status import GuaranteeStatus, count_name
from ackproof.checkers.context.validity import ALWAYS_VALID
from ackproof.checkers.engine.reconcile import of_rule
from ackproof.checkers.index.partition_history import PartitionHistory
from tests.support.builders.consumers import MadeConsumer, left_by, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.examples import examples
from tests.support.builders.histories import Made, entry, indexed, send

ANY_MACHINE = settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
S = 1_000_000_000
RETENTION_S = 20
ACKED, UNANSWERED, LOST_UNANSWERED = range(3)
"""The outcomes of a send: acked, in the log without an answer, never appended and without one."""


@dataclass(frozen=True, kw_only=True)
class Sent:
    key: int
    deletes: bool
    outcome: int = ACKED


@dataclass(frozen=True, kw_only=True)
class Log:
    """A compacted log. Record n is sent in second n. ``passes`` are those of the cleaner: each
    second of one, and the offset up to which it cleans. ``over`` is the second by which the final
    read had ended, and ``kept`` the offsets that it read, if not those of the model."""

    sent: Sequence[Sent]
    passes: Sequence[tuple[int, int]]
    over: int
    kept: Sequence[int] | None = None
    unseen_ns: int = 0

    @cached_property
    def numbers(self) -> list[int]:
        """The number of the record at each offset."""
        return [n for n, one in enumerate(self.sent) if one.outcome != LOST_UNANSWERED]

    def at(self, offset: int) -> Sent:
        return self.sent[self.numbers[offset]]

    def standing(self, second: int) -> list[int]:
        """Return the offsets that are in the log in a second."""
        kept = [offset for offset, number in enumerate(self.numbers) if number <= second]
        horizons: dict[int, int] = {}
        for now, end in self.passes:
            if now > second:
                break
            last = {self.at(offset).key: offset for offset in kept if offset < end}
            kept = [
                offset
                for offset in kept
                if offset >= end
                or (
                    last[self.at(offset).key] == offset
                    and not (self.at(offset).deletes and horizons.get(offset, FOREVER) <= now)
                )
            ]
            for offset in kept:
                if offset < end and self.at(offset).deletes:
                    horizons.setdefault(offset, now + RETENTION_S)
        return kept

    @cached_property
    def final(self) -> list[int]:
        return list(self.standing(self.over) if self.kept is None else self.kept)

    def without(self, *offsets: int) -> "Log":
        return replace(self, kept=[one for one in self.final if one not in offsets])

    def history(self) -> PartitionHistory:
        offsets = {number: offset for offset, number in enumerate(self.numbers)}
        sends = []
        for number, one in enumerate(self.sent):
            sends.append(send("invoke", 1, number, number * S))
            if one.outcome == ACKED:
                sends.append(send("ok", 1, number, number * S + S // 10, offsets[number]))
        log = [entry(offset, 1, self.numbers[offset]) for offset in self.final]
        made = indexed(Made(sends=sends, log=log, start=0, end=len(self.numbers)))
        return replace(
            made,
            keys=np.array([one.key for one in self.sent])[made.sequence],
            deletes=np.array([one.deletes for one in self.sent])[made.sequence],
            tombstones=TombstoneEvidence(
                retention_ms=RETENTION_S * 1000,
                read_over=self.over * S,
                unseen_ns=self.unseen_ns,
            ),
        )

    def last_of_keys(self) -> list[int]:
        """The offset of the last record of each key, if it was acked."""
        last = {self.at(offset).key: offset for offset in range(len(self.numbers))}
        return [offset for offset in last.values() if self.at(offset).outcome == ACKED]

    def older(self, offset: int) -> list[int]:
        return [one for one in range(offset) if self.at(one).key == self.at(offset).key]

    def is_young(self, offset: int) -> bool:
        """Return whether it must be in the log, by more than the slack for clocks."""
        return self.over - self.numbers[offset] < RETENTION_S - 1


@st.composite
def logs(draw: st.DrawFn) -> Log:
    outcomes = st.sampled_from([ACKED] * 6 + [UNANSWERED, LOST_UNANSWERED])
    one = st.builds(Sent, key=st.integers(0, 4), deletes=st.booleans(), outcome=outcomes)
    sent = draw(st.lists(one, min_size=2, max_size=40))
    over = len(sent) + draw(st.integers(0, 2 * RETENTION_S))
    times = sorted(draw(st.lists(st.integers(0, over), max_size=6)))
    log = Log(sent=sent, passes=(), over=over)
    passes = []
    for now in times:
        end = sum(number <= now for number in log.numbers)
        passes.append((now, draw(st.integers(passes[-1][1] if passes else 0, end))))
    return replace(log, passes=passes)


def rows(history: PartitionHistory) -> dict[str, list[int]]:
    found = {name: one(history)["offset"].to_pylist() for name, one in CHECKERS.items()}
    return {name: sorted(offsets) for name, offsets in found.items() if offsets}


def planted(choose: Callable[[Sequence[int]], int], offsets: Sequence[int]) -> int:
    assume(offsets)
    return choose(offsets)


@given(log=logs())
@ANY_MACHINE
def test_sound_log_has_no_anomaly_and_forgets_removed_records(log: Log) -> None:
    history = log.history()
    assert rows(history) == {}
    acked = [offset for offset in range(len(log.numbers)) if log.at(offset).outcome == ACKED]
    gone = [offset for offset in acked if offset not in log.final]
    assert sorted(history.acked_offset[history.forgotten].tolist()) == gone
    if all(one.outcome == ACKED for one in log.sent):
        assert history.perhaps_deleted == 0


@given(log=logs(), data=st.data())
@ANY_MACHINE
def test_value_that_returns_after_its_tombstone_went_is_found(log: Log, data) -> None:
    deleted = [
        offset
        for offset in log.last_of_keys()
        if log.at(offset).deletes and any(not log.at(one).deletes for one in log.older(offset))
    ]
    tombstone = planted(lambda some: data.draw(st.sampled_from(some)), deleted)
    values = [one for one in log.older(tombstone) if not log.at(one).deletes]
    value = data.draw(st.sampled_from(values))
    kept = {*log.final, value} - {tombstone} - {one for one in log.older(tombstone) if one > value}
    found = rows(replace(log, kept=sorted(kept)).history())
    assert found == {"resurrected-value": [value], "lost": [tombstone]}


@given(log=logs(), data=st.data())
@ANY_MACHINE
def test_tombstone_that_goes_too_early_is_found(log: Log, data) -> None:
    young = [one for one in log.last_of_keys() if log.at(one).deletes and log.is_young(one)]
    tombstone = planted(lambda some: data.draw(st.sampled_from(some)), young)
    found = rows(log.without(tombstone, *log.older(tombstone)).history())
    assert found == {"tombstone-too-early": [tombstone], "lost": [tombstone]}


@given(log=logs(), data=st.data())
@ANY_MACHINE
def test_lost_last_value_is_found_unless_an_unanswered_tombstone_may_have_deleted_it(
    log: Log, data
) -> None:
    values = [one for one in log.last_of_keys() if not log.at(one).deletes]
    lost = planted(lambda some: data.draw(st.sampled_from(some)), values)
    history = log.without(lost, *log.older(lost)).history()
    perhaps = any(
        one.outcome != ACKED
        and one.deletes
        and one.key == log.at(lost).key
        and log.over - max(number, log.numbers[lost]) >= RETENTION_S - 1
        and (one.outcome == LOST_UNANSWERED or log.numbers.index(number) != lost)
        for number, one in enumerate(log.sent)
    )
    assert rows(history) == ({} if perhaps else {"lost": [lost]})
    assert history.perhaps_deleted == perhaps


# --- readers --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A reader that begins in a second, and has the offset of each record that it read, with the
    second in which it did."""

    log: Log
    since: int
    read: Sequence[tuple[int, int]]

    def found(self) -> list[tuple[str, int]]:
        history = self.log.history()
        polls = [
            seen(poll, offset, 1, self.log.numbers[offset], second * S)
            for poll, (offset, second) in enumerate(self.read, 1)
        ]
        reader = MadeConsumer(polls=polls, assigned=[assigned(0, self.since * S, 0)])
        result = check_rows([left_by(reader)], history, PartitionGuarantees())
        assert "unseen-tombstone" in result.looked
        return [
            (row["anomaly"], row["offset"]) for one in result.found for row in one.rows.to_pylist()
        ]


def read_by(draw: st.DrawFn, log: Log) -> Reading:
    """Return a reader that reads at its own speed. It may begin late, when records are gone."""
    since = now = draw(st.integers(0, log.over))
    read: list[tuple[int, int]] = []
    while now <= log.over:
        position = read[-1][0] + 1 if read else 0
        there = [offset for offset in log.standing(now) if offset >= position]
        read += [(offset, now) for offset in there[: draw(st.integers(0, 5))]]
        now += draw(st.integers(1, 8))
    return Reading(log=log, since=since, read=read)


@st.composite
def readings(draw: st.DrawFn) -> Reading:
    return read_by(draw, draw(logs()))


@given(reading=readings())
@ANY_MACHINE
def test_reader_of_a_sound_log_misses_nothing(reading: Reading) -> None:
    assert reading.found() == []


DELETED_KEY = 9
OTHERS = st.builds(Sent, key=st.integers(0, 4), deletes=st.booleans())


@st.composite
def passings(draw: st.DrawFn) -> tuple[Reading, int]:
    """A reader that read the only value of a key, and read on beyond its tombstone, with the offset
    of that."""
    before, between, behind = (
        draw(st.lists(OTHERS, min_size=least, max_size=most))
        for least, most in ((0, 5), (0, 5), (1, 20))
    )
    value, tombstone = (Sent(key=DELETED_KEY, deletes=deletes) for deletes in (False, True))
    sent = [*before, value, *between, tombstone, *behind]
    offset = sent.index(tombstone)
    over = len(sent) + draw(st.integers(0, 2 * RETENTION_S))
    passes = []
    for now in sorted(draw(st.lists(st.integers(0, over), max_size=3))):
        end = min(now + 1, len(sent))
        passes.append((now, draw(st.integers(passes[-1][1] if passes else 0, end))))
    reading = read_by(draw, Log(sent=sent, passes=passes, over=over))
    offsets = [one for one, _ in reading.read]
    assume(len(before) in offsets and offsets[-1] > offset)
    return reading, offset


@given(passing=passings())
@ANY_MACHINE
def test_unread_tombstone_is_found_if_the_reader_passed_it_in_time(
    passing: tuple[Reading, int],
) -> None:
    reading, tombstone = passing
    read = [(offset, second) for offset, second in reading.read if offset != tombstone]
    beyond = next(second for offset, second in read if offset > tombstone)
    since = max(reading.since, tombstone)  # all records are acked, one a second
    is_due = beyond - since < RETENTION_S - 1
    planted = replace(reading, log=reading.log.without(tombstone), read=read)
    assert planted.found() == ([("unseen-tombstone", tombstone)] if is_due else [])


@pytest.mark.parametrize("outcome", [ACKED, UNANSWERED, LOST_UNANSWERED])
@pytest.mark.parametrize("second", [4, 5])
def test_unread_tombstone_may_be_gone_if_a_later_record_of_its_key_was_sent(
    second: int, outcome: int
) -> None:
    """The reader passes it in second 4."""
    sent = [Sent(key=9, deletes=False), Sent(key=9, deletes=True)]
    sent += [Sent(key=1, deletes=False)] * 5
    sent[second] = Sent(key=9, deletes=False, outcome=outcome)
    log = Log(sent=sent, passes=(), over=7).without(1)
    reading = Reading(log=log, since=0, read=[(0, 0), (2, 4)])
    assert reading.found() == ([] if second == 4 else [("unseen-tombstone", 1)])


VALUE, TOMBSTONE = Sent(key=9, deletes=False), Sent(key=9, deletes=True)
OPEN = replace(TOMBSTONE, outcome=LOST_UNANSWERED)
OTHER = [Sent(key=1, deletes=False)] * 14


@pytest.mark.parametrize(
    ("sent", "perhaps"),
    [([VALUE, OPEN, *OTHER], True), ([VALUE, *OTHER, OPEN], False), ([OPEN, *OTHER, VALUE], False)],
)
def test_unanswered_tombstone_is_gone_only_if_it_and_the_deleted_value_are_old(
    sent: list[Sent], perhaps: bool
) -> None:
    log = Log(sent=sent, passes=(), over=RETENTION_S + 10)
    value = next(offset for offset in range(15) if log.at(offset) == VALUE)
    history = log.without(value).history()
    assert rows(history) == ({} if perhaps else {"lost": [value]})
    assert history.perhaps_deleted == perhaps


def test_older_tombstone_that_stands_is_no_value_that_came_back() -> None:
    log = Log(sent=[TOMBSTONE, TOMBSTONE, *OTHER], passes=(), over=RETENTION_S + 10)
    assert rows(log.without(1).history()) == {"lost": [1]}


@pytest.mark.parametrize("sent", [[TOMBSTONE, TOMBSTONE, *OTHER], [VALUE, TOMBSTONE, *OTHER]])
@pytest.mark.parametrize("stands", [False, True])
def test_unread_tombstone_matters_behind_a_value_and_if_it_is_gone(
    sent: list[Sent], stands: bool
) -> None:
    log = Log(sent=sent, passes=(), over=16)
    read = [(offset, 16) for offset in range(16) if offset != 1]
    reading = Reading(log=log if stands else log.without(1), since=0, read=read)
    skipped = [("poll-skip", 1), ("unseen", 1)] if stands else []
    missed = [] if stands or sent[0] == TOMBSTONE else [("unseen-tombstone", 1)]
    assert sorted(reading.found()) == [*skipped, *missed]


# --- unknown evidence -----------------------------------------------------------------------------

DELETED = (Sent(key=0, deletes=False), Sent(key=0, deletes=True), Sent(key=1, deletes=False))
OLD = Log(sent=DELETED, passes=(), over=RETENTION_S + 10)
YOUNG = replace(OLD, over=5)


@pytest.mark.parametrize(
    "changes", [{"clock_bound_ns": None}, {"clocks_changed": True}, {"read_over": FOREVER}]
)
def test_tombstone_of_unknown_age_is_not_judged(changes: dict[str, object]) -> None:
    history = YOUNG.without(0, 1).history()
    assert rows(history) == {"tombstone-too-early": [1], "lost": [1]}
    assert history.tombstones is not None
    assert rows(replace(history, tombstones=replace(history.tombstones, **changes))) == {}


def test_tombstone_that_another_record_replaced_was_not_removed_by_a_cleaner() -> None:
    history = YOUNG.without(0, 1, 2).history()
    assert rows(history)["tombstone-too-early"] == [1]
    truncated = replace(history, read=replace(history.read, end=1))
    another = replace(
        history,
        log_offset=np.array([1]),
        log_epoch=np.array([0]),
        log_record=np.array([2]),
        first=np.where(np.arange(len(history.first)) == 2, 0, history.first),
    )
    for changed in (truncated, another):
        found = rows(changed)
        assert 1 in found["lost"]
        assert "tombstone-too-early" not in found


def test_tombstone_that_may_go_by_then_is_forgotten() -> None:
    slack = replace(OLD, over=1 + RETENTION_S)
    assert rows(slack.without(0, 1).history()) == {}
    assert rows(replace(slack, over=RETENTION_S - 1).without(0, 1).history())


@pytest.mark.parametrize("away_s", [0, RETENTION_S])
def test_loss_of_a_tombstone_is_open_if_a_replica_was_away_so_long(away_s: int) -> None:
    history = replace(OLD, unseen_ns=away_s * S).without(1).history()
    assert history.tombstones_unseen == (away_s > 0)
    found = {"resurrected-value": [0]} | ({} if away_s else {"lost": [1]})
    assert rows(history) == found
    item: Any = SimpleNamespace(terms=ALWAYS_VALID)
    anomaly = "resurrected-value"
    counts = of_rule(item, history, anomaly, CHECKERS[anomaly](history))
    standing = GuaranteeStatus.UNKNOWN if away_s else GuaranteeStatus.PROMISED
    assert counts[count_name(anomaly, standing)] == 1


def test_unrecorded_tombstone_of_a_crashed_producer_may_have_deleted_a_value() -> None:
    values = replace(OLD, sent=[Sent(key=0, deletes=False), Sent(key=1, deletes=False)])
    history = values.without(0).history()
    assert rows(history) == {"lost": [0]}
    assert replace(history, crashed=frozenset({2})).perhaps_deleted == 1
    assert replace(history, sends_whole=False).perhaps_deleted == 1


def test_absence_of_a_replica_is_that_from_the_isr_or_from_the_observation() -> None:
    def state(time: int, *isr: int) -> PartitionState:
        return PartitionState(time=time, leader=1, leader_epoch=0, isr=isr)

    states = (state(0, 1, 2), state(10, 1), state(17, 1, 2))
    assert longest_absence_ns(Observed(states=states), 30) == 7
    assert longest_absence_ns(Observed(states=states), 12) == 2
    assert longest_absence_ns(Observed(states=states, holes=(Span(18, 29),)), 30) == 11
    assert longest_absence_ns(Observed(states=states, holes=(Span(5, 19),)), 30) == 14
    assert longest_absence_ns(Observed(), 30) == FOREVER
