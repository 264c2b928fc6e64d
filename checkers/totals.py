"""Running the reconciliation on Spark and adding up what it finds, partition by partition."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.autopsy.rows import AUTOPSIES
from checkers.consumption import Counted
from checkers.faults import Partition
from checkers.reconcile import HISTORY, RESULTS, Doubt, reconcile_batches
from checkers.verdict import Cause
from checkers.work_item import WorkItem, items_table

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
    """Reconcile all items, one a task, and leave the resulting rows (RESULTS) as Parquet files in
    directories below ``rows``.

    A task that dies takes Spark's job with it, whoever else had work in it. Then each half of the
    items is a job of its own, and so on, until the item that is to blame is alone: it becomes a
    doubt, and all others count. Raises nothing for what happens in Spark.
    """
    jobs = _Jobs(spark, rows)
    if items:
        jobs.reconcile(items)
    partitions = {
        _key(row["run"], row["topic"], row["partition"]): PartitionTotals.of(row)
        for directory in jobs.directories
        for row in _metrics(directory)
    }
    return Totals(partitions={**jobs.given_up, **partitions}, rows=tuple(jobs.directories))


def anomalies(directory: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The anomalies among the rows that one job left."""
    found = ds.field("anomaly").is_valid()
    yield from _dataset(directory).scanner(columns=list(columns), filter=found).to_batches()


def autopsies(directory: Path) -> Iterator[pa.RecordBatch]:
    """The autopsies among them (AUTOPSIES)."""
    named = [name for name in AUTOPSIES.names if name in RESULTS.names]
    found = ds.field("anomaly").is_valid()
    scanner = _dataset(directory).scanner(columns=[*named, "autopsy"], filter=found)
    for batch in scanner.to_batches():
        performed = batch.filter(batch["autopsy"].is_valid())
        columns = [performed[name] for name in named]
        columns += performed["autopsy"].flatten()
        yield pa.record_batch(columns, schema=AUTOPSIES)


@dataclass(slots=True)
class _Jobs:
    """The jobs that it took: the directories of rows, in the order of the items, and what stands
    for items that could not be reconciled."""

    spark: SparkSession
    rows: Path
    directories: list[Path] = field(default_factory=list)
    given_up: dict[tuple[int, Partition], PartitionTotals] = field(default_factory=dict)

    def reconcile(self, items: Sequence[WorkItem], first: int = 0) -> None:
        directory = self.rows / f"{first}-{first + len(items)}"
        try:
            _job(self.spark, items, directory)
        except Exception as error:  # noqa: BLE001 - a failed check is a verdict, not a crash
            if len(items) == 1:
                self._give_up(items[0], error)
                return
            middle = len(items) // 2
            self.reconcile(items[:middle], first)
            self.reconcile(items[middle:], first + middle)
        else:
            self.directories.append(directory)

    def _give_up(self, item: WorkItem, error: Exception) -> None:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        why = f"{type(error).__name__}: {' '.join(lines)[:_REASON_MAX]}"
        message = f"{item.topic}-{item.partition}: could not be reconciled: {why}"
        self.given_up[_key(item.run, item.topic, item.partition)] = PartitionTotals(
            counts=Counter(), doubts=(Doubt(checker=HISTORY, message=message),)
        )


def _key(run: int, topic: str, partition: int) -> tuple[int, Partition]:
    return run, (topic, partition)


def _job(spark: SparkSession, items: Sequence[WorkItem], directory: Path) -> None:
    work = spark.createDataFrame(items_table(items))
    (
        # One range of (run, topic, partition) a task: unlike round-robin never two items in one.
        work.repartitionByRange(len(items), "run", "topic", "partition")
        .mapInArrow(reconcile_batches, from_arrow_schema(RESULTS))
        .write.parquet(str(directory))
    )


def _metrics(directory: Path) -> list[dict[str, Any]]:
    columns = ["run", "topic", "partition", "counts", "doubts", "consumption", "causes"]
    none = ds.field("anomaly").is_null()
    found: list[dict[str, Any]] = _dataset(directory).to_table(columns, none).to_pylist()
    return found


def _dataset(directory: Path) -> ds.Dataset:
    return ds.dataset(directory, schema=RESULTS, format="parquet")
