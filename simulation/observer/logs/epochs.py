"""**EpochsAreLog**: what a log tells of leader epochs is what its batches say, and what its replica
goes by.

A follower asks its leader by its latest epoch, and cuts by where epochs began in its own log
(KIP-101). One that lost them at a start asks for none, and keeps what its leader never had; one
that keeps those of records it has cut asks for an epoch that it has nothing of.
"""

from broker.log.partition_log import PartitionLog
from broker.replication.replica import Replica
from broker.types import TopicPartition
from simulation.partition.shadow import Shadow
from simulation.violation import Violation


def found(
    tp: TopicPartition, broker: int, log: PartitionLog, read: Shadow, *, deleted: int
) -> None:
    """At a start, of what is in the log and not ``deleted`` (below that offset); raises Violation.

    Deleted up to 1, which leader-epoch-checkpoint says at once and log-start-offset-checkpoint once
    a minute: after a power failure record 0 is there again, and of no epoch.
    """
    start = max(log.log_start_offset, deleted)
    for extent in read.between(start, log.log_end_offset):
        offset = max(extent.base, start)
        epoch = log.epochs.epoch_for_offset(offset)
        if epoch != extent.epoch:
            raise Violation(
                "EpochsAreLog",
                f"{tp}, broker {broker}: by {log.epochs.entries} offset {offset} is of epoch "
                f"{epoch}, in the log is {extent}",
            )


def kept(tp: TopicPartition, broker: int, log: PartitionLog, replica: Replica) -> None:
    """After a step; raises Violation."""
    if log.epochs.entries != replica.epochs:
        raise Violation(
            "EpochsAreLog",
            f"{tp}, broker {broker}: the replica goes by {replica.epochs}, its log by "
            f"{log.epochs.entries}",
        )
