"""The results of reconciling: of one step, of a partition, of all partitions of a check.

A task hands the totals of its partitions back pickled: all values are Python's own. The rows of
anomalies (FOUND) go into its file."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.checks.plugin_examination import PluginTotals
from ackproof.checkers.checks.read_counts import Counted
from ackproof.checkers.engine.work_items import Key, WorkItem
from ackproof.checkers.index.sequences import ByProducer, all_together
from ackproof.checkers.root_cause.causes import TOLD_MAX, told
from ackproof.checkers.root_cause.rows import AUTOPSY
from ackproof.checkers.verdict import ANOMALIES, Cause
from ackproof.history.storage import AnyPath

FOUND = pa.schema([*ANOMALIES, pa.field("autopsy", AUTOPSY)])
"""The rows of anomalies, each with its autopsy if it has one."""

HISTORY = "history"
"""Stands for the checker where what went wrong is the history itself."""

CONSUMPTION = "consumption"
"""Stands for the checker where that is what consumers recorded: the doubt is reported and leaves
open what was promised to them; no other promise rests on it."""

REPLICAS = "replicas"
"""Stands for the checker where copies of replicas could not be compared: the doubt is reported and
leaves open whether they agree; no other promise rests on it."""

AUTOPSY_DOUBT = "autopsy"
"""Stands for the checker where autopsies could not be performed: the doubt is reported, and no
promise rests on them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A checker (or HISTORY, or CONSUMPTION) that could not judge a partition, and why."""

    checker: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of one step of reconciling a partition.

    Attributes:
        rows: Anomalies (FOUND); None for none.
        counts, doubts, causes, consumption, sequences, plugin_checks: What the step adds to the
            :class:`PartitionTotals`. A doubt does not name the partition yet.
    """

    rows: pa.Table | None = None
    counts: Counter[str] = field(default_factory=Counter)
    doubts: tuple[Doubt, ...] = ()
    causes: tuple[Cause, ...] = ()
    consumption: tuple[Counted, ...] = ()
    sequences: ByProducer = field(default_factory=dict)
    plugin_checks: Mapping[str, PluginTotals] = field(default_factory=dict)

    def after_causes(self, count: int) -> "StepResult":
        """Return the result with its causes numbered behind so many others, in its rows too."""
        if not count:
            return self
        return replace(
            self,
            rows=None if self.rows is None else _renumbered(self.rows, count),
            causes=tuple(replace(one, number=one.number + count) for one in self.causes),
        )


def _renumbered(rows: pa.Table, before: int) -> pa.Table:
    place = rows.schema.get_field_index("autopsy")
    autopsies = rows["autopsy"].combine_chunks()
    columns = dict(zip(AUTOPSY.names, autopsies.flatten(), strict=True))
    columns["cause"] = pc.add(columns["cause"], before).cast(AUTOPSY.field("cause").type)
    renumbered = pa.StructArray.from_arrays(
        [columns[field.name] for field in AUTOPSY.fields],
        fields=AUTOPSY.fields,
        mask=autopsies.is_null(),
    )
    return rows.set_column(place, rows.schema.field(place), renumbered)


def padded(item: WorkItem, rows: pa.Table) -> pa.Table:
    """Return the rows of a rule in the shape of FOUND."""
    columns = {name: rows[name] for name in rows.column_names}
    columns["run"] = pa.repeat(pa.scalar(item.run, pa.int32()), len(rows))
    if "autopsy" not in columns:
        columns["autopsy"] = pa.nulls(len(rows), AUTOPSY)
    return pa.Table.from_arrays([columns[name] for name in FOUND.names], schema=FOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """What reconciling found in a partition, except for the rows of its anomalies.

    Attributes:
        counts: Sent, acked, failed, indeterminate; of each checker that looked, what it found; by
            standing (``checkers.context.status``) acks, and the offences against what may not be
            promised; acks by moment (``checkers.context.coverage``); nanoseconds without an ack
            (``checkers.checks.outages``); latencies (``checkers.checks.latency``).
        doubts: Which checker could not judge the partition, and why.
        consumption: What was counted of its consumers; None where that was not done.
        causes: Why anomalies came about, as far as they have autopsies.
        sequences: The sequence numbers of its sends, by producer.
        plugin_checks: What the checkers of plug-ins found, by their names.
    """

    counts: Counter[str]
    doubts: tuple[Doubt, ...] = ()
    consumption: tuple[Counted, ...] | None = None
    causes: tuple[Cause, ...] = ()
    sequences: ByProducer = field(default_factory=dict)
    plugin_checks: Mapping[str, PluginTotals] = field(default_factory=dict)

    def and_(self, other: "PartitionTotals") -> "PartitionTotals":
        """Return the totals of one partition together with what another task found in it."""
        counts = Counter(self.counts)
        counts.update(other.counts)
        return PartitionTotals(
            counts=counts,
            doubts=tuple(dict.fromkeys([*self.doubts, *other.doubts])),
            consumption=(*(self.consumption or ()), *(other.consumption or ())),
            causes=tuple(_few([*self.causes, *other.causes])),
            sequences=all_together([self.sequences, other.sequences]),
            plugin_checks={**self.plugin_checks, **other.plugin_checks},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What reconciling found, by run and partition, and where the rows are, in their order."""

    partitions: Mapping[Key, PartitionTotals] = field(default_factory=dict)
    rows: tuple[AnyPath, ...] = ()


def rows_written(
    results: Iterable[StepResult], write: Callable[[pa.Table], None]
) -> Iterator[StepResult]:
    """Write the rows of each result, and yield the result without them: memory does not grow with
    the anomalies. Raises what ``write`` raises."""
    for result in results:
        if result.rows is not None:
            write(result.rows)
        yield replace(result, rows=None)


def totals_of(item: WorkItem, results: Iterable[StepResult]) -> PartitionTotals:
    """Return the totals of a partition from the results of its steps. Numbers become Python's own,
    and each doubt names the partition."""
    where = f"{item.topic}-{item.partition}"
    counts: Counter[str] = Counter()
    steps = list(results)
    for step in steps:
        counts.update({str(name): int(count) for name, count in step.counts.items()})
    return PartitionTotals(
        counts=counts,
        doubts=tuple(
            replace(doubt, message=f"{where}: {doubt.message}")
            for step in steps
            for doubt in step.doubts
        ),
        consumption=tuple(one.plain() for step in steps for one in step.consumption),
        causes=tuple(_few([cause for step in steps for cause in step.causes])),
        sequences=all_together([step.sequences for step in steps if step.sequences]),
        plugin_checks={
            name: totals for step in steps for name, totals in step.plugin_checks.items()
        },
    )


def _few(causes: Sequence[Cause]) -> Iterator[Cause]:
    """Yield no more causes of each anomaly of a partition than are reported of anomalies that are
    judged together."""
    for anomaly in dict.fromkeys(one.anomaly for one in causes):
        mine = [one for one in causes if one.anomaly == anomaly]
        yield from mine if len(mine) <= TOLD_MAX + 1 else told(mine)
