"""Partitions that are too large for one task: split into slices, without a row found otherwise.

A *slice* is a range of sequence numbers, of all producers. What became of a record, how often it
stands in the log, and whether its ack names the right offset, is told by its own rows; so a slice
is indexed alone (:mod:`checkers.engine.slices`), and put aside where the others find it.

What a rule says of a record may hang on one *witness* in another slice: the one that was acked at
its offset, the latest-sent one that stands before it, the lowest offset acked since. Each slice
fetches the witnesses of its own records, and theirs alone
(:mod:`checkers.engine.boundary_records`). Then the rules run on it as they are. They are monotone:
of a part of a partition that has a record and its witness they say of this record what they say of
the whole. Rows on others are dropped.

What is *rare*, lost or there twice, is taken out of all slices and judged together, because an
autopsy tells one story of all of it (:mod:`checkers.engine.oversized_partitions`). Beyond so many
records it is judged part by part, with stories of their own. Gaps and epochs that go back are found
where the log is read once more, from edge to edge (``scan``).

Not split: a partition that somebody reads while it is written, whose reads are held against the
whole log; and one with a file that cannot be read, so that it is told as ever. Where two records
are told at one offset of the final log, or two acks came in the same nanosecond, the details may
name the other one.
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
from ackproof.checkers.checks.catalogue import CHECKERS
from ackproof.checkers.checks.outages import Asked
from ackproof.checkers.checks.records import offset_gap
from ackproof.checkers.engine import reconcile
from ackproof.checkers.engine.boundary_records import witnesses
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
    Doubt,
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
    Part,
    Piece,
    Range,
    Slice,
    Split,
    indexed,
    nothing,
    pieces,
    put_aside,
    ranges,
    taken,
    together,
)
from ackproof.checkers.engine.tasks import bytes_of, written
from ackproof.checkers.engine.work_items import WorkItem
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.checkers.index.sequences import ByProducer, all_together, sequences_of
from ackproof.history.errors import DamagedFiles
from ackproof.history.storage import AnyPath, located, remove_tree

OF_THE_WHOLE = frozenset({"lost", "duplicated", "offset-gap", "epoch-regressed", "two-leaders"})
"""The rules that do not run on slices: :mod:`checkers.engine.oversized_partitions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Few:
    """Rare records of a slice that are judged together: so many (``count``), with sequence numbers
    from ``first`` to ``last``."""

    slice_number: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSummary:
    """What a slice adds to the whole partition once it is indexed. ``begun``: its first send;
    ``sequences``: of its sends; ``rare``: its rare records, in order, as many at a time as can be
    judged together."""

    counts: Counter[str]
    latencies: Counter[str]
    begun: int
    contradictory: int
    unread: int
    asked: Asked
    sequences: ByProducer
    rare: Sequence[Few]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTask:
    """``own``: the slice; ``aside``: the directory in which each is put aside under its number;
    ``begun``: the first send of all; ``rows``: the file for its anomalies."""

    split: Split
    own: Range
    aside: str
    begun: int = NONE
    rows: str = ""


def split_of(item: WorkItem, slice_rows: int) -> Split | None:
    """How a partition is split; None where it is small, or a file cannot be read."""
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
    """Index one and put it aside; None where a file cannot be read. Raises OSError."""
    try:
        history = indexed(task.split, task.own)
    except DamagedFiles:
        return None
    put_aside(history, located(task.aside) / str(task.own.number))
    return SliceSummary(
        counts=reconcile.of_records(task.split.item, history),
        latencies=latency.of_acks(history),
        begun=history.begun,
        contradictory=history.contradictory,
        unread=len(history.unread),
        asked=outages.asked(history),
        sequences=sequences_of(history, task.split.item.sequence_range),
        rare=list(_few(history, task.own, task.split.rare_max)),
    )


def _few(history: PartitionHistory, own: Range, most: int) -> Iterator[Few]:
    rare = np.concatenate([history.lost, history.repeated])
    sequences = np.sort(history.sequence[rare])
    begun = own.first
    for first in range(0, len(sequences), most):
        some = sequences[first : first + most]
        rest = first + most >= len(sequences)
        last = own.last if rest else int(some[-1])
        if last >= begun:
            yield Few(slice_number=own.number, first=begun, last=last, count=len(some))
        begun = last + 1


def judge_slice(task: SliceTask) -> PartitionTotals:
    """Run the rules on a slice; its rows go into its file. Its totals. Raises OSError."""
    history, records = with_witnesses(task)
    names = [name for name in CHECKERS if name not in OF_THE_WHOLE]
    results = (_ruled(name, task, history, records) for name in names)
    with written(located(task.rows)) as file:
        return totals_of(task.split.item, rows_written(results, file.write))


def _ruled(name: str, task: SliceTask, history: PartitionHistory, records: int) -> StepResult:
    item = task.split.item
    try:
        rows = _own_rows(CHECKERS[name].rule(history), task.own)
        counts = reconcile.of_rule(item, history, name, rows, records)
        return StepResult(rows=padded(item, rows), counts=counts)
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        return StepResult(doubts=(failed(name, error),))


def with_witnesses(task: SliceTask) -> tuple[PartitionHistory, int]:
    """A slice with all that its rules must see of others, and how many of its records, the first
    ones, are its own."""
    split, number = task.split, task.own.number
    own = taken(located(task.aside) / str(number))
    parts: list[Part] = [own]
    for other in split.ranges:
        if other.number != number:
            there = taken(located(task.aside) / str(other.number))
            later = other.number > number
            records, rows = witnesses(own, there, later, split.item.timeline)
            if len(records) or len(rows):
                parts.append(there.some(records, rows))
    return together(split, parts, task.begun), len(own.records["fate"])


def _own_rows(rows: pa.Table, own: Range) -> pa.Table:
    sequences = rows["sequence"]
    named = sequences.is_valid().to_numpy()
    mine: Array = own.holds(numbers_of(sequences), numbers_of(rows["offset"]), named)
    return rows.filter(pa.array(mine))


# --- scan -----------------------------------------------------------------------------------------
#
# The final log read once more in the order of offsets, stretch by stretch: its holes, and where
# epochs go back. A stretch begins at the edge at which the one before it ended.


_COLUMNS = ("offset", "leader_epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """``gaps``: rows of the rule ``offset-gap``; ``turns``: the offsets on both sides of each place
    where a leader epoch went back, ascending; ``repeats``: those that more than one row has."""

    gaps: pa.Table
    turns: Array
    repeats: Array


def scan(split: Split) -> Scanned:
    """Read it. ``split.log``: pieces by offset. Raises DamagedFiles."""
    read = split.read
    blank = nothing(split)
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
    return Scanned(
        gaps=pa.concat_tables(gaps),
        turns=np.unique(np.concatenate(turns)),
        repeats=np.concatenate(repeats),
    )


def at(history: PartitionHistory, offsets: Array) -> PartitionHistory:
    """A history with those rows of the log alone that stand at these offsets."""
    rows = np.isin(history.log_offset, offsets)
    return replace(
        history,
        log_offset=history.log_offset[rows],
        log_epoch=history.log_epoch[rows],
        log_record=history.log_record[rows],
    )


def _stretches(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces in the order of their offsets; those that overlap, as where a final read was taken up
    again, are one stretch."""
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


# --- rare -----------------------------------------------------------------------------------------
#
# What is told of a partition in slices as a whole: what is lost or stands in the log more than
# once, with autopsies; what the log shows from edge to edge; and what is no matter of records.


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """The summaries of all slices, added up."""

    begun: int
    contradictory: int
    unread: int
    asked: Asked

    @classmethod
    def of(cls, slices: Sequence[SliceSummary]) -> "Whole":
        """Add up at least one."""
        begun = [one.begun for one in slices if one.begun != NONE]
        return cls(
            begun=min(begun, default=NONE),
            contradictory=sum(one.contradictory for one in slices),
            unread=sum(one.unread for one in slices),
            asked=outages.together([one.asked for one in slices]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RareTask:
    """``few``: the rare records to judge together; ``whole``: for the one task, of a partition's,
    that tells the rest, too; ``begun``: the partition's first send; ``aside``, ``rows``: as in
    :class:`checkers.engine.oversized_partitions.SliceTask`; ``causes_before``: so many numbers of
    causes are left to others."""

    split: Split
    few: Sequence[Few]
    begun: int
    aside: str
    rows: str
    whole: Whole | None = None
    causes_before: int = 0


def together_judged(slices: Sequence[SliceSummary], most: int) -> list[list[Few]]:
    """Return which rare records are judged together: neighbours with at most so many rare records;
    at least one group."""
    found: list[list[Few]] = [[]]
    filled = 0
    for few in (few for one in slices for few in one.rare):
        if filled + few.count > most:
            found.append([])
            filled = 0
        found[-1].append(few)
        filled += few.count
    return found


def judge_rare(task: RareTask) -> PartitionTotals:
    """Judge what is rare, and the rest where this is the task for it, and return the totals. Raises
    DamagedFiles, OSError."""
    with written(located(task.rows)) as file:
        return totals_of(task.split.item, rows_written(_results(task), file.write))


def _results(task: RareTask) -> Iterator[StepResult]:
    item = task.split.item
    history, doubts = without_a_short_read(item, _rare(task))
    yield StepResult(doubts=doubts)
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


def _of_summaries(task: RareTask, whole: Whole, history: PartitionHistory) -> StepResult:
    item = task.split.item
    counts = reconcile.of_partition(item, task.begun)
    counts.update(outages.counts(whole.asked, history.faults))
    doubts: tuple[Doubt, ...] = (
        *incomplete(item, sum(piece.rows for piece in task.split.log)),
        *contradictions(whole.contradictory),
        *unread(whole.unread),
    )
    return StepResult(counts=counts, doubts=doubts)


def _of_log(task: RareTask) -> Iterator[StepResult]:
    split, item = task.split, task.split.item
    scanned = scan(replace(split, log=pieces("log", item.log, "offset")))
    yield StepResult(
        rows=padded(item, scanned.gaps),
        counts=reconcile.of_rule(item, nothing(split), "offset-gap", scanned.gaps),
    )
    history = _standing_at(task, scanned.turns)
    if len(scanned.repeats):
        yield StepResult(doubts=contested(_standing_at(task, scanned.repeats).contested))
    for name in ("epoch-regressed", "two-leaders"):
        yield from ruled(name, item, history)


def _standing_at(task: RareTask, offsets: Array) -> PartitionHistory:
    """Return the history with those rows of the log alone that stand at these offsets."""
    parts = [one.some(_NONE, one.rows_at(offsets)) for one in _slices(task)]
    return at(together(task.split, parts, task.begun), offsets)


def _rare(task: RareTask) -> PartitionHistory:
    """The records that are rare, what stands where they were acked, and where epochs begin."""
    few: dict[int, list[Few]] = {}
    for one in task.few:
        few.setdefault(one.slice_number, []).append(one)
    rare: Mapping[int, Array] = {
        number: _among(taken(located(task.aside) / str(number)), some, task.split.read.complete)
        for number, some in few.items()
    }
    offsets = [
        taken(located(task.aside) / str(number)).records["acked_offset"][records]
        for number, records in rare.items()
    ]
    acked = np.unique(np.concatenate([_NONE, *offsets]))
    parts: list[Part] = []
    for number, part in enumerate(_slices(task)):
        rows = np.concatenate([part.rows_at(acked), part.epochs_begin])
        parts.append(part.some(rare.get(number, _NONE), np.unique(rows)))
    history = together(task.split, parts, task.begun)
    # A record of another task comes along with each of its copies that stands at an offset of
    # ``acked``. With two of them it looks like a duplicate here, too, and would be counted twice.
    return replace(history, rare=_within(task.few, history.sequence))


def _among(one: Slice, few: Sequence[Few], complete: bool) -> Array:
    rare = np.union1d(one.lost if complete else _NONE, one.repeated)
    return rare[_within(few, one.records["sequence"][rare])]


def _within(few: Sequence[Few], sequences: Array) -> Array:
    """Return which sequence numbers lie in one of the ranges."""
    within = np.zeros(len(sequences), dtype=bool)
    for some in few:
        within |= (sequences >= some.first) & (sequences <= some.last)
    return within


def _slices(task: RareTask) -> Iterator[Slice]:
    for own in task.split.ranges:
        yield taken(located(task.aside) / str(own.number))


_NONE = np.empty(0, dtype=np.int64)


# --- giants ---------------------------------------------------------------------------------------
#
# Reconciling partitions that are too large for one task, each in jobs of its own: who dies takes
# down his own partition alone.


_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Run(Protocol):
    """Carries out a function on each of some tasks, wherever that is; the results in their
    order."""

    def __call__(
        self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]
    ) -> list[_Result]: ...


def giants(run: Run, items: Sequence[WorkItem], slice_rows: int = SLICE_ROWS) -> dict[int, Split]:
    """How those are split that are to be, by their places among the items. Raises what ``run``
    raises."""
    # No row of sends or log takes less than a byte: who has fewer bytes than rows are too many is
    # not asked for his rows.
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
    """Return whether it takes the whole log to judge it: what consumers were shown, what was
    written in transactions, what was deleted by order, what a plug-in's checker looks at."""
    needs_all = bool(item.consumers) or bool(item.plugin_work)
    return needs_all or item.transactional or item.deleted_before > 0


def reconcile_giant(
    run: Run, split: Split, rows: AnyPath, aside: AnyPath
) -> list[PartitionTotals] | None:
    """The totals of one, from each task its own, none of which has the whole. ``rows``: the
    directory for their anomalies; ``aside``: one for what slices put aside, removed at the end.
    None where a file cannot be read. Raises what ``run`` raises."""
    rows.mkdir(parents=True)
    aside.mkdir(parents=True)
    try:
        slices = [SliceTask(split=split, own=own, aside=str(aside)) for own in split.ranges]
        indexed = [one for one in run(index_slice, slices) if one is not None]
        if len(indexed) < len(slices):
            return None
        judged = run(_judged, list(_tasks(slices, indexed, rows)))
    finally:
        remove_tree(aside)
    counts: Counter[str] = Counter()
    for one in indexed:
        counts.update(one.counts)
    counts.update(latency.together(one.latencies for one in indexed))
    sequences = all_together([one.sequences for one in indexed])
    return [*judged, totals_of(split.item, [StepResult(counts=counts, sequences=sequences)])]


def _tasks(
    slices: Sequence[SliceTask], indexed: Sequence[SliceSummary], rows: AnyPath
) -> Iterator[RareTask | SliceTask]:
    whole = Whole.of(indexed)
    files = (str(rows / f"{number:09}.arrows") for number in count())
    for number, few in enumerate(together_judged(indexed, slices[0].split.rare_max)):
        yield RareTask(
            split=slices[0].split,
            few=few,
            begun=whole.begun,
            aside=slices[0].aside,
            rows=next(files),
            whole=whole if number == 0 else None,
            causes_before=number * CAUSES_EACH,
        )
    for one in slices:
        yield replace(one, begun=whole.begun, rows=next(files))


def _judged(task: RareTask | SliceTask) -> PartitionTotals:
    return judge_rare(task) if isinstance(task, RareTask) else judge_slice(task)
