"""A replica's log as the model knows it, and the log on the disk."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, cast

from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.segment import LOG_SUFFIX
from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    Effect,
    Truncate,
    TruncateFully,
)
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, parse_batches
from simulation.machines.disk import SimulatedDisk
from simulation.violation import Violation

READ_BYTES = 2**31 - 1


class BatchExtent(NamedTuple):
    """A batch without its bytes.

    The CRC covers neither base offset nor epoch. Since every record that a client sends is
    different, it tells batches apart.
    """

    base: int
    next: int
    crc: int
    epoch: int
    timestamp: int = -1
    """The greatest timestamp in it, in ms since 1970."""
    producer: int = -1
    """The id of the idempotent producer that sent it; -1: none."""
    producer_epoch: int = -1
    sequence: int = -1
    """The sequence number of its first record."""

    @classmethod
    def of(cls, batch: RecordBatch) -> "BatchExtent":
        """Describe a batch as it stands in a log."""
        return cls(
            batch.base_offset,
            batch.next_offset,
            batch.crc,
            batch.leader_epoch,
            batch.max_timestamp,
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
        )

    def __str__(self) -> str:
        return f"{self.base} to {self.next} of epoch {self.epoch} ({self.crc:08x})"


class ModelLog:
    """The batches of a log, in the order of their offsets, as a replica's effects made it."""

    def __init__(self, start: int = 0, extents: Iterable[BatchExtent] = ()) -> None:
        self.start = start
        self._extents = list(extents)
        self._bases = [extent.base for extent in self._extents]
        self._begin = self._bases[0] if self._bases else start
        self.end = self._extents[-1].next if self._extents else start

    def __str__(self) -> str:
        return f"{self.start} to {self.end}"

    def follow(self, effect: Effect) -> None:
        """Apply an effect of the replica, if it concerns the log."""
        match effect:
            case Append():
                self.append(effect)
            case Truncate():
                self.truncate(effect.offset)
            case TruncateFully():
                self.clear(effect.offset)
            case AdvanceLogStart():
                self.start_at(effect.offset)

    def append(self, effect: Append) -> None:
        """Append the batches of an effect, a leader's or a follower's."""
        base = int(effect.base_offset)
        for batch in cast(tuple[RecordBatch, ...], effect.batches):
            size = batch.next_offset - batch.base_offset
            if effect.leader_epoch is None:
                base = batch.base_offset
            epoch = batch.leader_epoch if effect.leader_epoch is None else effect.leader_epoch
            extent = BatchExtent.of(batch)._replace(base=base, next=base + size, epoch=int(epoch))
            self._extents.append(extent)
            self._bases.append(base)
            base += size
            self.end = base

    def truncate(self, offset: int) -> None:
        """Truncate as logs do: the batch that holds ``offset`` is removed as a whole."""
        if offset >= self.end:
            return
        while self._extents and self._extents[-1].next > offset:
            self._extents.pop()
            self._bases.pop()
        self.end = self._extents[-1].next if self._extents else self._begin
        self.start = min(self.start, self.end)

    def clear(self, offset: int) -> None:
        """Delete everything. The log begins again at ``offset``."""
        self._extents.clear()
        self._bases.clear()
        self.start = self.end = self._begin = offset

    def start_at(self, offset: int) -> None:
        """Give up the records below ``offset``; their batches may still be on the disk."""
        self.start = max(self.start, offset)

    def between(self, start: int, end: int) -> Iterator[BatchExtent]:
        """Return the batches that hold an offset at or above ``start``, and none at or above
        ``end``."""
        first = max(0, bisect_right(self._bases, start) - 1)
        for number in range(first, len(self._extents)):
            extent = self._extents[number]
            if extent.next > end:
                return
            if extent.next > start:
                yield extent

    def agrees_up_to(self, other: "ModelLog") -> int:
        """Return where the first difference begins, or the lower end if there is none."""
        end = min(self.end, other.end)
        start = max(self.start, other.start)
        for mine, theirs in zip_longest(self.between(start, end), other.between(start, end)):
            if mine != theirs:
                return min(extent.base for extent in (mine, theirs) if extent is not None)
        return end

    def agrees_with(self, other: "ModelLog") -> bool:
        """Return whether both have the same batches where both have any."""
        start = max(self.start, other.start)
        end = min(self.end, other.end)
        return list(self.between(start, end)) == list(other.between(start, end))


def read_log(log: PartitionLog) -> ModelLog | None:
    """Read a broker's log from its disk. None means that the disk cannot be read.

    Raises:
        Violation: The broker has opened the log although a batch is missing or damaged.
    """
    try:
        return ModelLog(log.log_start_offset, [BatchExtent.of(batch) for batch in batches_of(log)])
    except OSError:
        return None


def batches_of(log: PartitionLog) -> Iterator[RecordBatch]:
    """Read a log's batches from its start to its end; raises OSError and, as :func:`read_log`,
    Violation."""
    at, end, name = int(log.log_start_offset), log.log_end_offset, log.directory.name
    while at < end:
        try:
            read = parse_batches(log.read(at, READ_BYTES, end))
        except CorruptBatch as error:  # a ValueError, which the broker would catch as a rejection
            what = f"{name}: there is no sound batch after offset {at} of {end}: {error}"
            raise Violation("Log/records-lost-on-disk", what) from error
        if not read or read[-1].next_offset <= at:
            raise Violation(
                "Log/records-lost-on-disk", f"{name}: nothing can be read at offset {at} of {end}"
            )
        for batch in read:
            if log.log_start_offset < at != batch.base_offset:
                what = f"{name}: nothing is there from offset {at} to {batch.base_offset} of {end}"
                raise Violation("Log/records-lost-on-disk", what)
            yield batch
            at = batch.next_offset


def durable_batches(disk: SimulatedDisk, log: Path, end: int) -> Iterator[RecordBatch]:
    """Yield the batches below ``end`` that survive any power failure, and none of a deleted log."""
    names = disk.names(log) if disk.is_directory(log) else []
    for name in sorted(name for name in names if name.endswith(LOG_SUFFIX)):
        data = disk.durable_bytes(log / name)
        for batch in parse_batches(data, verify_crc=False, partial_tail=True):
            if batch.next_offset > end:
                return
            yield batch
