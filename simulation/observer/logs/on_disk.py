"""What lies in a log when a broker opens it."""

from collections.abc import Iterator
from pathlib import Path

from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.segment import LOG_SUFFIX
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, parse_batches
from simulation.machines.disk import MemoryDisk
from simulation.partition.shadow import Extent, Shadow
from simulation.violation import Violation

READ_BYTES = 2**31 - 1


def read_shadow(log: PartitionLog) -> Shadow | None:
    """What is really in a log; None: its disk refuses to be read.

    Raises:
        Violation: there are no batches in it, or damaged ones, or none where one is to be, and the
            broker has opened it all the same.
    """
    try:
        return Shadow(log.log_start_offset, [Extent.of(batch) for batch in batches_of(log)])
    except OSError:
        return None


def batches_of(log: PartitionLog) -> Iterator[RecordBatch]:
    """From its start to its end; raises OSError, and Violation as :func:`read_shadow`."""
    at, end, name = int(log.log_start_offset), log.log_end_offset, log.directory.name
    while at < end:
        try:
            read = parse_batches(log.read(at, READ_BYTES, end))
        except CorruptBatch as error:  # a ValueError: the broker would take it for a word to refuse
            what = f"{name}: behind {at} of {end} there is no batch: {error}"
            raise Violation("LogKept", what) from error
        if not read or read[-1].next_offset <= at:
            raise Violation("LogKept", f"{name}: at {at} of {end} there is nothing to be read")
        for batch in read:
            if log.log_start_offset < at != batch.base_offset:
                what = f"{name}: behind {at} of {end} nothing is there up to {batch.base_offset}"
                raise Violation("LogKept", what)
            yield batch
            at = batch.next_offset


def certain_batches(disk: MemoryDisk, log: Path, end: int) -> Iterator[RecordBatch]:
    """Those below ``end`` that no power failure takes; none of a log that was deleted just now."""
    names = disk.names(log) if disk.is_directory(log) else []
    for name in sorted(name for name in names if name.endswith(LOG_SUFFIX)):
        data = disk.certain(log / name)
        for batch in parse_batches(data, verify_crc=False, partial_tail=True):
            if batch.next_offset > end:
                return
            yield batch
