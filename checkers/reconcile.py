"""Reconciling partition by partition inside Spark.

A record belongs to one partition, and ``sends`` and ``log`` files hold one partition each, so a
partition is a work item of its own: listed by the driver, reconciled by one task of ``mapInArrow``,
without a shuffle. A task holds one partition at a time; memory grows with the largest partition,
not with the campaign.

Each item yields its anomalies and one row of metrics, in one table (a mapInArrow has one schema):
metrics stand in the rows whose ``anomaly`` is null.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from checkers.catalogue import CHECKERS
from checkers.faults import FaultWindows
from checkers.indexes import (
    LOG_COLUMNS,
    SEND_COLUMNS,
    FinalRead,
    Outcome,
    PartitionHistory,
    index,
)
from checkers.verdict import ANOMALIES
from checkers.rules.order import out_of_order
from history import reader
from history.errors import DamagedFiles
from history.names import parse

HISTORY = "history"
"""Stands for the checker where what went wrong is the history itself."""

ITEMS = pa.schema(
    [
        pa.field("run", pa.int32()),
        pa.field("cell", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("sends", pa.list_(pa.string())),
        pa.field("log", pa.list_(pa.string())),
        pa.field("flushed", pa.bool_()),
        pa.field("complete", pa.bool_()),
        pa.field("records", pa.int64()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("fault_bounds", pa.list_(pa.int64())),
        pa.field("fault_labels", pa.list_(pa.string())),
    ]
)

COUNTS = ("sent", "acked", "failed", "indeterminate", "reordered_acked")
"""The columns of metrics that add up over the partitions of a cell."""

PROBLEMS = pa.list_(pa.struct([("checker", pa.string()), ("message", pa.string())]))

RESULTS = pa.schema(
    [
        *(field.with_nullable(True) for field in ANOMALIES),
        *(pa.field(name, pa.int64()) for name in COUNTS),
        pa.field("problems", PROBLEMS),
    ]
)
"""Anomalies and metrics in one; ``problems``: which checker could not tell what, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One partition to reconcile. ``sends``, ``log``: files; ``complete`` to ``end``: what the
    final read reports; ``flushed``: whether the run's clients closed their histories."""

    run: int
    cell: str
    topic: str
    partition: int
    sends: list[str]
    log: list[str]
    flushed: bool
    complete: bool
    records: int | None
    start: int | None
    end: int | None
    fault_bounds: list[int]
    fault_labels: list[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A checker (or HISTORY) that could not tell, and why."""

    checker: str
    message: str


def reconcile_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` runs: rows of ITEMS in, rows of RESULTS out."""
    for batch in batches:
        for row in batch.to_pylist():
            for table in reconcile(WorkItem(**row)):
                yield from table.to_batches()


def items_table(items: Iterable[WorkItem]) -> pa.Table:
    """Work items as the table that Spark is given."""
    return pa.Table.from_pylist([asdict(item) for item in items], schema=ITEMS)


def reconcile(item: WorkItem) -> Iterator[pa.Table]:
    """The anomalies of one partition, rule by rule, then its metrics.

    A rule that throws, and a history that cannot be read, become problems of the partition and
    leave the others alone.
    """
    problems: list[Problem] = []
    try:
        history = _load(item, problems)
    except Exception as error:  # noqa: BLE001 - whatever it is, other partitions can be judged
        problems.append(Problem(checker=HISTORY, message=f"cannot be indexed: {error!r}"))
        yield _metrics(item, None, problems)
        return
    for name, checker in CHECKERS.items():
        try:
            yield _padded(item, checker.rule(history))
        except Exception as error:  # noqa: BLE001 - one checker never takes down another
            problems.append(Problem(checker=name, message=f"the checker {name} failed: {error!r}"))
    yield _metrics(item, history, problems)


def _load(item: WorkItem, problems: list[Problem]) -> PartitionHistory:
    sends, sends_whole = _read(item.sends, "sends", SEND_COLUMNS, problems)
    log, log_whole = _read(item.log, "log", LOG_COLUMNS, problems)
    if len(log) and not item.sends:
        problems.append(Problem(checker=HISTORY, message="records, but no send was recorded"))
        sends_whole = False
    if item.complete and item.records != len(log):
        message = f"the final read got {item.records} records, its files hold {len(log)}"
        problems.append(Problem(checker=HISTORY, message=message))
        log_whole = False
    history = index(
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        sends=sends,
        log=log,
        read=FinalRead(complete=item.complete and log_whole, start=item.start, end=item.end),
        sends_whole=item.flushed and sends_whole,
        faults=FaultWindows(bounds=tuple(item.fault_bounds), labels=tuple(item.fault_labels)),
    )
    if history.contradictory:
        message = f"{history.contradictory} records with contradictory events"
        problems.append(Problem(checker=HISTORY, message=message))
    return history


def _read(
    files: Iterable[str], table: str, columns: tuple[str, ...], problems: list[Problem]
) -> tuple[pa.Table, bool]:
    """What can be read of a partition's table, and whether that is all of it."""
    tables = [reader.read_files(table, [], columns)]
    before = len(problems)
    for file in map(Path, files):
        if parse(file.name)[1] is not None:
            message = f"{table}: {file.name} is a part, its writer did not close"
            problems.append(Problem(checker=HISTORY, message=message))
        try:
            tables.append(reader.read_files(table, [file], columns))
        except DamagedFiles as error:
            problems.append(Problem(checker=HISTORY, message=str(error)))
    return pa.concat_tables(tables), len(problems) == before


def _padded(item: WorkItem, rows: pa.Table) -> pa.Table:
    """Rows of a rule in the shape of RESULTS."""
    given = {"run": pa.repeat(pa.scalar(item.run, pa.int32()), len(rows))}
    given |= {name: rows[name] for name in rows.column_names}
    missing = [field for field in RESULTS if field.name not in given]
    given |= {field.name: pa.nulls(len(rows), field.type) for field in missing}
    return pa.table([given[field.name] for field in RESULTS], schema=RESULTS)


def _metrics(item: WorkItem, history: PartitionHistory | None, problems: list[Problem]) -> pa.Table:
    where = f"{item.topic}-{item.partition}"
    told = [replace(problem, message=f"{where}: {problem.message}") for problem in problems]
    row = {
        "run": item.run,
        "cell": item.cell,
        "topic": item.topic,
        "partition": item.partition,
        "problems": [asdict(problem) for problem in told],
        **(_counts(history) if history else dict.fromkeys(COUNTS, 0)),
    }
    return pa.Table.from_pylist([row], schema=RESULTS)


def _counts(history: PartitionHistory) -> dict[str, int]:
    outcomes = np.bincount(history.outcome, minlength=len(Outcome))
    behind, _ = out_of_order(history)
    return {
        "sent": int(outcomes[Outcome.INDETERMINATE :].sum()),
        "acked": int(outcomes[Outcome.ACKED]),
        "failed": int(outcomes[Outcome.FAILED]),
        "indeterminate": int(outcomes[Outcome.INDETERMINATE]),
        "reordered_acked": int(np.count_nonzero(history.outcome[behind] == Outcome.ACKED)),
    }
