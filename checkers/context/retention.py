"""Retention: which records a topic's log may rightly have deleted by their age or by its size.

Kafka deletes the oldest segments of a log, each as a whole. A segment goes if the broker's clock is
more than ``retention.ms`` past the largest timestamp in it, or if the log without it is still as
large as ``retention.bytes``. So a record never goes before it has the age ``retention.ms``, or
before ``retention.bytes`` follow it. The borders of the segments need not be known for that.

The harness asks for the start of each log about once a second. A record was deleted between the
last answer with a start at or below it and the first one with a start above it. Records have the
timestamps of their clients, or of the leader, which lie between send and ack. What cannot be
decided from these bounds is undetermined, and then no violation, but no pass either.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.faults import FOREVER, Partition
from ackproof.checkers.context.observed import Observed
from ackproof.history.cell import Cell, as_text

CLOCK_SLACK_NS = 1_000_000_000
"""The difference between the clocks of brokers and of the harness that is allowed for. A deletion
that is too early by less is not found."""

_OVERHEAD_BYTES = (7, 128)
"""The fewest and the most bytes that the log has for a record beside its value: its own fields in a
large batch; or those of a batch of one record, a short key and a header."""

_SIZE_SLACK = 0.1
"""The share of ``retention.bytes`` that is allowed for, since the size of a batch is not known. A
deletion that is too early by less is not found."""

_CLOSE_NS = 5_000_000_000
_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """The limits of a topic, of which at least one is set.

    Attributes:
        ms: ``retention.ms``, or None without a limit.
        size: ``retention.bytes``, or None without a limit.
        compressed: Whether batches may be compressed, so that their sizes are unknown.
    """

    ms: int | None = None
    size: int | None = None
    compressed: bool = False

    @property
    def close_ns(self) -> int:
        """The longest time between two answers that still shows when a record was deleted, in
        nanoseconds: a quarter of ``retention.ms``, or 5 s without it."""
        return _CLOSE_NS if self.ms is None else self.ms * _MS // 4


def retention_of(cell: Cell) -> RetentionPolicy | None:
    """Return the retention that a cell sets for its topic, or None if it sets none. The settings of
    brokers do not count, because a campaign with a short retention for all topics is refused."""
    own = {name: as_text(cell.settings.get(f"topic.{name}", "")) for name in _NAMES}
    if own["cleanup.policy"] and "delete" not in own["cleanup.policy"]:
        return None
    ms, size = (_limit(own[name]) for name in ("retention.ms", "retention.bytes"))
    if ms is None and size is None:
        return None
    producers = as_text(cell.settings.get("producer.compression.type", ""))
    codecs = {own["compression.type"] or "producer", producers or "none"}
    return RetentionPolicy(ms=ms, size=size, compressed=not codecs <= _UNCOMPRESSED)


_NAMES = ("cleanup.policy", "retention.ms", "retention.bytes", "compression.type")
_UNCOMPRESSED = {"none", "uncompressed", "producer"}


def _limit(text: str) -> int | None:
    return int(text) if text.isdecimal() else None


@dataclass(frozen=True, slots=True)
class ObservedStarts:
    """The answers with the start of one log, in their order.

    Attributes:
        asked, answered: The times of each question and answer, in nanoseconds by the harness's
            clock.
        offsets: The log start offsets.
    """

    asked: tuple[int, ...] = ()
    answered: tuple[int, ...] = ()
    offsets: tuple[int, ...] = ()


def observed_starts(rows: Iterable[Mapping[str, Any]]) -> Mapping[Partition, ObservedStarts]:
    """Return the observed starts of each partition, from the rows of the table ``log_starts``."""
    answers: dict[Partition, list[tuple[int, int, int]]] = {}
    for row in rows:
        answer = row["asked"], row["time"], row["log_start_offset"]
        answers.setdefault((row["topic"], row["partition"]), []).append(answer)
    return {
        partition: ObservedStarts(*zip(*sorted(found, key=itemgetter(1)), strict=True))
        for partition, found in answers.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionEvidence:
    """The evidence of the deletions in one partition.

    Attributes:
        policy: The limits of the topic.
        starts: The observed starts of its log.
        read_over: The time by which the final read had found its log start; FOREVER if unknown.
        value_bytes: The sizes of the smallest and of the largest value, or None if unknown.
        clock_bound_ns: The clock bound of the clients that sent to the partition, or None if
            unknown.
        clocks_changed: Whether a fault may have changed a clock, so that ages are unknown.
    """

    policy: RetentionPolicy
    starts: ObservedStarts = ObservedStarts()
    read_over: int = FOREVER
    value_bytes: tuple[int, int] | None = None
    clock_bound_ns: int | None = None
    clocks_changed: bool = False

    @property
    def ages_known(self) -> bool:
        """Whether the ages of records can be bounded."""
        return self.clock_bound_ns is not None and not self.clocks_changed

    @property
    def record_bytes(self) -> tuple[int, int] | None:
        """The fewest and the most bytes of a record in the log, or None if that is unknown.
        Compressed records may be smaller than any value."""
        if self.value_bytes is None:
            return None
        least, most = map(sum, zip(self.value_bytes, _OVERHEAD_BYTES, strict=True))
        return 0 if self.policy.compressed else least, most


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletions:
    """The judgement of absent records below the start of a log, an element for each of them.

    Attributes:
        early: Whether it was deleted too early for certain.
        undetermined: Whether it may have been deleted too early.
        kept_until: The last time at which it is known to have been there.
        removed_by: The time by which it was deleted.
        bytes_behind: The most bytes that may have followed it at that time.
    """

    early: Array
    undetermined: Array
    kept_until: Array
    removed_by: Array
    bytes_behind: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The growth of a log, by times in ascending order.

    Attributes:
        asked: The times of the sends.
        most: The highest possible log end offset when each of them was made.
        answered: The times of the acks.
        least: The lowest possible log end offset when each of them had come.
    """

    asked: Array
    most: Array
    answered: Array
    least: Array

    @classmethod
    def of(cls, asked: Array, answered: Array, offsets: Array) -> "Growth":
        """Return the growth that follows from the time of each send, the time of its ack and its
        offset, the latter two NONE if they are unknown. A record with an unknown offset may have
        been appended, and deleted since."""
        sent, acked = np.argsort(asked, kind="stable"), np.flatnonzero(answered != NONE)
        acked = acked[np.argsort(answered[acked], kind="stable")]
        ends = np.where(offsets == NONE, 0, offsets + 1)
        unplaced = np.cumsum(offsets[sent] == NONE)
        return cls(
            asked=asked[sent],
            most=np.maximum.accumulate(ends[sent]) + unplaced,
            answered=answered[acked],
            least=np.maximum.accumulate(ends[acked]),
        )

    def bounds(self, times: Array) -> tuple[Array, Array]:
        """Return the lowest and the highest possible log end offset at each of these times."""
        return (
            np.append(0, self.least)[np.searchsorted(self.answered, times, side="right")],
            np.append(0, self.most)[np.searchsorted(self.asked, times, side="right")],
        )


