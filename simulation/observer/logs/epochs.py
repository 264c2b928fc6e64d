"""**EpochsAreLog**: what a log tells of leader epochs is what its batches say, and what its replica
goes by.

A follower asks its leader by its latest epoch, and cuts by where epochs began in its own log
(KIP-101). One that lost them at a start asks for none, and keeps what its leader never had; one
that keeps those of records it has cut asks for an epoch that it has nothing of.
"""

from pathlib import Path

from ackproof.broker.log.epochs import FILE_NAME
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.replication.epochs import Epochs
from ackproof.broker.replication.replica import Replica
from ackproof.broker.types import TopicPartition
from simulation.machines.disk import MemoryDisk
from simulation.observer.logs.on_disk import certain_batches
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


def noted(disk: MemoryDisk, log: PartitionLog, offset: int) -> None:
    """The broker is about to note that everything below ``offset`` is on disk: a start will not
    look there for epochs, and go by those in the checkpoint. Raises Violation."""
    begin = {start: epoch for epoch, start in _certain(disk, log.directory)}
    for batch in certain_batches(disk, log.directory, offset):
        at = max(batch.base_offset, log.log_start_offset)
        epoch = begin.get(max((start for start in begin if start <= at), default=-1))
        if at < batch.next_offset and epoch != batch.leader_epoch:
            raise Violation(
                "EpochsAreLog",
                f"{log.directory.name}: everything below {offset} is noted to be on disk; by its "
                f"epochs {begin} offset {at} is of epoch {epoch}, in the log of "
                f"{batch.leader_epoch}",
            )


def written(disk: MemoryDisk, directory: Path, history: Epochs) -> None:
    """That of the log there was to be written down last, and no writing is under way. Raises
    Violation.

    What is missing in the checkpoint then is not written with the next flush either.
    """
    there = _certain(disk, directory)
    if there != history.entries:
        what = f"{history.entries} are taken for written down, in the checkpoint are {there}"
        raise Violation("EpochsAreLog", f"{directory.name}: epochs {what}")


def _certain(disk: MemoryDisk, directory: Path) -> tuple[tuple[int, int], ...]:
    """Each epoch, and where it began, as no power failure changes it."""
    path = directory / FILE_NAME
    lines = disk.certain(path).decode().splitlines()[2:] if disk.must_stay(path) else []
    return tuple((int(epoch), int(start)) for epoch, start in map(str.split, lines))


def kept(tp: TopicPartition, broker: int, log: PartitionLog, replica: Replica) -> None:
    """After a step; raises Violation."""
    if log.epochs.entries != replica.epochs:
        raise Violation(
            "EpochsAreLog",
            f"{tp}, broker {broker}: the replica goes by {replica.epochs}, its log by "
            f"{log.epochs.entries}",
        )
