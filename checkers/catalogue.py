"""All checkers there are, in one explicit table. A new one is a function and a line here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

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
from ackproof.checkers.transactions.anomalies import SUMMARIES


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """A rule and one line on what it finds."""

    rule: Callable[[PartitionHistory], pa.Table]
    summary: str


CHECKERS: Mapping[str, Checker] = {
    "lost": Checker(rule=lost, summary="acked, and absent from the partition's final log"),
    "offset-mismatch": Checker(
        rule=offset_mismatch,
        summary="acked at one offset, and present only at others; or another was acked there",
    ),
    "duplicated": Checker(
        rule=duplicated, summary="one sent record at two or more offsets of the final log"
    ),
    "reordered": Checker(
        rule=reordered, summary="stands behind a record that its producer sent later"
    ),
    "phantom": Checker(
        rule=phantom, summary="in the final log, and never sent there; or an undecodable payload"
    ),
    "failed-but-present": Checker(
        rule=failed_but_present, summary="failed for certain, and yet in the final log"
    ),
    "offset-gap": Checker(
        rule=offset_gap, summary="offsets between start and end of the final log without a record"
    ),
    "nonmonotonic-send": Checker(
        rule=nonmonotonic_send, summary="acked at a lower offset than one its producer sent before"
    ),
    "watermark-regressed": Checker(
        rule=watermark_regressed,
        summary="acked by all in sync, and the log of a leader, or the end that ListOffsets told, "
        "ended before it later",
    ),
    "epoch-regressed": Checker(
        rule=epoch_regressed,
        summary="a leader epoch that went back: in ZooKeeper, at a broker, or in the final log",
    ),
    "two-leaders": Checker(rule=two_leaders, summary="a leader epoch in which two brokers led"),
    "stale-leader-ack": Checker(
        rule=stale_leader_ack, summary="acked by a leader that was deposed before it was sent"
    ),
    "acked-below-min-isr": Checker(
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

CATALOGUE: Mapping[str, str] = {
    **{name: checker.summary for name, checker in CHECKERS.items()},
    **CONSUMPTION,
    **SUMMARIES,
    DIVERGENT: "replicas in sync whose raw logs are not the same, up to the end of the final read",
}
"""Name to summary."""
