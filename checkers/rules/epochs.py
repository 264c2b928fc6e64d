"""Leader epochs that go back, and epochs with several leaders."""

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.rules.rows import rows


def epoch_regressed(partition: PartitionHistory) -> pa.Table:
    """Where a leader epoch went back. Three witnesses, each by itself:

    - ZooKeeper's state of the partition, as it was observed: one row a time, without an offset.
    - A broker's own log, which took a role in an earlier epoch than before: likewise.
    - The final log: who leads appends behind all that is there, in the highest epoch that there has
      been, so that epochs never go back from one offset to a later one. One row a place, at the
      later offset. They do where a replica was cut at another place than its log parted from the
      leader's.

    Not seen: what went back and came again between two readings of ZooKeeper.
    """
    told = _told(partition, "epoch-regressed")
    epochs, offsets = partition.log_epoch, partition.log_offset
    known = np.flatnonzero(epochs != NONE)
    back = np.flatnonzero(np.diff(epochs[known]) < 0)
    before, after = known[back], known[back + 1]
    details = (
        f"appended in epoch {epochs[later]}, behind offset {offsets[earlier]} of epoch "
        f"{epochs[earlier]}"
        for earlier, later in zip(before, after, strict=True)
    )
    records = partition.log_record[after]
    of_log = rows(
        partition, "epoch-regressed", records=records, offsets=offsets[after], details=details
    )
    return pa.concat_tables([told, of_log])


def two_leaders(partition: PartitionHistory) -> pa.Table:
    """Leader epochs in which two brokers led, by ZooKeeper or by their own word: one row an epoch.

    No clock is in it. Not seen: a leader that ZooKeeper did not show and whose log was not
    collected; and where leaders coordinate themselves, whoever ZooKeeper alone would tell of.
    """
    return _told(partition, "two-leaders")


def _told(partition: PartitionHistory, anomaly: str) -> pa.Table:
    told = [one for one in partition.timeline.told if one.anomaly == anomaly]
    return rows(
        partition,
        anomaly,
        offsets=[NONE] * len(told),
        times=[one.time for one in told],
        details=[one.detail for one in told],
    )
