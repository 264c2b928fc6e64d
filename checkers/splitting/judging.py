"""The tasks of slices: each is indexed and put aside; then, when all are, judged with its
witnesses."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.catalogue import CHECKERS
from ackproof.checkers.measures import latency, outages
from ackproof.checkers.measures.outages import Asked
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.partition.sequences import ByProducer, sequences_of
from ackproof.checkers.reconciling import tally
from ackproof.checkers.reconciling.loading import last_recorded
from ackproof.checkers.reconciling.reconcile import failed
from ackproof.checkers.reconciling.results import (
    PartitionTotals,
    StepResult,
    padded,
    rows_written,
    totals_of,
)
from ackproof.checkers.reconciling.task import written
from ackproof.checkers.reconciling.work_item import WorkItem
from ackproof.checkers.splitting.pieces import pieces
from ackproof.checkers.splitting.ranges import Range, ranges
from ackproof.checkers.splitting.slices import Part, Split, indexed, put_aside, taken, together
from ackproof.checkers.splitting.witnesses import witnesses
from ackproof.history.errors import DamagedFiles
from ackproof.history.storage import located

OF_THE_WHOLE = frozenset({"lost", "duplicated", "offset-gap", "epoch-regressed", "two-leaders"})
"""The rules that do not run on slices: :mod:`checkers.splitting.rare`."""


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
        counts=tally.of_records(task.split.item, history),
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
        counts = tally.of_rule(item, history, name, rows, records)
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