def deletions(
    evidence: RetentionEvidence, offsets: Array, asked: Array, answered: Array, growth: Growth
) -> Deletions:
    """Judge acked records that are absent, below the start of the final log.

    Args:
        evidence: What is known of the deletions.
        offsets: The offset of each record, ascending.
        asked, answered: The times of its send and of its ack.
        growth: The growth of the log.
    """
    kept_until, removed_by = _between(evidence, offsets, answered)
    close = removed_by - kept_until <= evidence.policy.close_ns
    by_age, for_age = _by_age(evidence, asked, answered, kept_until, removed_by)
    deep, _ = _bytes_behind(evidence, offsets, growth, kept_until)
    least, most = _bytes_behind(evidence, offsets, growth, removed_by)
    right = by_age & (for_age | close & evidence.ages_known)
    by_size = np.zeros(len(offsets), dtype=bool)
    if (size := evidence.policy.size) is not None:
        by_size = most >= size
        right |= by_size & (np.where(close, least, deep) >= size * (1 - _SIZE_SLACK))
    early = _with_those_above(~by_age & ~by_size, removed_by)
    return Deletions(
        early=early,
        undetermined=~early & ~right,
        kept_until=kept_until,
        removed_by=removed_by,
        bytes_behind=most,
    )


def _with_those_above(early: Array, removed_by: Array) -> Array:
    """Return ``early``, with the records above that were deleted at the same time. Segments go in
    their order, so what is above a record that had to stay had to stay, too."""
    _, firsts, place = np.unique(removed_by, return_index=True, return_inverse=True)
    counts = np.cumsum(early)
    before = (counts - early)[firsts]
    above: Array = counts > before[place]
    return above


