"""Reconciling partitions that are too large for one task, each in jobs of its own: who dies takes
down his own partition alone."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Protocol, TypeVar

from ackproof.checkers.measures import latency
from ackproof.checkers.partition.sequences import all_together
from ackproof.checkers.reconciling.groups import bytes_of
from ackproof.checkers.reconciling.parts import CAUSES_EACH
from ackproof.checkers.reconciling.results import PartitionTotals, StepResult, totals_of
from ackproof.checkers.reconciling.work_item import WorkItem
from ackproof.checkers.splitting.judging import (
    SliceSummary,
    SliceTask,
    index_slice,
    judge_slice,
    split_of,
)
from ackproof.checkers.splitting.ranges import SLICE_ROWS, WHOLE_SLICES
from ackproof.checkers.splitting.rare import RareTask, Whole, judge_rare, together_judged
from ackproof.checkers.splitting.slices import Split
from ackproof.history.storage import AnyPath, remove_tree

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
