"""Partitions that are too large for one task. They are split into slices, and every anomaly that a
single task would find is still found.

A *slice* is a range of sequence numbers of all producers. The rows of a record alone show its
outcome, how often it is in the log, and whether its ack names the right offset. Each slice is
therefore indexed alone (:mod:`checkers.engine.slices`) and written to a file that the tasks of
other slices can read.

A rule's result for a record may depend on one record of another slice: the one that was acked at
its offset, the latest-sent one before it in the log, or the lowest offset acked since. Such a
record is called a *boundary record*. Each slice fetches the boundary records of its own records
only. Then the rules run on the slice unchanged. They are monotone: given any part of a partition
that includes a record and its boundary record, they report the same for this record as they report
for the whole partition. Rows about other records are dropped.

*Anomalous* records are lost ones and those that are in the log twice. They are taken out of all
slices and judged together, because one root cause may cover all of them. Above a limit they are
judged in several groups, each with its own root causes. A separate scan reads the log once more,
from start to end, and finds gaps and leader epochs that go back (``scan``).

Two kinds of partitions are not split: one whose judgement needs the whole log (``is_whole``), and
one with an unreadable file, which is then reported as for any other partition. If two records are
at one offset of the final log, or two acks came in the same nanosecond, the details may name the
other one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.checks import latency, outages
from ackproof.checkers.checks.outages import Asked
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.checks.records import offset_gap
from ackproof.checkers.context.timeline import PartitionTimeline
from ackproof.checkers.engine import reconcile
from ackproof.checkers.engine.loading import (
    contested,
    contradictions,
    incomplete,
    last_recorded,
    unread,
    without_a_short_read,
)
from ackproof.checkers.engine.reconcile import (
    CAUSES_EACH,
    consumption,
    divergent,
    failed,
    ruled,
    sessions,
)
from ackproof.checkers.engine.results import (
    CheckError,
    PartitionTotals,
    StepResult,
    padded,
    rows_written,
    totals_of,
)
from ackproof.checkers.engine.slices import (
    LEAST,
    SLICE_ROWS,
    WHOLE_SLICES,
    Bounds,
    Piece,
    Range,
    Slice,
    SlicePart,
    Split,
    combined,
    empty_history,
    pieces,
    ranges,
    read_slice,
    slice_history,
    write_slice,
)
from ackproof.checkers.engine.tasks import bytes_of, written
from ackproof.checkers.engine.work_items import WorkItem
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.checkers.index.sequences import ByProducer, all_together, sequences_of
from ackproof.history.errors import DamagedFiles
from ackproof.history.storage import AnyPath, located, remove_tree

WHOLE_PARTITION_RULES = frozenset(
    {"lost", "duplicated", "offset-gap", "epoch-regressed", "two-leaders"}
)
"""The rules that do not run on slices but on the partition as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalousRange:
    """One range of anomalous records of a slice, which are judged together.

    Attributes:
        slice_number: The number of the slice.
        first: The lowest sequence number of the range.
        last: The highest sequence number of the range.
        count: The number of anomalous records in the range.
    """

    slice_number: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSummary:
    """The contribution of one indexed slice to the whole partition.

    Attributes:
        counts: The counts of its records, as of :func:`checkers.engine.reconcile.of_records`.
        latencies: The latencies of its acks.
        begun: The time of its first send.
        contradictory: The number of records with contradictory events.
        unread: The number of records that were acked after the final read had begun and are not in
            it.
        asked: Its sends and acks, as the search for outages needs them.
        sequences: The sequence numbers of its sends.
        anomalous: Its anomalous records in order, in ranges that can each be judged together.
    """

    counts: Counter[str]
    latencies: Counter[str]
    begun: int
    contradictory: int
    unread: int
    asked: Asked
    sequences: ByProducer
    anomalous: Sequence[AnomalousRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTask:
    """The work on one slice.

    Attributes:
        split: The split that the slice belongs to.
        own: The range of the slice.
        slice_directory: The directory to which each slice is written, under its number.
        begun: The time of the first send to the partition.
        rows: The file for the anomalies of the slice.
    """

    split: Split
    own: Range
    slice_directory: str
    begun: int = NONE
    rows: str = ""


def split_of(item: WorkItem, slice_rows: int) -> Split | None:
    """Return how a partition is split, or None if it is small or a file cannot be read."""
    try:
        sends = pieces("sends", item.sends, "sequence")
        log = pieces("log", item.log, "sequence")
        found = ranges([*sends, *log], slice_rows)
    except DamagedFiles:
        return None
    if len(found) < 2:
        return None
    recorded = last_recorded(item.cut)
    return Split(item=item, ranges=found, sends=sends, log=log, last_recorded=recorded)


def index_slice(task: SliceTask) -> SliceSummary | None:
    """Index one slice and write it to its file. Return None if a history file cannot be read.
    Raises OSError."""
    try:
        history = slice_history(task.split, task.own)
    except DamagedFiles:
        return None
    write_slice(history, located(task.slice_directory) / str(task.own.number))
    return SliceSummary(
        counts=reconcile.of_records(task.split.item, history),
        latencies=latency.of_acks(history),
        begun=history.begun,
        contradictory=history.contradictory,
        unread=len(history.unread),
        asked=outages.asked(history),
        sequences=sequences_of(history, task.split.item.sequence_range),
        anomalous=list(_anomalous_ranges(history, task.own, task.split.anomalous_max)),
    )


def _anomalous_ranges(history: PartitionHistory, own: Range, most: int) -> Iterator[AnomalousRange]:
    anomalous = np.concatenate([history.lost, history.repeated])
    sequences = np.sort(history.sequence[anomalous])
    begun = own.first
    for first in range(0, len(sequences), most):
        some = sequences[first : first + most]
        rest = first + most >= len(sequences)
        last = own.last if rest else int(some[-1])
        if last >= begun:
            yield AnomalousRange(slice_number=own.number, first=begun, last=last, count=len(some))
        begun = last + 1


def judge_slice(task: SliceTask) -> PartitionTotals:
    """Run the rules on a slice, write the rows of its anomalies, and return its totals. Raises
    OSError."""
    history, records = with_boundary_records(task)
    names = [name for name in CHECKERS if name not in WHOLE_PARTITION_RULES]
    results = (_ruled(name, task, history, records) for name in names)
    with written(located(task.rows)) as file:
        return totals_of(task.split.item, rows_written(results, file.write))


def _ruled(name: str, task: SliceTask, history: PartitionHistory, records: int) -> StepResult:
    item = task.split.item
    try:
        rows = _own_rows(CHECKERS[name](history), task.own)
        counts = reconcile.of_rule(item, history, name, rows, records)
        return StepResult(rows=padded(item, rows), counts=counts)
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        return StepResult(check_errors=(failed(name, error),))


def with_boundary_records(task: SliceTask) -> tuple[PartitionHistory, int]:
    """Return a slice with its boundary records, and the number of its own records, which come
    first."""
    split, number = task.split, task.own.number
    own = read_slice(located(task.slice_directory) / str(number))
    parts: list[SlicePart] = [own]
    for other in split.ranges:
        if other.number != number:
            there = read_slice(located(task.slice_directory) / str(other.number))
            later = other.number > number
            records, rows = boundary_records(own, there, later, split.item.timeline)
            if len(records) or len(rows):
                parts.append(there.some(records, rows))
    return combined(split, parts, task.begun), len(own.records["fate"])


def _own_rows(rows: pa.Table, own: Range) -> pa.Table:
    sequences = rows["sequence"]
    named = sequences.is_valid().to_numpy()
    mine: Array = own.holds(numbers_of(sequences), numbers_of(rows["offset"]), named)
    return rows.filter(pa.array(mine))


# --- scan -----------------------------------------------------------------------------------------
#
# The final log is read once more in the order of offsets, one stretch at a time, to find gaps and
# leader epochs that go back. A stretch begins at the offset at which the one before it ended.


_COLUMNS = ("offset", "leader_epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogScan:
    """The result of scanning the final log.

    Attributes:
        gaps: Rows of the rule ``offset-gap``.
        turns: The offsets on both sides of each place where a leader epoch went back, ascending.
        repeats: The offsets that more than one row has.
    """

    gaps: pa.Table
    turns: Array
    repeats: Array


def scan(split: Split) -> LogScan:
    """Scan the final log. The pieces of ``split.log`` must be those by offset. Raises
    DamagedFiles."""
    read = split.read
    blank = empty_history(split)
    edge = read.start
    gaps, turns, repeats = [], [], []
    known: tuple[int, int] | None = None
    stretches = list(_stretches(split.log))
    for number, stretch in enumerate(stretches or [[]]):
        offsets, epochs = _read(stretch)
        end = read.end if number + 1 >= len(stretches) else None
        stretch_read = replace(read, start=edge, end=end)
        gaps.append(offset_gap(replace(blank, log_offset=offsets, read=stretch_read)))
        repeats.append(np.unique(offsets[1:][np.diff(offsets) == 0]))
        told = epochs != NONE
        offsets_told, epochs_told = offsets[told], epochs[told]
        if known is not None:
            offsets_told = np.append(known[0], offsets_told)
            epochs_told = np.append(known[1], epochs_told)
        back = np.flatnonzero(np.diff(epochs_told) < 0)
        turns += [offsets_told[back], offsets_told[back + 1]]
        if len(offsets_told):
            known = (int(offsets_told[-1]), int(epochs_told[-1]))
        if len(offsets):
            edge = int(offsets[-1]) + 1
    return LogScan(
        gaps=pa.concat_tables(gaps),
        turns=np.unique(np.concatenate(turns)),
        repeats=np.concatenate(repeats),
    )


def at_offsets(history: PartitionHistory, offsets: Array) -> PartitionHistory:
    """Return a history that has only the log rows at these offsets."""
    rows = np.isin(history.log_offset, offsets)
    return replace(
        history,
        log_offset=history.log_offset[rows],
        log_epoch=history.log_epoch[rows],
        log_record=history.log_record[rows],
    )


def _stretches(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Yield groups of pieces in the order of their offsets. Pieces that overlap are one group. They
    overlap if a final read was resumed."""
    some: list[Piece] = []
    reached = LEAST
    for piece in sorted((p for p in pieces if p.rows), key=lambda piece: piece.least):
        if some and piece.least > reached:
            yield some
            some = []
        some.append(piece)
        reached = max(reached, piece.greatest)
    if some:
        yield some


def _read(stretch: Sequence[Piece]) -> tuple[Array, Array]:
    rows = [piece.read(_COLUMNS) for piece in stretch]
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    table = pa.concat_tables(rows)
    offsets, epochs = numbers_of(table["offset"]), numbers_of(table["leader_epoch"])
    order = np.argsort(offsets, kind="stable")
    return offsets[order], epochs[order]


# --- anomalous records ----------------------------------------------------------------------------
#
# The judgement of a split partition as a whole: lost and repeated records with their root causes,
# what a scan of the log shows, and everything that does not concern records.


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSum:
    """The summaries of all slices, added up."""

    begun: int
    contradictory: int
    unread: int
    asked: Asked

    @classmethod
    def of(cls, slices: Sequence[SliceSummary]) -> "SliceSum":
        """Add up the summaries of at least one slice."""
        begun = [one.begun for one in slices if one.begun != NONE]
        return cls(
            begun=min(begun, default=NONE),
            contradictory=sum(one.contradictory for one in slices),
            unread=sum(one.unread for one in slices),
            asked=outages.together([one.asked for one in slices]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalousTask:
    """The work on a group of anomalous records.

    Attributes:
        split: The split of the partition.
        anomalous: The anomalous records to judge together.
        begun: The time of the first send to the partition.
        slice_directory: The directory to which each slice was written.
        rows: The file for the anomalies.
        whole: The sum of all slices, for the one task of a partition that also judges it as a
            whole.
        causes_before: The number of cause numbers that are left to other tasks.
    """

    split: Split
    anomalous: Sequence[AnomalousRange]
    begun: int
    slice_directory: str
    rows: str
    whole: SliceSum | None = None
    causes_before: int = 0


def anomalous_groups(slices: Sequence[SliceSummary], most: int) -> list[list[AnomalousRange]]:
    """Return the groups of anomalous records that are judged together. A group consists of
    neighbours and has at most ``most`` records, unless a single range has more. There is at least
    one group."""
    found: list[list[AnomalousRange]] = [[]]
    filled = 0
    for own in (own for one in slices for own in one.anomalous):
        if filled + own.count > most:
            found.append([])
            filled = 0
        found[-1].append(own)
        filled += own.count
    return found


def judge_anomalous(task: AnomalousTask) -> PartitionTotals:
    """Judge a group of anomalous records, and the partition as a whole if this task does that.
    Return the totals. Raises DamagedFiles, OSError."""
    with written(located(task.rows)) as file:
        return totals_of(task.split.item, rows_written(_results(task), file.write))


def _results(task: AnomalousTask) -> Iterator[StepResult]:
    item = task.split.item
    history, check_errors = without_a_short_read(item, _anomalous_records(task))
    yield StepResult(check_errors=check_errors)
    history = replace(
        history,
        seen=np.full(len(history.fate), NONE, dtype=np.int64),
        written=sessions(item, history),
    )
    for name in ("lost", "duplicated"):
        for result in ruled(name, item, history):
            yield result.after_causes(task.causes_before)
    if task.whole is not None:
        yield _of_summaries(task, task.whole, history)
        _, result = consumption(item, history)
        yield result
        yield from _of_log(task)
        yield from divergent(item)


def _of_summaries(task: AnomalousTask, whole: SliceSum, history: PartitionHistory) -> StepResult:
    item = task.split.item
    counts = reconcile.of_partition(item, task.begun)
    counts.update(outages.counts(whole.asked, history.faults))
    check_errors: tuple[CheckError, ...] = (
        *incomplete(item, sum(piece.rows for piece in task.split.log)),
        *contradictions(whole.contradictory),
        *unread(whole.unread),
    )
    return StepResult(counts=counts, check_errors=check_errors)


def _of_log(task: AnomalousTask) -> Iterator[StepResult]:
    split, item = task.split, task.split.item
    scanned = scan(replace(split, log=pieces("log", item.log, "offset")))
    yield StepResult(
        rows=padded(item, scanned.gaps),
        counts=reconcile.of_rule(item, empty_history(split), "offset-gap", scanned.gaps),
    )
    history = _standing_at(task, scanned.turns)
    if len(scanned.repeats):
        yield StepResult(check_errors=contested(_standing_at(task, scanned.repeats).contested))
    for name in ("epoch-regressed", "two-leaders"):
        yield from ruled(name, item, history)


def _standing_at(task: AnomalousTask, offsets: Array) -> PartitionHistory:
    """Return a history that has only the log rows at these offsets."""
    parts = [one.some(_NONE, one.rows_at(offsets)) for one in _slices(task)]
    return at_offsets(combined(task.split, parts, task.begun), offsets)


def _anomalous_records(task: AnomalousTask) -> PartitionHistory:
    """Return the anomalous records, the log rows at the offsets where they were acked, and the rows
    where leader epochs begin."""
    by_slice: dict[int, list[AnomalousRange]] = {}
    for one in task.anomalous:
        by_slice.setdefault(one.slice_number, []).append(one)
    anomalous: Mapping[int, Array] = {
        number: _selected(
            read_slice(located(task.slice_directory) / str(number)), some, task.split.read.complete
        )
        for number, some in by_slice.items()
    }
    offsets = [
        read_slice(located(task.slice_directory) / str(number)).records["acked_offset"][records]
        for number, records in anomalous.items()
    ]
    acked = np.unique(np.concatenate([_NONE, *offsets]))
    parts: list[SlicePart] = []
    for number, part in enumerate(_slices(task)):
        rows = np.concatenate([part.rows_at(acked), part.epochs_begin])
        parts.append(part.some(anomalous.get(number, _NONE), np.unique(rows)))
    history = combined(task.split, parts, task.begun)
    # A record of another task is included with each of its copies at an offset of ``acked``. With
    # two such copies it looks like a duplicate here, too, and would be counted twice.
    return replace(history, selected=_within(task.anomalous, history.sequence))


def _selected(one: Slice, within: Sequence[AnomalousRange], complete: bool) -> Array:
    anomalous = np.union1d(one.lost if complete else _NONE, one.repeated)
    return anomalous[_within(within, one.records["sequence"][anomalous])]


def _within(some: Sequence[AnomalousRange], sequences: Array) -> Array:
    """Return whether each sequence number lies in one of the ranges."""
    within = np.zeros(len(sequences), dtype=bool)
    for one in some:
        within |= (sequences >= one.first) & (sequences <= one.last)
    return within


def _slices(task: AnomalousTask) -> Iterator[Slice]:
    for own in task.split.ranges:
        yield read_slice(located(task.slice_directory) / str(own.number))


_NONE = np.empty(0, dtype=np.int64)


# --- oversized partitions -------------------------------------------------------------------------
#
# Reconciliation of oversized partitions. Each has jobs of its own, so that a task that runs out of
# memory affects its own partition only.


_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class TaskRunner(Protocol):
    """An executor that applies a function to each of some tasks, in this process or on Spark, and
    returns the results in the order of the tasks."""

    def __call__(
        self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
    ) -> list[_Result]: ...


def oversized(
    run: TaskRunner, items: Sequence[WorkItem], slice_rows: int = SLICE_ROWS
) -> dict[int, Split]:
    """Return how each oversized partition is split, by its place among the items. Raises what
    ``run`` raises."""
    # No row of sends or log takes less than a byte. The rows of a partition with fewer bytes than
    # the limit has rows need not be counted.
    large = [
        place
        for place, (item, held) in enumerate(zip(items, bytes_of(items), strict=True))
        if held > WHOLE_SLICES * slice_rows and not is_whole(item)
    ]
    if not large:
        return {}
    splits = run(partial(split_of, slice_rows=slice_rows), [items[place] for place in large])
    return {place: split for place, split in zip(large, splits, strict=True) if split is not None}


def is_whole(item: WorkItem) -> bool:
    """Return whether judging the item takes the whole log: because of consumers, transactions,
    deleted records or a checker of a plug-in."""
    needs_all = bool(item.consumers) or bool(item.plugin_work)
    deletes = item.deleted_before > 0 or item.retention is not None
    return needs_all or item.transactional or deletes or item.compaction is not None


def reconcile_oversized(
    run: TaskRunner, split: Split, rows: AnyPath, slice_directory: AnyPath
) -> list[PartitionTotals] | None:
    """Reconcile one oversized partition and return the totals of each of its tasks, or None if a
    file cannot be read.

    Args:
        run: The executor of the tasks; its errors are raised.
        split: The split of the partition.
        rows: The directory for the rows of the anomalies.
        slice_directory: The directory for the indexed slices, which is removed at the end.
    """
    rows.mkdir(parents=True)
    slice_directory.mkdir(parents=True)
    try:
        slices = [
            SliceTask(split=split, own=own, slice_directory=str(slice_directory))
            for own in split.ranges
        ]
        summaries = [one for one in run(index_slice, slices) if one is not None]
        if len(summaries) < len(slices):
            return None
        judged = run(_judged, list(_tasks(slices, summaries, rows)))
    finally:
        remove_tree(slice_directory)
    counts: Counter[str] = Counter()
    for one in summaries:
        counts.update(one.counts)
    counts.update(latency.together(one.latencies for one in summaries))
    sequences = all_together([one.sequences for one in summaries])
    return [*judged, totals_of(split.item, [StepResult(counts=counts, sequences=sequences)])]


def _tasks(
    slices: Sequence[SliceTask], summaries: Sequence[SliceSummary], rows: AnyPath
) -> Iterator[AnomalousTask | SliceTask]:
    whole = SliceSum.of(summaries)
    files = (str(rows / f"{number:09}.arrows") for number in count())
    for number, group in enumerate(anomalous_groups(summaries, slices[0].split.anomalous_max)):
        yield AnomalousTask(
            split=slices[0].split,
            anomalous=group,
            begun=whole.begun,
            slice_directory=slices[0].slice_directory,
            rows=next(files),
            whole=whole if number == 0 else None,
            causes_before=number * CAUSES_EACH,
        )
    for one in slices:
        yield replace(one, begun=whole.begun, rows=next(files))


def _judged(task: AnomalousTask | SliceTask) -> PartitionTotals:
    return judge_anomalous(task) if isinstance(task, AnomalousTask) else judge_slice(task)


# --- boundary records -----------------------------------------------------------------------------
#
# Each function serves one rule or a part of one. Like the rule, it decides which record is the
# boundary record, and which one is named if there are several. Pairs of slices whose bounds rule
# out a boundary record are skipped. That is the usual case, because sequence numbers, offsets and
# times all grow together.

_NOTHING = np.empty(0, dtype=np.int64)


def boundary_records(
    own: Slice, other: Slice, later: bool, timeline: PartitionTimeline
) -> tuple[Array, Array]:
    """Return the boundary records of another slice, and the log rows that the other slice must
    provide. ``later`` says whether its sequence numbers are the higher ones. ``timeline`` is that
    of the partition."""
    kinds: list[Callable[[], Array]] = [lambda: acked_at_same_offset(own, other)]
    if later:
        kinds.append(lambda: standing_before(own, other))
    else:
        kinds.append(lambda: acked_beyond(own, other))
    if timeline.tells_of_acks:
        bound = timeline.clock_bound_ns or 0
        kinds.append(lambda: acked_below_since(own, other, 2 * bound))
        kinds.append(lambda: acked_above_before(own, other, 2 * bound))
    records = np.concatenate([kind() for kind in kinds])
    return records, other.rows_at(own.records["acked_offset"][_moved(own)])


def acked_at_same_offset(own: Slice, other: Slice) -> Array:
    """Return the records that were acked at the offset of one of the slice's own acks, for
    ``offset-mismatch``."""
    if not _overlap(own.bounds["acked"], other.bounds["acked"]):
        return _NOTHING
    mine = np.unique(own.records["acked_offset"][own.named])
    theirs = other.records["acked_offset"][other.named]
    places = np.minimum(np.searchsorted(mine, theirs), len(mine) - 1)
    return np.extract(mine[places] == theirs, other.named)


def standing_before(own: Slice, other: Slice) -> Array:
    """Return, for each of the slice's own records, the latest-sent record that precedes it in the
    log although it was sent later, for ``reordered``."""
    if not _below(other.bounds["first"], own.bounds["first"]):
        return _NOTHING
    found = [_NOTHING]
    for mine, theirs in _by_stream(own, other, own.standing, other.standing):
        key, value = (
            [of.records[name][some] for of, some in ((own, mine), (other, theirs))]
            for name in ("first_offset", "sequence")
        )
        found.append(theirs[_greatest_below(key[0], value[0], key[1], value[1], strictly=True)])
    return np.concatenate(found)


def acked_beyond(own: Slice, other: Slice) -> Array:
    """Return, for each of the slice's own records, the earlier-sent record that was acked at the
    highest offset, for ``nonmonotonic-send``."""
    if not _below(own.bounds["acked"], other.bounds["acked"]):
        return _NOTHING
    found = [_NOTHING]
    for mine, theirs in _by_stream(own, other, own.named, other.named):
        key, value = (
            [of.records[name][some] for of, some in ((own, mine), (other, theirs))]
            for name in ("sequence", "acked_offset")
        )
        found.append(theirs[_greatest_below(key[0], value[0], key[1], value[1], strictly=True)])
    return np.concatenate(found)


def acked_below_since(own: Slice, other: Slice, bound: int) -> Array:
    """Return, for each ack of the slice, the record acked at the lowest offset among those sent at
    least ``bound`` nanoseconds after that ack, for ``watermark-regressed``."""
    since, asked = own.bounds["answered"], other.bounds["asked"]
    told, theirs = own.bounds["told"], other.bounds["told"]
    if since is None or asked is None or told is None or theirs is None:
        return _NOTHING
    if asked[1] <= since[0] + bound or theirs[0] > told[1]:
        return _NOTHING
    acked = own.records["acked_offset"][own.telling]
    when = own.records["answered"][own.telling] + bound
    # The rule names the first of several records. The order is therefore reversed, because the last
    # one counts.
    others = other.telling[::-1]
    offsets, sent = (other.records[name][others] for name in ("acked_offset", "asked"))
    found: Array = others[_greatest_below(-when, -acked, -sent, -offsets, strictly=False)]
    return found


def acked_above_before(own: Slice, other: Slice, bound: int) -> Array:
    """Return, for each record of the slice that is not at its acked offset, the record of each
    epoch that is at its own acked offset, was acked at the highest offset, and was acked at least
    ``bound`` nanoseconds before the slice's own was sent. It serves ``stale-leader-ack``."""
    gone = own.telling[own.records["stands"][own.telling] == 0]
    if not len(gone) or other.bounds["told"] is None:
        return _NOTHING
    there = other.telling[other.records["stands"][other.telling] == 1]
    since, acked = own.records["asked"][gone] - bound, own.records["acked_offset"][gone]
    found = [_NOTHING]
    for epoch in np.unique(other.records["epoch"][there]):
        some = there[other.records["epoch"][there] == epoch]
        answered, offsets = (other.records[name][some] for name in ("answered", "acked_offset"))
        found.append(some[_greatest_below(since, acked, answered, offsets, strictly=False)])
    return np.concatenate(found)


def _moved(own: Slice) -> Array:
    """Return the records for which ``offset-mismatch`` names the record that is at their acked
    offset."""
    of = own.records
    named = own.standing[of["acked_offset"][own.standing] != NONE]
    return np.extract(of["stands"][named] == 0, named)


def _greatest_below(
    own_key: Array, own_value: Array, key: Array, value: Array, *, strictly: bool
) -> Array:
    """Return the places of the greatest values below the keys of the slice's own records.

    For each own key, the candidates are the other records with lower keys. The place of the
    candidate with the greatest value is returned if that value is greater than the own value, or,
    unless ``strictly``, equal to it. If several candidates have the greatest value, the last one is
    taken.
    """
    if not len(own_key) or not len(key):
        return _NOTHING
    least = own_value.min()
    near = np.flatnonzero((key < own_key.max()) & (value > least if strictly else value >= least))
    if not len(near):
        return _NOTHING
    order = near[np.argsort(key[near], kind="stable")]
    highest = np.maximum.accumulate(value[order])
    holds_it = np.where(value[order] == highest, np.arange(len(order)), 0)
    holder = np.maximum.accumulate(holds_it)
    before = np.searchsorted(key[order], own_key, side="left") - 1
    told = np.maximum(before, 0)
    beaten = highest[told] > own_value if strictly else highest[told] >= own_value
    return np.unique(order[holder[before[(before >= 0) & beaten]]])


def _by_stream(
    own: Slice, other: Slice, own_records: Array, other_records: Array
) -> Iterator[tuple[Array, Array]]:
    """Yield the records of each producer that both slices have."""
    both = own.streams.keys() & other.streams.keys()
    own_codes, other_codes = own.stream(own_records), other.stream(other_records)
    for stream in sorted(both):
        yield (
            own_records[own_codes == own.streams[stream]],
            other_records[other_codes == other.streams[stream]],
        )


def _overlap(one: Bounds, other: Bounds) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def _below(one: Bounds, other: Bounds) -> bool:
    """Return whether any value of ``one`` is below any value of ``other``."""
    return one is not None and other is not None and one[0] < other[1]
