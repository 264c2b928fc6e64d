"""**BegunAnewStays**: a log that was thrown away begins where it began anew, after a power failure,
too.

A follower that lacks what its leader has deleted goes on from the leader's log start
(``UnifiedLog.truncateFullyAndStartAt``). If the name of its new segment may be gone, the log may be
empty, and one that is empty begins at 0: as a leader it would give offsets again.
"""

from broker.log.partition_log import PartitionLog
from broker.log.segment import LOG_SUFFIX
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
