"""**BegunAnewStays**: a log that was thrown away begins where it began anew, after a power failure,
too.

A follower that lacks what its leader has deleted goes on from the leader's log start
(``UnifiedLog.truncateFullyAndStartAt``). If the name of its new segment may be gone, the log may be
empty, and one that is empty begins at 0: as a leader it would give offsets again.

**MadeOfNothing**: of a log that is made no checkpoint knows anything. A log start of 100 that a
former topic of that name has left would have its 10 records thrown away after a kill. Nor does
the broker remember anything, from the deletion of the former one on: a watermark of 100 would call
committed what nobody else has got.
"""

from collections.abc import Container
from pathlib import Path

from ackproof.broker.log.disk.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    offsets_in,
)
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.segment import LOG_SUFFIX
from ackproof.broker.types import TopicPartition
from simulation.machines.disk import MemoryDisk
from simulation.violation import Violation


def check(disk: MemoryDisk, log: PartitionLog) -> None:
    """Of a log that was thrown away just now; raises Violation."""
    name = f"{log.log_end_offset:020d}{LOG_SUFFIX}"
    if not disk.must_stay(log.directory / name):
        raise Violation(
            "BegunAnewStays",
            f"{log.directory.name} begins anew at {log.log_end_offset}, and after a power failure "
            f"it may have no {name}",
        )


def made(disk: MemoryDisk, directory: Path, tp: TopicPartition) -> None:
    """A log of ``tp`` was made in this log directory just now; raises Violation."""
    for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
        path = directory / name
        noted = offsets_in(disk.certain(path), path) if name in disk.names(directory) else {}
        if tp in noted:
            what = f"{tp} is made just now, and {name} has {noted[tp]} of it"
            raise Violation("MadeOfNothing", what)


def begins(logs: LogManager, log: PartitionLog, tp: TopicPartition) -> None:
    """And it begins with nothing; raises Violation."""
    offsets = {
        "log start": log.log_start_offset,
        "end": log.log_end_offset,
        "recovery point": log.recovery_point,
        "watermark": logs.high_watermark(tp),
    }
    for name, offset in offsets.items():
        if offset:
            raise Violation("MadeOfNothing", f"{tp} is made just now, and its {name} is {offset}")
    if log.epochs.entries or log.producers.state.producers:
        raise Violation("MadeOfNothing", f"{tp} is made just now, and knows somebody")


def gone(logs: LogManager, tp: TopicPartition) -> None:
    """The log of ``tp`` was deleted just now; raises Violation."""
    for name, known in vars(logs).items():
        if isinstance(known, Container) and tp in known:
            what = f"{tp} is deleted just now, and stands in {name.strip('_')} still"
            raise Violation("MadeOfNothing", what)
