"""A replica's log as its effects made it: who wrote what where, without the bytes."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple, cast

from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    Effect,
    Truncate,
    TruncateFully,
)
from ackproof.broker.wire.batch import RecordBatch


class Extent(NamedTuple):
    """A batch. The CRC leaves base offset and epoch out and, since each record that clients send
    is another, tells batches apart."""

    base: int
    next: int
    crc: int
    epoch: int
    timestamp: int = -1
    """Its greatest one, in ms since 1970."""
    producer: int = -1
    """The idempotent producer that sent it."""
    producer_epoch: int = -1
    sequence: int = -1
    """Of its first record."""

    @classmethod
    def of(cls, batch: RecordBatch) -> "Extent":
        """As it stands in a log."""
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


class Shadow:
    """Extents in the order of their offsets."""

    def __init__(self, start: int = 0, extents: Iterable[Extent] = ()) -> None:
        self.start = start
        self._extents = list(extents)
        self._bases = [extent.base for extent in self._extents]
        self._begin = self._bases[0] if self._bases else start
        self.end = self._extents[-1].next if self._extents else start

    def __str__(self) -> str:
        return f"{self.start} to {self.end}"

    def follow(self, effect: Effect) -> None:
        """Carries out what touches the log."""
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
        base = int(effect.base_offset)
        for batch in cast(tuple[RecordBatch, ...], effect.batches):
            size = batch.next_offset - batch.base_offset
            if effect.leader_epoch is None:
                base = batch.base_offset
            epoch = batch.leader_epoch if effect.leader_epoch is None else effect.leader_epoch
            extent = Extent.of(batch)._replace(base=base, next=base + size, epoch=int(epoch))
            self._extents.append(extent)
            self._bases.append(base)
            base += size
            self.end = base

    def truncate(self, offset: int) -> None:
        """As logs do it: the batch that holds ``offset`` goes as a whole."""
        if offset >= self.end:
            return
        while self._extents and self._extents[-1].next > offset:
            self._extents.pop()
            self._bases.pop()
        self.end = self._extents[-1].next if self._extents else self._begin
        self.start = min(self.start, self.end)

    def clear(self, offset: int) -> None:
        self._extents.clear()
        self._bases.clear()
        self.start = self.end = self._begin = offset

    def start_at(self, offset: int) -> None:
        """Records below ``offset`` are given up; their batches may lie there still."""
        self.start = max(self.start, offset)

    def between(self, start: int, end: int) -> Iterator[Extent]:
        """The batches with an offset at ``start`` or later, and none at ``end`` or later."""
        first = max(0, bisect_right(self._bases, start) - 1)
        for number in range(first, len(self._extents)):
            extent = self._extents[number]
            if extent.next > end:
                return
            if extent.next > start:
                yield extent

    def agrees_up_to(self, other: "Shadow") -> int:
        """Where the first difference begins, the lower end if there is none."""
        end = min(self.end, other.end)
        start = max(self.start, other.start)
        for mine, theirs in zip_longest(self.between(start, end), other.between(start, end)):
            if mine != theirs:
                return min(extent.base for extent in (mine, theirs) if extent is not None)
        return end

    def agrees_with(self, other: "Shadow") -> bool:
        """Whether both have the same batches where both have any."""
        start = max(self.start, other.start)
        end = min(self.end, other.end)
        return list(self.between(start, end)) == list(other.between(start, end))
