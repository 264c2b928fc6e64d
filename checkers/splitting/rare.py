"""What is told of a partition in slices as a whole: what is lost or stands in the log more than
once, with autopsies; what the log shows from edge to edge; and what is no matter of records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.measures import outages
from ackproof.checkers.measures.outages import Asked
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.reconciling import tally
from ackproof.checkers.reconciling.loading import (
    contested,
    contradictions,
    incomplete,
    unread,
    without_a_short_read,
)
from ackproof.checkers.reconciling.reconcile import consumption, divergent, ruled, sessions
from ackproof.checkers.reconciling.results import (
    Doubt,
    PartitionTotals,
    StepResult,
    padded,
    rows_written,
    totals_of,
)
from ackproof.checkers.reconciling.task import written
from ackproof.checkers.splitting.judging import Few, SliceSummary
from ackproof.checkers.splitting.pieces import pieces
from ackproof.checkers.splitting.scan import at, scan
from ackproof.checkers.splitting.slices import Part, Slice, Split, nothing, taken, together
from ackproof.history.storage import located


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
    :class:`checkers.splitting.judging.SliceTask`; ``causes_before``: so many numbers of causes are
    left to others."""

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
    counts = tally.of_partition(item, task.begun)
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
        counts=tally.of_rule(item, nothing(split), "offset-gap", scanned.gaps),
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
    return together(task.split, parts, task.begun)


def _among(one: Slice, few: Sequence[Few], complete: bool) -> Array:
    rare = np.union1d(one.lost if complete else _NONE, one.repeated)
    sequences = one.records["sequence"][rare]
    mine = np.zeros(len(rare), dtype=bool)
    for some in few:
        mine |= (sequences >= some.first) & (sequences <= some.last)
    return rare[mine]


def _slices(task: RareTask) -> Iterator[Slice]:
    for own in task.split.ranges:
        yield taken(located(task.aside) / str(own.number))


_NONE = np.empty(0, dtype=np.int64)
