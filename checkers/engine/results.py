"""Results of reconciling: of one step, of one partition, and of all partitions of a check.

A task returns the totals of its partitions pickled, so all values are plain Python objects. The
rows of anomalies (FOUND) go into a file of the task.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.checks.plugin_examination import PluginTotals
from ackproof.checkers.checks.read_counts import ConsumerCounts
from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.engine.work_items import Key, WorkItem
from ackproof.checkers.index.sequences import ByProducer, all_together
from ackproof.checkers.root_cause.causes import REPORTED_MAX, reported
from ackproof.checkers.root_cause.rows import ROOT_CAUSE
from ackproof.checkers.verdict import Cause
from ackproof.history.storage import AnyPath

FOUND = pa.schema([*ANOMALIES, pa.field("root_cause", ROOT_CAUSE)])
"""The schema of the rows of anomalies, each with its root cause if it has one."""

HISTORY = "history"
"""Stands in place of a checker if the history itself cannot be read or is contradictory."""

CONSUMPTION = "consumption"
"""Stands in place of a checker if the records of consumers are unusable. The check error is
reported, and only guarantees to consumers become unknown."""

REPLICAS = "replicas"
"""Stands in place of a checker if the logs of replicas could not be compared. The check error is
reported, and only the guarantee that replicas agree becomes unknown."""

ROOT_CAUSE_ERROR = "root cause"
"""Stands in place of a checker if root causes could not be found. The check error is reported, and
no guarantee depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckError:
    """A check error: a checker (or HISTORY, CONSUMPTION, REPLICAS, ROOT_CAUSE_ERROR) that could not
    judge a partition, and the reason."""

    checker: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of one step of reconciling a partition.

    Attributes:
        rows: Anomalies (FOUND), or None if there are none.
        counts, check_errors, causes, consumption, sequences, plugin_checks: The contribution of the
            step to the :class:`PartitionTotals`. A check error does not name the partition yet.
    """

    rows: pa.Table | None = None
    counts: Counter[str] = field(default_factory=Counter)
    check_errors: tuple[CheckError, ...] = ()
    causes: tuple[Cause, ...] = ()
    consumption: tuple[ConsumerCounts, ...] = ()
    sequences: ByProducer = field(default_factory=dict)
    plugin_checks: Mapping[str, PluginTotals] = field(default_factory=dict)

    def after_causes(self, count: int) -> "StepResult":
        """Return the result with its causes, and the references to them in its rows, numbered after
        ``count`` others."""
        if not count:
            return self
        return replace(
            self,
            rows=None if self.rows is None else _renumbered(self.rows, count),
            causes=tuple(replace(one, number=one.number + count) for one in self.causes),
        )


def _renumbered(rows: pa.Table, before: int) -> pa.Table:
    place = rows.schema.get_field_index("root_cause")
    root_causes = rows["root_cause"].combine_chunks()
    columns = dict(zip(ROOT_CAUSE.names, root_causes.flatten(), strict=True))
    columns["cause"] = pc.add(columns["cause"], before).cast(ROOT_CAUSE.field("cause").type)
    renumbered = pa.StructArray.from_arrays(
        [columns[field.name] for field in ROOT_CAUSE.fields],
        fields=ROOT_CAUSE.fields,
        mask=root_causes.is_null(),
    )
    return rows.set_column(place, rows.schema.field(place), renumbered)


def padded(item: WorkItem, rows: pa.Table) -> pa.Table:
    """Return the rows of a rule in the shape of FOUND."""
    columns = {name: rows[name] for name in rows.column_names}
    columns["run"] = pa.repeat(pa.scalar(item.run, pa.int32()), len(rows))
    if "root_cause" not in columns:
        columns["root_cause"] = pa.nulls(len(rows), ROOT_CAUSE)
    return pa.Table.from_arrays([columns[name] for name in FOUND.names], schema=FOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """The result of reconciling a partition, except for the rows of its anomalies.

    Attributes:
        counts: The numbers of sent, acked, failed and indeterminate records; the anomalies of each
            checker that ran; acks and violations by guarantee status (``checkers.context.status``);
            acks by fault window (``checkers.context.coverage``); nanoseconds without an ack
            (``checkers.checks.outages``); latencies (``checkers.checks.latency``).
        check_errors: The check errors: which checker could not judge the partition, and why.
        consumption: The counts of its consumers, or None if they were not counted.
        causes: The root causes of its anomalies.
        sequences: The sequence numbers of its sends, by producer.
        plugin_checks: The results of the checkers of plug-ins, by their names.
    """

    counts: Counter[str]
    check_errors: tuple[CheckError, ...] = ()
    consumption: tuple[ConsumerCounts, ...] | None = None
    causes: tuple[Cause, ...] = ()
    sequences: ByProducer = field(default_factory=dict)
    plugin_checks: Mapping[str, PluginTotals] = field(default_factory=dict)

    def and_(self, other: "PartitionTotals") -> "PartitionTotals":
        """Return the totals of one partition added to those that another task found in it."""
        counts = Counter(self.counts)
        counts.update(other.counts)
        return PartitionTotals(
            counts=counts,
            check_errors=tuple(dict.fromkeys([*self.check_errors, *other.check_errors])),
            consumption=(*(self.consumption or ()), *(other.consumption or ())),
            causes=tuple(_reported_causes([*self.causes, *other.causes])),
            sequences=all_together([self.sequences, other.sequences]),
            plugin_checks={**self.plugin_checks, **other.plugin_checks},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """The result of reconciling by run and partition, and the files of the rows in their order."""

    partitions: Mapping[Key, PartitionTotals] = field(default_factory=dict)
    rows: tuple[AnyPath, ...] = ()


def rows_written(
    results: Iterable[StepResult], write: Callable[[pa.Table], None]
) -> Iterator[StepResult]:
    """Write the rows of each result, and yield the result without them, so that memory does not
    grow with the anomalies. Raises what ``write`` raises."""
    for result in results:
        if result.rows is not None:
            write(result.rows)
        yield replace(result, rows=None)


def totals_of(item: WorkItem, results: Iterable[StepResult]) -> PartitionTotals:
    """Return the totals of a partition from the results of its steps. Numbers become plain Python
    objects, and each check error names the partition."""
    where = f"{item.topic}-{item.partition}"
    counts: Counter[str] = Counter()
    steps = list(results)
    for step in steps:
        counts.update({str(name): int(count) for name, count in step.counts.items()})
    return PartitionTotals(
        counts=counts,
        check_errors=tuple(
            replace(check_error, message=f"{where}: {check_error.message}")
            for step in steps
            for check_error in step.check_errors
        ),
        consumption=tuple(one.plain() for step in steps for one in step.consumption),
        causes=tuple(_reported_causes([cause for step in steps for cause in step.causes])),
        sequences=all_together([step.sequences for step in steps if step.sequences]),
        plugin_checks={
            name: totals for step in steps for name, totals in step.plugin_checks.items()
        },
    )


def _reported_causes(causes: Sequence[Cause]) -> Iterator[Cause]:
    """Yield at most as many causes of each anomaly of a partition as are reported for anomalies
    that are judged together."""
    for anomaly in dict.fromkeys(one.anomaly for one in causes):
        mine = [one for one in causes if one.anomaly == anomaly]
        yield from mine if len(mine) <= REPORTED_MAX + 1 else reported(mine)
