"""**FlushedIsSynced**: below the recovery point that a broker notes, a power failure takes nothing.

What lies there is not looked at when the log is opened after a crash ("recovery-point-offset-
checkpoint: the offset up to which the log has been flushed", ``LogManager``): what is torn there
would be served. Judged when the checkpoint is about to be written, by what a disk is sure to keep.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.segment import LOG_SUFFIX
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import parse_batches
from simulation.machines.disk import MemoryDisk
from simulation.violation import Violation


def check(disk: MemoryDisk, directory: Path, noted: Mapping[TopicPartition, int]) -> None:
    """Of the recovery points that are ``noted`` in a log directory; raises Violation."""
    for tp, offset in noted.items():
        kept = _kept(disk, directory / str(tp), offset)
        if kept < offset:
            raise Violation(
                "FlushedIsSynced",
                f"{tp}: {directory.name} notes that everything below {offset} is on disk; a power "
                f"failure may leave no more than what is below {kept}",
            )


def known(log: PartitionLog, offset: int) -> None:
    """The log is aware that a checkpoint says so from now on, also when it has been cut: else it
    does not sync what comes in the place of that before it goes on. Raises Violation."""
    if (vouched := log.flushing.vouched_for) < offset:
        what = f"everything below {offset} is noted to be on disk, the log knows of {vouched}"
        raise Violation("FlushedIsSynced", f"{log.directory.name}: {what}")


def _kept(disk: MemoryDisk, log: Path, offset: int) -> int:
    """Up to where records are on disk for sure, as far as they are needed up to ``offset``."""
    if not disk.is_directory(log):
        return offset  # deleted just now
    names = sorted(name for name in disk.names(log) if name.endswith(LOG_SUFFIX))
    bases = [int(name.removesuffix(LOG_SUFFIX)) for name in names]
    for name, base, end in zip(names, bases, [*bases[1:], offset], strict=True):
        is_there = disk.must_stay(log) and disk.must_stay(log / name)
        kept = _last(disk, log / name, base) if is_there else base
        if base < offset and kept < min(end, offset):
            return kept
    return offset


def _last(disk: MemoryDisk, segment: Path, base: int) -> int:
    *_, end = (base, *_ends(disk.certain(segment)))
    return end


def _ends(data: bytes) -> Iterator[int]:
    for batch in parse_batches(data, verify_crc=False, partial_tail=True):
        yield batch.next_offset
