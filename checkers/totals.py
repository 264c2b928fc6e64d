"""Running the reconciliation on Spark and adding up what it finds, cell by cell."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.reconcile import COUNTS, RESULTS, Problem, WorkItem, items_table, reconcile_batches

CellKey = tuple[int, str]
"""Run and cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What reconciling found, by run and cell.

    Attributes:
        counts: The sums of ``checkers.reconcile.COUNTS``.
        anomalies: Count by checker.
        problems: What could not be told.
    """

    counts: Mapping[CellKey, Mapping[str, int]] = field(default_factory=dict)
    anomalies: Mapping[CellKey, Mapping[str, int]] = field(default_factory=dict)
    problems: Mapping[CellKey, Sequence[Problem]] = field(default_factory=dict)


def reconcile_all(spark: SparkSession, items: Sequence[WorkItem], rows: Path) -> Totals:
    """Reconcile all items, one a task, and leave the resulting rows (RESULTS) as Parquet files in
    the new directory ``rows``, in the order of the items. Raises what Spark raises."""
    work = spark.createDataFrame(items_table(items))
    (
        # One range of (run, topic, partition) a task: unlike round-robin never two items in one.
        work.repartitionByRange(len(items), "run", "topic", "partition")
        .mapInArrow(reconcile_batches, from_arrow_schema(RESULTS))
        .write.parquet(str(rows))
    )
    results = spark.read.schema(from_arrow_schema(RESULTS)).parquet(str(rows))
    metrics = results.where("anomaly is null")
    return Totals(
        counts=_counts(metrics),
        anomalies=_anomalies(results.where("anomaly is not null")),
        problems=_problems(metrics),
    )


def _counts(metrics: DataFrame) -> dict[CellKey, dict[str, int]]:
    sums = metrics.groupBy("run", "cell").agg(*(F.sum(name).alias(name) for name in COUNTS))
    return {(row["run"], row["cell"]): {n: row[n] for n in COUNTS} for row in sums.collect()}


def _anomalies(anomalies: DataFrame) -> dict[CellKey, Counter[str]]:
    found: dict[CellKey, Counter[str]] = {}
    counted = anomalies.groupBy("run", "cell", "anomaly").agg(F.count("*").alias("number"))
    for row in counted.collect():
        found.setdefault((row["run"], row["cell"]), Counter())[row["anomaly"]] = row["number"]
    return found


def _problems(metrics: DataFrame) -> dict[CellKey, list[Problem]]:
    found: dict[CellKey, list[Problem]] = {}
    told = metrics.select("run", "cell", "topic", "partition", F.explode("problems").alias("p"))
    for row in told.orderBy("run", "topic", "partition").collect():
        problem = Problem(checker=row["p"]["checker"], message=row["p"]["message"])
        found.setdefault((row["run"], row["cell"]), []).append(problem)
    return found
