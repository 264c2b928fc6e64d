"""A log in memory, built from the effects of a replica alone. It survives a crash of its broker."""

from dataclasses import dataclass

from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    Batch,
    Effect,
    StartEpoch,
    Truncate,
    TruncateFully,
)
from ackproof.broker.replication.local import Epochs, LogState
from ackproof.broker.types import LeaderEpoch, Offset


@dataclass(frozen=True, slots=True)
class MemoryBatch:
    """``value`` tells batches apart; a retried one would have another."""

    value: int
    base_offset: int
    next_offset: int
    leader_epoch: int = -1

    @classmethod
    def to_send(cls, value: int, count: int) -> "MemoryBatch":
        return cls(value, 0, count)


class MemoryLog:
    """``slots[i]`` is the batch that holds offset ``start + i``."""

    def __init__(self) -> None:
        self.start = Offset(0)
        self.slots: list[MemoryBatch] = []
        self.epochs = Epochs()
        self.checkpoint = Offset(0)

    @property
    def end(self) -> Offset:
        return Offset(self.start + len(self.slots))

    def state(self) -> LogState:
        """Return the state for a starting replica. An epoch without records is not kept, as in
        Kafka."""
        self.epochs = self.epochs.truncate_from_end(self.end)
        return LogState(
            log_start_offset=self.start,
            log_end_offset=self.end,
            high_watermark=self.checkpoint,
            epochs=self.epochs.entries,
        )

    def read(self, offset: Offset, batches_max: int) -> tuple[MemoryBatch, ...]:
        """Whole batches from the one that holds ``offset``."""
        found: list[MemoryBatch] = []
        while offset < self.end and len(found) < batches_max:
            found.append(self.slots[offset - self.start])
            offset = Offset(found[-1].next_offset)
        return tuple(found)

    def carry_out(self, effect: Effect) -> None:
        """Effects that do not touch the log are none of its business."""
        match effect:
            case Append():
                self._append(effect)
            case StartEpoch():
                self.epochs = self.epochs.assign(effect.leader_epoch, effect.offset)
            case Truncate(offset=offset):
                del self.slots[max(0, offset - self.start) :]
                self.epochs = self.epochs.truncate_from_end(offset)
            case TruncateFully(offset=offset):
                self.start, self.slots, self.epochs = offset, [], Epochs()
            case AdvanceLogStart(offset=offset):
                self.advance_start(offset)

    def advance_start(self, offset: Offset) -> None:
        del self.slots[: offset - self.start]
        self.start = offset
        self.epochs = self.epochs.truncate_from_start(offset)

    def _append(self, effect: Append) -> None:
        if effect.base_offset != self.end:
            raise AssertionError(f"append at {effect.base_offset}, but the log ends at {self.end}")
        for batch in effect.batches:
            stored = self._stored(batch, effect.leader_epoch)
            visible = stored.next_offset - self.end
            self.slots.extend([stored] * visible)
            self.epochs = self.epochs.assign(
                LeaderEpoch(stored.leader_epoch), Offset(stored.base_offset)
            )

    def _stored(self, batch: Batch, epoch: LeaderEpoch | None) -> MemoryBatch:
        assert isinstance(batch, MemoryBatch)
        if epoch is None:
            return batch
        count = batch.next_offset - batch.base_offset
        return MemoryBatch(batch.value, self.end, self.end + count, epoch)
