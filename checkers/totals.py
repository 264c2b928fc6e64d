"""Running the reconciliation on Spark and adding up what it finds, partition by partition."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from checkers.autopsy.rows import AUTOPSIES
from checkers.consumption import Counted
from checkers.faults import Partition
from checkers.groups import grouped
from checkers.reconcile import HISTORY, RESULTS, Doubt
from checkers.task import Task, carry_out, rows_of
from checkers.verdict import Cause
from checkers.work_item import WorkItem

_TASKS_A_CORE = 4
"""So many that one that takes longer than the others keeps the other cores waiting a quarter of the
time at the most."""

_REASON_MAX = 300
"""Characters of an error of Spark's that are told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """What reconciling found in a partition: counts as in ``RESULTS``, what it could not tell, and
    what was counted of its consumers; None where that was not done. ``causes``: why anomalies
    came about, as far as they have autopsies."""

    counts: Counter[str]
    doubts: tuple[Doubt, ...] = ()
    consumption: tuple[Counted, ...] | None = None
    causes: tuple[Cause, ...] = ()

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "PartitionTotals":
        """From a row of RESULTS, one of metrics."""
        return cls(
            counts=Counter({count["name"]: count["count"] for count in row["counts"]}),
            doubts=tuple(Doubt(**doubt) for doubt in row["doubts"]),
            consumption=tuple(map(Counted.of, row["consumption"])),
            causes=tuple(map(Cause.of, row["causes"])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What reconciling found, by run and partition, and where the rows are, in their order."""

    partitions: Mapping[tuple[int, Partition], PartitionTotals] = field(default_factory=dict)
    rows: tuple[Path, ...] = ()


def reconcile_all(spark: SparkSession, items: Sequence[WorkItem], rows: Path) -> Totals:
    """Reconcile all items, in groups, and leave the resulting rows (RESULTS) in directories below
    ``rows``, one a job.

    A task that dies takes Spark's job with it, whoever else had work in it. Then each half of the
    items is a job of its own, and so on, until the item that is to blame is alone: it becomes a
    doubt, and all others count. Raises nothing for what happens in Spark.
    """
    jobs = _Jobs(spark, rows)
    if items:
        jobs.reconcile(items)
    return Totals(partitions={**jobs.given_up, **jobs.told}, rows=tuple(jobs.directories))


def anomalies(directory: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The anomalies among the rows that one job left."""
    for batch in rows_of(directory):
        yield batch.select(list(columns))


def autopsies(directory: Path) -> Iterator[pa.RecordBatch]:
    """The autopsies among them (AUTOPSIES)."""
    named = [name for name in AUTOPSIES.names if name in RESULTS.names]
    for batch in rows_of(directory):
        performed = batch.filter(batch["autopsy"].is_valid())
        columns = [performed[name] for name in named]
        columns += performed["autopsy"].flatten()
        yield pa.record_batch(columns, schema=AUTOPSIES)


@dataclass(slots=True)
class _Jobs:
    """The jobs that it took: the directories of rows, in the order of the items, what they told,
    and what stands for items that could not be reconciled."""

    spark: SparkSession
    rows: Path
    directories: list[Path] = field(default_factory=list)
    told: dict[tuple[int, Partition], PartitionTotals] = field(default_factory=dict)
    given_up: dict[tuple[int, Partition], PartitionTotals] = field(default_factory=dict)

    def reconcile(self, items: Sequence[WorkItem], first: int = 0) -> None:
        directory = self.rows / f"{first}-{first + len(items)}"
        try:
            found = _job(self.spark, items, directory)
        except Exception as error:  # noqa: BLE001 - a failed check is a verdict, not a crash
            if len(items) == 1:
                self._give_up(items[0], error)
                return
            middle = len(items) // 2
            self.reconcile(items[:middle], first)
            self.reconcile(items[middle:], first + middle)
        else:
            self.directories.append(directory)
            for row in found:
                key = _key(row["run"], row["topic"], row["partition"])
                self.told[key] = PartitionTotals.of(row)

    def _give_up(self, item: WorkItem, error: Exception) -> None:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = f"{type(error).__name__}: {' '.join(lines)[:_REASON_MAX]}"
        message = f"{item.topic}-{item.partition}: could not be reconciled: {why}"
        self.given_up[_key(item.run, item.topic, item.partition)] = PartitionTotals(
            counts=Counter(), doubts=(Doubt(checker=HISTORY, message=message),)
        )


def _key(run: int, topic: str, partition: int) -> tuple[int, Partition]:
    return run, (topic, partition)


def _job(spark: SparkSession, items: Sequence[WorkItem], directory: Path) -> list[dict[str, Any]]:
    """The metrics of each item. Tasks of core Spark, not of its SQL: there is nothing to plan, and
    a session starts in half the time when the SQL engine is never asked."""
    directory.mkdir(parents=True)
    context = spark.sparkContext
    groups = grouped(items, context.defaultParallelism * _TASKS_A_CORE)
    tasks = [
        Task(items=group, rows=str(directory / f"{number:09}.arrows"))
        for number, group in enumerate(groups)
    ]
    return context.parallelize(tasks, len(tasks)).flatMap(carry_out).collect()
