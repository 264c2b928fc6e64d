"""All checkers, in one explicit table. A new built-in one is a function and a line here. Plug-ins
add others under the entry-point group ``ackproof.checkers`` (:mod:`checkers.registration`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from ackproof.checkers.interface import PluginChecker
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.reads.anomalies import (
    COMMIT_LOST,
    COMMIT_REGRESSED,
    INCONSISTENT,
    NONMONOTONIC,
    SKIPPED,
    SKIPPED_BY_COMMIT,
    UNSEEN,
    VANISHED,
)
from ackproof.checkers.registration import as_checker
from ackproof.checkers.replicas.divergence import DIVERGENT
from ackproof.checkers.rules.acks import (
    acked_below_min_isr,
    nonmonotonic_send,
    stale_leader_ack,
    watermark_regressed,
)
from ackproof.checkers.rules.content import failed_but_present, offset_gap, phantom
from ackproof.checkers.rules.epochs import epoch_regressed, two_leaders
from ackproof.checkers.rules.loss import lost, offset_mismatch
from ackproof.checkers.rules.order import duplicated, reordered
from ackproof.checkers.transactions.anomalies import (
    ABORTED_READ,
    G1C,
    LOST_COMMIT,
    OFFSETS_ALONE,
    PRECOMMITTED_READ,
    RECORDS_ALONE,
    RESURRECTED,
    SUMMARIES,
    TORN,
    TWICE,
    ZOMBIE,
)
from ackproof.plugins import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRule:
    """A rule on the history of one partition, and one line on what it finds."""

    rule: Callable[[PartitionHistory], pa.Table]
    summary: str


CHECKERS: Mapping[str, PartitionRule] = {
    "lost": PartitionRule(rule=lost, summary="acked, and absent from the partition's final log"),
    "offset-mismatch": PartitionRule(
        rule=offset_mismatch,
        summary="acked at one offset, and present only at others; or another was acked there",
    ),
    "duplicated": PartitionRule(
        rule=duplicated, summary="one sent record at two or more offsets of the final log"
    ),
    "reordered": PartitionRule(
        rule=reordered, summary="stands behind a record that its producer sent later"
    ),
    "phantom": PartitionRule(
        rule=phantom, summary="in the final log, and never sent there; or an undecodable payload"
    ),
    "failed-but-present": PartitionRule(
        rule=failed_but_present, summary="failed for certain, and yet in the final log"
    ),
    "offset-gap": PartitionRule(
        rule=offset_gap, summary="offsets between start and end of the final log without a record"
    ),
    "nonmonotonic-send": PartitionRule(
        rule=nonmonotonic_send, summary="acked at a lower offset than one its producer sent before"
    ),
    "watermark-regressed": PartitionRule(
        rule=watermark_regressed,
        summary="acked by all in sync, and the log of a leader, or the end that ListOffsets told, "
        "ended before it later",
    ),
    "epoch-regressed": PartitionRule(
        rule=epoch_regressed,
        summary="a leader epoch that went back: in ZooKeeper, at a broker, or in the final log",
    ),
    "two-leaders": PartitionRule(
        rule=two_leaders, summary="a leader epoch in which two brokers led"
    ),
    "stale-leader-ack": PartitionRule(
        rule=stale_leader_ack, summary="acked by a leader that was deposed before it was sent"
    ),
    "acked-below-min-isr": PartitionRule(
        rule=acked_below_min_isr,
        summary="acked by all in sync while these were fewer than min.insync.replicas",
    ),
}

CONSUMPTION: Mapping[str, str] = {
    VANISHED: "shown to a consumer, and the final log has no record at that offset",
    INCONSISTENT: "an offset that two reads, or a read and an ack, say holds different records",
    SKIPPED: "in the final log, and passed over by a consumer as it went on reading",
    NONMONOTONIC: "shown to a consumer at or below the offset it was shown just before",
    UNSEEN: "acked and in the final log, never shown to a tail reader that read past it",
    COMMIT_LOST: "an offset was committed for a group, and later a member read back nothing",
    COMMIT_REGRESSED: "an offset was committed for a group, and later a member read back an older "
    "one",
    SKIPPED_BY_COMMIT: "in the final log, and committed past by an at-least-once group none of "
    "whose members was shown it",
}
"""The checkers of what consumers were shown and committed, which look at one consumer, or group,
after the other."""

BREAKS: Mapping[str, str] = {
    "lost": "no-acked-record-lost",
    "offset-mismatch": "acked-offset-kept",
    "duplicated": "no-duplicates",
    "reordered": "no-reordering",
    "phantom": "no-phantom",
    "failed-but-present": "failed-records-absent",
    "offset-gap": "no-offset-gap",
    "nonmonotonic-send": "acks-in-order",
    "watermark-regressed": "committed-stays",
    "epoch-regressed": "epochs-rise",
    "two-leaders": "one-leader-an-epoch",
    "stale-leader-ack": "deposed-leaders-stop",
    "acked-below-min-isr": "min-isr-kept",
    VANISHED: "reads-stay",
    INCONSISTENT: "reads-agree",
    SKIPPED: "no-poll-skip",
    NONMONOTONIC: "polls-in-order",
    UNSEEN: "no-unseen",
    COMMIT_LOST: "commits-kept",
    COMMIT_REGRESSED: "commits-in-order",
    SKIPPED_BY_COMMIT: "nothing-skipped-by-commit",
    LOST_COMMIT: "committed-transactions-kept",
    TORN: "transactions-whole",
    RESURRECTED: "aborted-stays-aborted",
    ZOMBIE: "zombies-fenced",
    ABORTED_READ: "no-aborted-read",
    PRECOMMITTED_READ: "no-precommitted-read",
    G1C: "no-circular-reads",
    OFFSETS_ALONE: "offsets-with-records",
    RECORDS_ALONE: "records-with-offsets",
    TWICE: "transformed-once",
    DIVERGENT: "replicas-agree",
}
"""The guarantee that an anomaly of a built-in checker breaks; ``G0`` breaks none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInChecker:
    """A built-in checker: what one of its anomalies is, and the guarantee that it breaks."""

    summary: str
    breaks: str | None


_SUMMARIES: Mapping[str, str] = {
    **{name: rule.summary for name, rule in CHECKERS.items()},
    **CONSUMPTION,
    **SUMMARIES,
    DIVERGENT: "replicas in sync whose raw logs are not the same, up to the end of the final read",
}

CATALOGUE: Table[BuiltInChecker | PluginChecker] = Table(
    "ackproof.checkers",
    "checker",
    {
        name: BuiltInChecker(summary=summary, breaks=BREAKS.get(name))
        for name, summary in _SUMMARIES.items()
    },
    partial(as_checker, guarantees=tuple(BREAKS.values())),
)
"""Every checker, by the name of its anomalies."""


def plugin_checkers() -> Mapping[str, PluginChecker]:
    """Return the checkers of plug-ins that can be used, by name. Imports all of them."""
    return {name: one for name, one in CATALOGUE.items() if isinstance(one, PluginChecker)}
