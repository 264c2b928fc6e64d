"""Generated logs with retention, by a plain model of Kafka's deletion: a sound one is clean, and a
deletion that came too early is found, with exactly the records that it took."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.context.retention import (
    CLOCK_SLACK_NS,
    ObservedStarts,
    RetentionEvidence,
    RetentionPolicy,
)
from ackproof.checkers.index.partition_history import PartitionHistory
from tests.support.builders.examples import examples
from tests.support.builders.histories import Made, entry, indexed, send

ANY_MACHINE = settings(max_examples=examples(60), deadline=None)
SECOND, MS = 1_000_000_000, 1_000_000
BEGIN = 1_000 * SECOND
VALUE, BATCH = 1_000, 70
"""The bytes of each record's value, and of what the log has beside it."""


@dataclass(frozen=True, kw_only=True)
class Log:
    """A log as a broker keeps it.

    Attributes:
        sent: The time of the send of each record, by offset. It is appended and acked 20 ms later.
        segments: The first offset of each segment.
        looks: The times at which the broker looks for segments to delete.
        asked: The times at which the harness asks for the start. Answers take 10 ms.
        forced: A look at which the oldest segment goes whatever its age and size, or None.
    """

    policy: RetentionPolicy
    sent: Sequence[int]
    segments: Sequence[int]
    looks: Sequence[int]
    asked: Sequence[int]
    forced: int | None = None

    def starts(self) -> list[tuple[int, int]]:
        """Return the start of the log after each look."""
        found, start = [], 0
        for number, now in enumerate(self.looks):
            written = sum(time + 20 * MS < now for time in self.sent)
            forced = number == self.forced
            while (end := self._end(start, written)) > start and (
                self._goes(start, end, written, now) or forced
            ):
                start, forced = end, False
            found.append((now, start))
        return found

    def _end(self, start: int, written: int) -> int:
        return min([first for first in self.segments if start < first <= written], default=written)

    def _goes(self, start: int, end: int, written: int, now: int) -> bool:
        largest = max(self.sent[start:end])
        old = self.policy.ms is not None and now - largest > self.policy.ms * MS
        left = (written - end) * (VALUE + BATCH)
        return old or (self.policy.size is not None and left >= self.policy.size)

    def seen_at(self, time: int) -> int:
        return max([start for now, start in self.starts() if now <= time], default=0)

    def history(self) -> PartitionHistory:
        sends = [
            one
            for number, time in enumerate(self.sent)
            for one in (
                send("invoke", 1, number, time),
                send("ok", 1, number, time + 20 * MS, number),
            )
        ]
        over = max(self.looks[-1], self.sent[-1]) + SECOND
        start = self.seen_at(over)
        log = [entry(number, 1, number) for number in range(start, len(self.sent))]
        made = Made(sends=sends, log=log, start=start, end=len(self.sent))
        looked = ObservedStarts(
            asked=tuple(self.asked),
            answered=tuple(time + 10 * MS for time in self.asked),
            offsets=tuple(map(self.seen_at, self.asked)),
        )
        evidence = RetentionEvidence(
            policy=self.policy,
            starts=looked,
            read_over=over,
            value_bytes=(VALUE, VALUE),
            clock_bound_ns=MS,
        )
        return replace(indexed(made), retention=evidence)


def moments(draw: st.DrawFn, longest_ms: int, until: int) -> list[int]:
    """Return times from BEGIN to ``until`` with pauses of at most ``longest_ms``."""
    found = [BEGIN]
    pauses = draw(st.lists(st.integers(longest_ms // 10, longest_ms), min_size=3, max_size=5))
    while found[-1] < until:
        found.append(found[-1] + pauses[len(found) % len(pauses)] * MS)
    return found


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """A log whose start is observed every two seconds or more often."""
    ms = draw(st.none() | st.integers(10_000, 30_000))
    size = draw(st.none() | st.integers(1, 40)) if ms else draw(st.integers(1, 40))
    count = draw(st.integers(20, 60))
    gaps = draw(st.lists(st.integers(50, 1_500), min_size=5, max_size=5))
    sent = BEGIN + np.cumsum([gaps[number % 5] for number in range(count)]) * MS
    until = int(sent[-1]) + draw(st.integers(0, 40)) * SECOND
    return Log(
        policy=RetentionPolicy(ms=ms, size=size and size * VALUE),
        sent=sent.tolist(),
        segments=sorted(draw(st.sets(st.integers(1, count - 1), max_size=12))),
        looks=moments(draw, 5_000, until),
        asked=moments(draw, 2_000, until),
    )


def rows(history: PartitionHistory, anomaly: str) -> list[int]:
    return CHECKERS[anomaly](history)["offset"].to_pylist()


@given(log=logs())
@ANY_MACHINE
def test_rightful_deletions_are_forgotten_and_no_anomaly(log: Log) -> None:
    history = log.history()
    assert {name: found for name in CHECKERS if (found := rows(history, name))} == {}
    assert history.acked_offset[history.forgotten].tolist() == list(range(history.read.start))
    assert not history.deletions.undetermined.any()


@given(log=logs(), data=st.data())
@ANY_MACHINE
def test_deletion_that_came_too_early_is_found_with_its_records(log: Log, data) -> None:
    sound = dict(log.starts())
    forced = data.draw(st.integers(0, len(log.looks) - 1))
    log = replace(log, forced=forced)
    now = log.looks[forced]
    before, taken = sound[now], log.seen_at(now)
    seen = min([time + 10 * MS for time in log.asked if time >= now], default=None)
    assume(taken > before and seen is not None and log.seen_at(seen) == taken)
    written = sum(time < seen for time in log.sent)
    limit = CLOCK_SLACK_NS + MS

    def is_early(offset: int) -> bool:
        policy = log.policy
        old = policy.ms is not None and seen - log.sent[offset] >= policy.ms * MS - limit
        most = (written - offset - 1) * (VALUE + 128)
        return not old and (policy.size is None or most < policy.size)

    early = [offset for offset in range(before, taken) if is_early(offset)]
    history = log.history()
    assert rows(history, "deleted-too-early") == early[:1]
    assert rows(history, "lost") == (list(range(early[0], taken)) if early else [])


@given(log=logs(), data=st.data())
@ANY_MACHINE
def test_record_lost_above_the_log_start_is_lost_whatever_retention_deleted(log: Log, data) -> None:
    history = log.history()
    start, end = history.read.start, len(log.sent)
    assume(start < end)
    gone = data.draw(st.integers(start, end - 1))
    kept = np.flatnonzero(history.log_offset != gone)
    first = history.first.copy()
    first[history.log_record[kept]] = np.arange(len(kept))
    first[history.log_record[history.log_offset == gone]] = -1
    planted = replace(
        history,
        log_offset=history.log_offset[kept],
        log_epoch=history.log_epoch[kept],
        log_record=history.log_record[kept],
        first=first,
    )
    assert rows(planted, "lost") == [gone]
    assert rows(planted, "deleted-too-early") == []


@given(log=logs(), data=st.data())
@ANY_MACHINE
def test_unobserved_deletion_is_undetermined_unless_it_was_certainly_right(log: Log, data) -> None:
    blind = replace(log, asked=log.asked[:1], forced=data.draw(st.integers(0, len(log.looks) - 1)))
    history = blind.history()
    forgotten = history.forgotten
    over = history.retention.read_over
    if log.policy.size is None and len(forgotten):
        # Only the final read showed that they were gone, and none of them was seen to be old.
        long = over - history.answered[forgotten] > log.policy.close_ns
        undetermined = history.deletions.undetermined[~history.deletions.early]
        assert undetermined.tolist() == long.tolist()
