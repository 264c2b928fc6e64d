"""The jobs that run the reconciliation on Spark and add up its results, partition by partition."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
from pyspark.sql import SparkSession

from ackproof.checkers.engine.oversized_partitions import TaskRunner, oversized, reconcile_oversized
from ackproof.checkers.engine.results import FOUND, HISTORY, CheckError, PartitionTotals, Totals
from ackproof.checkers.engine.slices import SLICE_ROWS, Split
from ackproof.checkers.engine.spark.tasks import cause, runner
from ackproof.checkers.engine.tasks import Task, carry_out, grouped, rows_of
from ackproof.checkers.engine.work_items import Key, WorkItem
from ackproof.checkers.root_cause.rows import ROOT_CAUSES
from ackproof.history.storage import AnyPath

_TASKS = 8
"""The number of tasks of a job, unless they would be too small or too large. The number of cores is
unknown, because Spark Connect does not reveal it. On two cores, one slow task keeps the other core
waiting for a quarter of the time at most."""

_TASK_BYTES_MIN = 2_000_000
"""The least size of the files of a task in bytes. A worker takes as long to start as to reconcile
so much. A small check needs one task."""

_TASK_BYTES_MAX = 16_000_000
"""The greatest size of the files of a task in bytes, so that large histories occupy many cores. It
is half a second of work, and a task costs some 30 ms."""


def reconcile_all(
    spark: SparkSession, items: Sequence[WorkItem], rows: AnyPath, slice_rows: int = SLICE_ROWS
) -> Totals:
    """Reconcile all items, in groups, or in slices if they are oversized. Write the resulting rows
    (FOUND) into directories below ``rows``, one for each job. ``slice_rows`` is the greatest number
    of rows of ``sends`` and ``log`` in a slice.

    A task that fails ends its Spark job, including the work of other tasks. Each half of the items
    then becomes a job of its own, and so on, until the item at fault is alone. It becomes a check
    error, and all others count. Raises nothing for failures in Spark.
    """
    run = runner(spark)
    jobs = _Jobs(run, rows)
    split = _split(run, items, slice_rows)
    whole = [item for place, item in enumerate(items) if place not in split]
    whole += [one.item for place, one in split.items() if not jobs.in_slices(one, place)]
    if whole:
        jobs.reconcile(whole)
    return Totals(partitions={**jobs.given_up, **jobs.told}, rows=tuple(jobs.directories))


def _split(run: TaskRunner, items: Sequence[WorkItem], slice_rows: int) -> dict[int, Split]:
    try:
        return oversized(run, items, slice_rows)
    except Exception:  # noqa: BLE001 - a partition whose task dies is named when it is reconciled
        return {}


def anomalies(directory: AnyPath, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the anomalies among the rows that one job wrote."""
    for batch in rows_of(directory):
        yield batch.select(list(columns))


def root_causes(directory: AnyPath) -> Iterator[pa.RecordBatch]:
    """Yield the root causes among the rows that one job wrote (ROOT_CAUSES)."""
    named = [name for name in ROOT_CAUSES.names if name in FOUND.names]
    for batch in rows_of(directory):
        performed = batch.filter(batch["root_cause"].is_valid())
        columns = [performed[name] for name in named]
        columns += performed["root_cause"].flatten()
        yield pa.record_batch(columns, schema=ROOT_CAUSES)


@dataclass(slots=True)
class _Jobs:
    """The jobs of a check.

    Attributes:
        run: The executor of tasks.
        rows: The directory for rows.
        directories: The directories of rows, in the order of the items.
        told: The totals of the reconciled items.
        given_up: The check errors of items that could not be reconciled.
    """

    run: TaskRunner
    rows: AnyPath
    directories: list[AnyPath] = field(default_factory=list)
    told: dict[Key, PartitionTotals] = field(default_factory=dict)
    given_up: dict[Key, PartitionTotals] = field(default_factory=dict)

    def reconcile(self, items: Sequence[WorkItem], first: int = 0) -> None:
        directory = self.rows / f"{first}-{first + len(items)}"
        try:
            found = _job(self.run, items, directory)
        except Exception as error:  # noqa: BLE001 - a failed check is a verdict, not a crash
            if len(items) == 1:
                self._give_up(items[0], error)
                return
            middle = len(items) // 2
            self.reconcile(items[:middle], first)
            self.reconcile(items[middle:], first + middle)
        else:
            self.directories.append(directory)
            self.told.update(found)

    def in_slices(self, split: Split, place: int) -> bool:
        """Reconcile an oversized partition. Return False if it must be reconciled as a whole, so
        that the unreadable file is reported."""
        item = split.item
        directory = self.rows / f"oversized-{place}"
        try:
            slices = self.rows / f"slices-{place}"
            found = reconcile_oversized(self.run, split, directory, slices)
        except Exception as error:  # noqa: BLE001 - a failed check is a verdict, not a crash
            self._give_up(item, error)
            return True
        if found is None:
            return False
        self.directories.append(directory)
        self.told[item.key] = reduce(PartitionTotals.and_, found)
        return True

    def _give_up(self, item: WorkItem, error: Exception) -> None:
        message = f"{item.topic}-{item.partition}: could not be checked: {cause(error)}"
        self.given_up[item.key] = PartitionTotals(
            counts=Counter(), check_errors=(CheckError(checker=HISTORY, message=message),)
        )


def _job(
    run: TaskRunner, items: Sequence[WorkItem], directory: AnyPath
) -> list[tuple[Key, PartitionTotals]]:
    """Reconcile items in one job, and return the totals of each."""
    directory.mkdir(parents=True)
    groups = grouped(items, _TASKS, _TASK_BYTES_MIN, _TASK_BYTES_MAX)
    tasks = [
        Task(batches=group, rows=str(directory / f"{number:09}.arrows"))
        for number, group in enumerate(groups)
    ]
    return [found for results in run(carry_out, tasks) for found in results]
