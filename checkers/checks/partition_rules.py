"""The rules for the history of one partition, by the names of their anomalies."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from ackproof.checkers.checks import tombstones
from ackproof.checkers.checks.acks import (
    acked_below_min_isr,
    nonmonotonic_send,
    stale_leader_ack,
    watermark_regressed,
)
from ackproof.checkers.checks.catalogue import RESURRECTED_VALUE, TOO_EARLY
from ackproof.checkers.checks.records import (
    deleted_too_early,
    duplicated,
    epoch_regressed,
    failed_but_present,
    lost,
    offset_gap,
    offset_mismatch,
    phantom,
    reordered,
    two_leaders,
    wrong_topic,
)
from ackproof.checkers.index.partition_history import PartitionHistory

CHECKERS: Mapping[str, Callable[[PartitionHistory], pa.Table]] = {
    "lost": lost,
    "deleted-too-early": deleted_too_early,
    TOO_EARLY: tombstones.too_early,
    RESURRECTED_VALUE: tombstones.resurrected,
    "offset-mismatch": offset_mismatch,
    "duplicated": duplicated,
    "reordered": reordered,
    "phantom": phantom,
    "wrong-topic": wrong_topic,
    "failed-but-present": failed_but_present,
    "offset-gap": offset_gap,
    "nonmonotonic-send": nonmonotonic_send,
    "watermark-regressed": watermark_regressed,
    "epoch-regressed": epoch_regressed,
    "two-leaders": two_leaders,
    "stale-leader-ack": stale_leader_ack,
    "acked-below-min-isr": acked_below_min_isr,
}
