"""What reconciling found in a partition, but for the rows of its anomalies.

A task hands it back as it is, pickled: all values are Python's own.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ackproof.checkers.autopsy.causes import TOLD_MAX, told
from ackproof.checkers.partition.sequences import ByProducer, all_together
from ackproof.checkers.plugin_checks.totals import PluginTotals
from ackproof.checkers.reads.consumers import Counted
from ackproof.checkers.reconciling.doubts import Doubt
from ackproof.checkers.reconciling.work_item import Key
from ackproof.checkers.verdict import Cause
from ackproof.history.storage import AnyPath


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """Of a partition.

    Attributes:
        counts: Sent, acked, failed, indeterminate; of each checker that looked, what it found; by
            standing (``checkers.promises.standing``) acks, and the offences against what may not be
            promised; acks by moment (``checkers.cluster.coverage``); nanoseconds without an ack
            (``checkers.measures.outages``); latencies (``checkers.measures.latency``).
        doubts: Which checker could not tell what, and why.
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
        """Of one partition, together with what another task found in it."""
        counts = Counter(self.counts)
        counts.update(other.counts)
        return PartitionTotals(
            counts=counts,
            doubts=tuple(dict.fromkeys([*self.doubts, *other.doubts])),
            consumption=(*(self.consumption or ()), *(other.consumption or ())),
            causes=tuple(few([*self.causes, *other.causes])),
            sequences=all_together([self.sequences, other.sequences]),
            plugin_checks={**self.plugin_checks, **other.plugin_checks},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What reconciling found, by run and partition, and where the rows are, in their order."""

    partitions: Mapping[Key, PartitionTotals] = field(default_factory=dict)
    rows: tuple[AnyPath, ...] = ()


def few(causes: Sequence[Cause]) -> Iterator[Cause]:
    """Of each anomaly of a partition no more than are told of what is judged together."""
    for anomaly in dict.fromkeys(one.anomaly for one in causes):
        mine = [one for one in causes if one.anomaly == anomaly]
        yield from mine if len(mine) <= TOLD_MAX + 1 else told(mine)
