"""The comparison of replicas: their raw logs, as far as they were collected
(:mod:`checkers.index.raw_logs`), are compared byte by byte, and differences become rows of
anomalies."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from ackproof.checkers.checks.catalogue import DIVERGENT
from ackproof.checkers.checks.rows import ROWS
from ackproof.checkers.context.faults import FOREVER, Partition
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS, Span
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.index.raw_logs import RawBatch, RawLog, Undecodable, contents, holds
from ackproof.history.cell import Cell
from ackproof.history.payload import Identity
from ackproof.history.storage import AnyPath

FILE = "replication-offset-checkpoint"


def high_watermark(log: AnyPath, partition: tuple[str, int]) -> int | None:
    """Return the high watermark of the partition whose log is in this directory, or None if it is
    not recorded or has another format. The recorded value may be up to five seconds old and is then
    too low (``replica.high.watermark.checkpoint.interval.ms``)."""
    try:
        version, _, *entries = (log.parent / FILE).read_text().splitlines()
    except (OSError, ValueError):
        return None
    topic, number = partition
    for entry in entries if version == "0" else ():
        match entry.split(" "):
            case [name, which, offset] if (name, which) == (topic, str(number)):
                return int(offset) if offset.isdecimal() else None
    return None


# --- collected ------------------------------------------------------------------------------------
#
# The copies of a partition's log that can be compared, and the range of offsets.
#
# Every committed record is the same in the logs of all in-sync replicas. The comparison therefore
# includes
#
# - the logs of the brokers that were in the ISR for as long as logs were being copied, under one
#   leader in one leader epoch. A broker out of the ISR (stopped, cut off, catching up) may hold
#   anything.
# - the offsets up to the end of the final read. A consumer receives committed records only, and
#   every member of the ISR then had what was committed, as has every broker that joined it later.
#   Records beyond that end may be in progress and may differ. If the final read has no end, for
#   example because its client crashed, the largest high watermark that a member recorded counts: it
#   is up to five seconds old, and too low.
# - the offsets from the later of the two log starts on.
#
# A difference below the end is therefore no race of copying, because nothing is written there any
# more. Two cases cannot be detected: copies that are all wrong in the same way, and copies of
# brokers out of the ISR.


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The collected logs of a partition that can be compared.

    Attributes:
        brokers: The ids of the brokers, the leader's first.
        directories: The directory of each log.
        end: The offset up to which (exclusive) the logs must agree.
        not_compared: The reasons why other logs cannot be compared, a sentence each.
    """

    brokers: tuple[int, ...] = ()
    directories: tuple[AnyPath, ...] = ()
    end: int = 0
    not_compared: tuple[str, ...] = ()


def copies(run: RunEvidence, cell: Cell, partition: Partition) -> Copies:
    """Return the comparable copies of one partition. If the run has no collected logs at all,
    return none, and no reason."""
    if run.collected is None or run.logs is None:
        return Copies()
    if cell.compacts:
        why = "each replica compacts its own log"
        return Copies(not_compared=(f"replicas not compared: {why}",))
    if "cluster" in run.incomplete:
        why = "rows of the table cluster, which records the ISR, are missing"
        return Copies(not_compared=(f"replicas not compared: {why}",))
    observed = run.observation.of(partition)
    # The table may have a change that happened during copying a moment later.
    lagging = min(run.collected.end + OBSERVATION_LAG_NS, FOREVER)
    states = observed.during(Span(run.collected.start, lagging))
    if not states or observed.blind(run.collected):
        why = "the ISR was not observed while logs were collected"
        return Copies(not_compared=(f"replicas not compared: {why}",))
    if len({(state.leader, state.leader_epoch) for state in states}) > 1:
        return Copies(
            not_compared=("replicas not compared: a leader was elected while logs were collected",)
        )
    members = set.intersection(*(set(state.isr) for state in states))
    (leader,) = {state.leader for state in states}
    logs = run.logs.get(f"{partition[0]}-{partition[1]}", ())
    found = {broker: [path for holder, path in logs if holder == broker] for broker in members}
    whole = [broker for broker in sorted(found) if len(found[broker]) == 1]
    whole.sort(key=lambda broker: broker != leader)
    end = _committed(run, partition, [found[broker][0] for broker in whole])
    if end is None:
        return Copies(
            not_compared=(
                ("replicas not compared: no final read shows which records were committed"),
            )
        )
    return Copies(
        brokers=tuple(whole),
        directories=tuple(found[broker][0] for broker in whole),
        end=end,
        not_compared=tuple(_not_compared(cell, found)),
    )