def _between(evidence: RetentionEvidence, offsets: Array, answered: Array) -> tuple[Array, Array]:
    """Return when each record was last known to be there, and when it was first known to be
    gone."""
    asked = np.array([0, *evidence.starts.asked], dtype=np.int64)
    seen = np.array([*evidence.starts.answered, evidence.read_over], dtype=np.int64)
    # A new leader may begin lower than its predecessor. The first leader without the record counts.
    starts = np.maximum.accumulate(np.array(evidence.starts.offsets, dtype=np.int64))
    # The answer at this place is the first one above the offset; behind the last is the final read.
    place = np.searchsorted(starts, offsets, side="right")
    removed_by = np.maximum(seen[place], answered)
    return np.minimum(np.maximum(asked[place], answered), removed_by), removed_by


def _by_age(
    evidence: RetentionEvidence, asked: Array, answered: Array, kept_until: Array, removed_by: Array
) -> tuple[Array, Array]:
    """Return whether each record may have been old enough when it was deleted, and whether it
    certainly was when it was last known to be there."""
    if evidence.policy.ms is None:
        never = np.zeros(len(asked), dtype=bool)
        return never, never
    if not evidence.ages_known:
        return np.ones(len(asked), dtype=bool), np.zeros(len(asked), dtype=bool)
    slack = CLOCK_SLACK_NS + (evidence.clock_bound_ns or 0)
    limit = evidence.policy.ms * _MS
    return removed_by - asked >= limit - slack, kept_until - answered >= limit + slack


def _bytes_behind(
    evidence: RetentionEvidence, offsets: Array, growth: Growth, times: Array
) -> tuple[Array, Array]:
    """Return the fewest and the most bytes that followed each record at its time."""
    if evidence.record_bytes is None:
        return np.zeros(len(offsets), dtype=np.int64), np.full(len(offsets), FOREVER)
    each, ends = evidence.record_bytes, growth.bounds(times)
    least, most = (
        np.maximum(end - offsets - 1, 0) * size for end, size in zip(ends, each, strict=True)
    )
    return least, most


# --- tombstones -----------------------------------------------------------------------------------
#
# Which tombstones compaction may rightly have removed by their age.
#
# A cleaner removes a tombstone at the earliest delete.retention.ms after it first passed it
# (KIP-534, Kafka 3.1), or before that release, after the tombstone was written. Neither time is
# known, but both are after the tombstone was sent. A replica that was out of the ISR for as long
# may have missed the tombstone, and keep the value that it deleted.


@dataclass(frozen=True, slots=True, kw_only=True)
class TombstoneEvidence:
    """The evidence of the removal of tombstones in one partition.

    Attributes:
        retention_ms: ``delete.retention.ms`` of the topic.
        read_over: The time by which the final read had ended; FOREVER if unknown.
        unseen_ns: The longest time within which tombstones may have come and gone unseen by a
            replica that was out of the ISR, or by the final read; FOREVER if unknown.
        clock_bound_ns: The clock bound of the clients that sent to the partition or read it, or
            None if unknown.
        clocks_changed: Whether a fault may have changed a clock, so that ages are unknown.
    """

    retention_ms: int
    read_over: int = FOREVER
    unseen_ns: int = 0
    clock_bound_ns: int | None = 0
    clocks_changed: bool = False

    def has_passed(self, since: Array | int, until: Array | int) -> Array:
        """Return whether ``delete.retention.ms`` may have passed between two times. A ``since`` of
        NONE is unknown, so that it may."""
        if self.clock_bound_ns is None or self.clocks_changed:
            return np.ones(np.broadcast(since, until).shape, dtype=bool)
        limit = self.retention_ms * _MS - CLOCK_SLACK_NS - self.clock_bound_ns
        passed: Array = np.subtract(until, np.maximum(since, 0)) >= min(limit, FOREVER)
        return passed


def longest_absence_ns(observed: Observed, until: int) -> int:
    """Return the longest time for which a replica may have been out of the ISR before ``until``. A
    time without observation counts. Return FOREVER if no replica was observed."""
    if not observed.brokers:
        return FOREVER
    first = observed.states[0].time
    return max(
        after[0] - before[1]
        for broker in observed.brokers
        for before, after in pairwise(
            [(first, first), *_in_isr(observed, broker, until), (until, until)]
        )
    )


def _in_isr(observed: Observed, broker: int, until: int) -> Iterator[tuple[int, int]]:
    """Yield the times in which a broker was in the ISR for certain, each from start to end."""
    for span, state in observed.spans():
        start, end = span.start, min(span.end, until)
        holes = (hole for hole in observed.holes if hole.start < end)
        for hole in holes if broker in state.isr else ():
            if start < hole.start:
                yield start, hole.start
            start = max(start, hole.end)
        if broker in state.isr and start < end:
            yield start, end