def _committed(run: RunEvidence, partition: Partition, logs: Sequence[AnyPath]) -> int | None:
    """Return the offset up to which the log is certainly committed, or None if it is unknown."""
    read = run.reads.get(partition)
    if read is not None and read.read.end is not None:
        return read.read.end
    marks = (high_watermark(log, partition) for log in logs)
    return max((mark for mark in marks if mark is not None), default=None)


def _not_compared(cell: Cell, found: Mapping[int, list[AnyPath]]) -> Iterator[str]:
    for broker, logs in sorted(found.items()):
        if len(logs) != 1:
            why = "was collected from several log directories" if logs else "was not collected"
            yield f"the log of broker-{broker} not compared: it {why}"
    if len(found) < cell.replication_factor:
        isr = ", ".join(f"broker-{broker}" for broker in sorted(found)) or "no broker"
        yield f"replicas not compared: while logs were collected only {isr} was in the ISR"


# --- comparison -----------------------------------------------------------------------------------
#
# The differences between the logs of two replicas, from a walk along both by offset with one batch
# of each in memory.
#
# A follower appends the leader's batches unchanged. Every log then has the same bytes, and a broker
# with part of a batch has all of it. Batches are decoded only where the bytes differ, and are
# compared record by record: by leader epoch, then by content. If these are equal, the rest of the
# batch differs (its CRC, attributes, producer or timestamps), and all of its offsets are different.
# Batches with other boundaries but the same records in the same epochs do not differ. Offsets in an
# unreadable part of a log are left out.


class DifferenceKind(StrEnum):
    """The way in which two logs differ at an offset."""

    DIFFERS = "differs"
    """Each log holds something there, and the two are not the same."""
    LACKS = "lacks"
    """One log holds nothing there."""


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """The batch that a log holds at an offset: its leader epoch, its CRC, and whether the CRC is
    right."""

    leader_epoch: int
    crc: int
    intact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Neighbouring offsets at which two logs differ in the same way.

    Attributes:
        kind: The way in which they differ.
        first, last: The offsets, both included.
        one, other: A description of what each holds at the first offset, or None for nothing.
        sides: The batches that hold it, or None for nothing.
        identity: The record there in one log, or else in the other, or None if no client wrote it.
    """

    kind: DifferenceKind
    first: int
    last: int
    one: str | None
    other: str | None
    sides: tuple[HeldBatch | None, HeldBatch | None]
    identity: Identity | None

    def continued_by(self, later: "Difference") -> bool:
        """Return whether ``later`` continues this difference."""
        same = (self.kind, self.one is None, self.other is None)
        return self.last + 1 == later.first and same == (
            later.kind,
            later.one is None,
            later.other is None,
        )


def differences(one: RawLog, other: RawLog, start: int, end: int) -> Iterator[Difference]:
    """Yield the differences of two logs from ``start`` to ``end`` (exclusive), in their order.

    Raises what :meth:`checkers.index.raw_logs.RawLog.batches` raises.
    """
    found: Difference | None = None
    for difference in _differences(one, other, start, end):
        if found is not None and found.continued_by(difference):
            found = replace(found, last=difference.last)
            continue
        if found is not None:
            yield found
        found = difference
    if found is not None:
        yield found


def _differences(one_log: RawLog, other_log: RawLog, offset: int, end: int) -> Iterator[Difference]:
    ones, others = one_log.batches(offset, end), other_log.batches(offset, end)
    one, other = next(ones, None), next(others, None)
    while offset < end and (one or other):
        following = min(batch.base_offset for batch in (one, other) if batch)
        offset = max(offset, following)
        last = _stretch(offset, end, one, other)
        here, there = _at(one, offset), _at(other, offset)
        if here is not None and there is not None:
            yield from _compared(here, there, offset, last)
        elif here is not None or there is not None:
            lacking = one_log if here is None else other_log
            for from_, to in _outside(lacking.unread, offset, last):
                yield _difference(DifferenceKind.LACKS, from_, to, here, there)
        offset = last + 1
        if one is not None and one.last_offset < offset:
            one = next(ones, None)
        if other is not None and other.last_offset < offset:
            other = next(others, None)


def _outside(unread: Iterable[tuple[int, int]], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets outside the unreadable ranges. It is unknown what a log holds in
    these."""
    for since, until in sorted(unread):
        if first < since <= last:
            yield first, since - 1
        if since <= last:
            first = max(first, until)
    if first <= last:
        yield first, last


def _at(batch: RawBatch | None, offset: int) -> RawBatch | None:
    return batch if batch is not None and batch.base_offset <= offset else None


def _stretch(offset: int, end: int, *batches: RawBatch | None) -> int:
    """Return the last offset up to which the batches from ``offset`` on stay the same."""
    edges = [end - 1]
    for batch in batches:
        if batch is not None:
            begun = batch.base_offset <= offset
            edges.append(batch.last_offset if begun else batch.base_offset - 1)
    return min(edges)


def _compared(one: RawBatch, other: RawBatch, first: int, last: int) -> Iterator[Difference]:
    if one.data == other.data:
        return
    for from_, to in _unlike(one, other, first, last):
        yield _difference(DifferenceKind.DIFFERS, from_, to, one, other)


def _unlike(one: RawBatch, other: RawBatch, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets at which the records of two batches differ."""
    if one.leader_epoch != other.leader_epoch:
        yield first, last
        return
    try:
        mine, theirs = contents(one), contents(other)
    except Undecodable:
        yield first, last
        return
    offsets = range(first, last + 1)
    unlike = [offset for offset in offsets if mine.get(offset) != theirs.get(offset)]
    yield from ((offset, offset) for offset in unlike)
    same_cut = (one.base_offset, one.last_offset) == (other.base_offset, other.last_offset)
    if not unlike and same_cut:
        yield first, last


def _difference(
    kind: DifferenceKind, first: int, last: int, one: RawBatch | None, other: RawBatch | None
) -> Difference:
    (here, own_identity), (there, other_identity) = (
        (None, None) if batch is None else holds(batch, first) for batch in (one, other)
    )
    return Difference(
        kind=kind,
        first=first,
        last=last,
        one=here,
        other=there,
        sides=(_side(one), _side(other)),
        identity=own_identity or other_identity,
    )


def _side(batch: RawBatch | None) -> HeldBatch | None:
    return None if batch is None else HeldBatch(batch.leader_epoch, batch.crc, batch.intact)


# --- divergence -----------------------------------------------------------------------------------
#
# The checker divergent-replicas, which turns the copies of one partition into rows of anomalies.


_ROWS_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergentRange:
    """A range of offsets at which the logs of two brokers, ``one`` and ``other``, differ."""

    one: int
    other: int
    difference: Difference


@dataclass(slots=True, kw_only=True)
class Divergence:
    """The copies of one partition, each compared with the first.

    Attributes:
        cell, topic, partition: The partition.
        brokers: The brokers of the copies, the leader first if its copy is among them.
        directories: The directory of each copy.
        end: The offset up to which (exclusive) they must agree.
        deleted_before: The offset below which records were deleted by an administrator's order.
        not_compared: The parts that could not be compared, a sentence each; :meth:`partings` adds
            to it.
        compared: The number of compared offsets, summed over pairs; :meth:`partings` adds to it.
    """

    cell: str
    topic: str
    partition: int
    brokers: Sequence[int]
    directories: Sequence[AnyPath]
    end: int
    deleted_before: int = 0
    not_compared: list[str] = field(default_factory=list)
    compared: int = 0

    def divergent_ranges(self) -> Iterator[list[DivergentRange]]:
        """Yield the places where copies differ from the first, several at a time.

        Raises:
            OtherFormat: A log is not in message format v2.
            OSError: A file cannot be read.
        """
        some: list[DivergentRange] = []
        for divergence in self._divergent_ranges():
            some.append(divergence)
            if len(some) == _ROWS_AT_ONCE:
                yield some
                some = []
        if some:
            yield some

    def rows(self, divergent_ranges: Sequence[DivergentRange]) -> pa.Table:
        """Return one row of :data:`checkers.checks.rows.ROWS` for each."""
        return pa.Table.from_pylist(list(map(self._row, divergent_ranges)), schema=ROWS)

    def _divergent_ranges(self) -> Iterator[DivergentRange]:
        logs = list(zip(self.brokers, self.directories, strict=True))
        for broker, directory in logs[1:]:
            first, one = logs[0][0], RawLog(logs[0][1])
            other = RawLog(directory)
            start = self._start({first: one.start, broker: other.start})
            for difference in differences(one, other, start, self.end):
                yield DivergentRange(one=first, other=broker, difference=difference)
            reached = max(start, min(max(one.reached, other.reached), self.end))
            self.compared += reached - start
            if reached < self.end and not one.damage and not other.damage:
                words = f"the logs of broker-{first} and broker-{broker} end at offset {reached}"
                self.not_compared.append(f"replicas not compared up to offset {self.end}: {words}")
            told = {f"broker-{first}": one.damage, f"broker-{broker}": other.damage}
            self.not_compared += [f"the log of {who} {what}" for who in told for what in told[who]]

    def _start(self, starts: Mapping[int, int | None]) -> int:
        """Return the offset from which both logs have records. If one log begins later, a
        sentence in ``not_compared`` says so, because what it lacks may or may not have been
        deleted rightly."""
        known = [start for start in starts.values() if start is not None]
        if len(known) < len(starts):
            self.not_compared.append(f"replicas not compared: {_starts(starts)}")
            return self.end
        # A replica that was copied again never had the records that an order deleted.
        if len(set(known)) > 1 and max(known) > self.deleted_before:
            words = f"replicas not compared below offset {max(known)}: {_starts(starts)}"
            self.not_compared.append(words)
        return max(known)

    def _row(self, divergence: DivergentRange) -> dict[str, Any]:
        difference, whose = divergence.difference, divergence.difference.identity
        return {
            "cell": self.cell,
            "anomaly": DIVERGENT,
            "topic": self.topic,
            "partition": self.partition,
            "offset": difference.first,
            "producer": None if whose is None else whose.producer,
            "sequence": None if whose is None else whose.sequence,
            "detail": _detail(difference, f"broker-{divergence.one}", f"broker-{divergence.other}"),
        }


def _starts(starts: Mapping[int, int | None]) -> str:
    return ", ".join(
        f"the log of broker-{broker} has no segment"
        if start is None
        else f"the log of broker-{broker} starts at {start}"
        for broker, start in starts.items()
    )


def _detail(difference: Difference, one: str, other: str) -> str:
    first, last = difference.first, difference.last
    where = f"offset {first}" if first == last else f"offsets {first} to {last}"
    if difference.kind is DifferenceKind.DIFFERS:
        holds = f"{one} holds {difference.one}, {other} {difference.other}"
        return f"differs: {one} and {other} at {where}; at {first} {holds}"
    if difference.one is None:
        return f"lacks: {one} has no {where}; at {first} {other} holds {difference.other}"
    return f"lacks: {other} has no {where}; at {first} {one} holds {difference.one}"
