"""The state machine's view of the replica's own log: its ends, high watermark and epochs.

Each method changes this view and returns the effects that make the real log follow. The real log
belongs to the server. Nothing here knows the content of a record.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ackproof.broker.replication.epochs import Epochs
from ackproof.broker.replication.events import (
    AdvanceLogStart,
    Append,
    Batch,
    Effect,
    HighWatermark,
    StartEpoch,
    Truncate,
    TruncateFully,
)
from ackproof.broker.types import LeaderEpoch, Offset

Effects = tuple[Effect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The state of the log when the replica starts. The high watermark is the checkpointed one."""

    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    epochs: tuple[tuple[LeaderEpoch, Offset], ...]


class LocalLog:
    """A view of the log. Invariant: ``log_start_offset`` <= ``high_watermark`` <=
    ``log_end_offset``."""

    def __init__(self, state: LogState) -> None:
        if state.log_start_offset > state.log_end_offset:
            raise ValueError(f"log starts after its end: {state}")
        self.log_start_offset = state.log_start_offset
        self.log_end_offset = state.log_end_offset
        self.high_watermark = self._within(state.high_watermark)
        self.epochs = Epochs(state.epochs)

    def append_as_leader(self, batches: tuple[Batch, ...], epoch: LeaderEpoch) -> Effects:
        """Append batches at the next offsets, whatever offsets the producer put into them."""
        base = self.log_end_offset
        self.log_end_offset = Offset(base + sum(b.next_offset - b.base_offset for b in batches))
        return (Append(batches=batches, base_offset=base, leader_epoch=epoch),)

    def append_as_follower(self, batches: tuple[Batch, ...], leader_start: Offset) -> Effects:
        """Append batches with the leader's offsets and epochs.

        The leader's log may start inside a batch (DeleteRecords), and a follower may be sent there.
        The batch then overlaps this log. This log holds only records that the leader has deleted,
        and is discarded. Raise ValueError for any other overlap.
        """
        if not batches:
            return ()
        base = Offset(batches[0].base_offset)
        rewind = self._begin_at(base, leader_start) if base < self.log_end_offset else ()
        self.log_end_offset = Offset(batches[-1].next_offset)
        self.epochs = self.epochs.assign_all(_epochs_of(batches))
        return (*rewind, Append(batches=batches, base_offset=base, leader_epoch=None))

    def _begin_at(self, base: Offset, leader_start: Offset) -> Effects:
        if self.log_end_offset > max(self.log_start_offset, leader_start):
            raise ValueError(
                f"batch at {base} overlaps the log, which ends at {self.log_end_offset}"
            )
        return self.truncate_fully(base)

    def start_epoch(self, epoch: LeaderEpoch) -> Effects:
        """Begin ``epoch`` at the log's end."""
        self.epochs = self.epochs.assign(epoch, self.log_end_offset)
        return (StartEpoch(leader_epoch=epoch, offset=self.log_end_offset),)

    def truncate(self, offset: Offset) -> Effects:
        """Truncate at ``offset``.

        An offset at or past the end removes no record. It does remove the epoch of a leader that
        was followed by another before it appended anything.
        """
        end = min(offset, self.log_end_offset)
        if end < self.log_start_offset:
            return self.truncate_fully(end)
        kept = self.epochs.truncate_from_end(end)
        if end == self.log_end_offset and kept == self.epochs:
            return ()
        self.log_end_offset = end
        self.epochs = kept
        return (Truncate(offset=end), *self.move_high_watermark(self.high_watermark))

    def truncate_fully(self, offset: Offset) -> Effects:
        """Discard the whole log, and start again, empty, at ``offset``."""
        moved = self.high_watermark != offset
        self.log_start_offset = self.log_end_offset = self.high_watermark = offset
        self.epochs = Epochs()
        notice = (HighWatermark(offset=offset),) if moved else ()
        return (TruncateFully(offset=offset), *notice)

    def advance_start(self, offset: Offset) -> Effects:
        """Delete the records below ``offset``, but no uncommitted record."""
        start = min(offset, self.high_watermark)
        if start <= self.log_start_offset:
            return ()
        self.log_start_offset = start
        self.epochs = self.epochs.truncate_from_start(start)
        return (AdvanceLogStart(offset=start),)

    def started_at(self, offset: Offset) -> Effects:
        """Follow the log's own move of its start (retention), with the watermark if necessary."""
        if offset > self.log_end_offset:
            raise ValueError(f"log start {offset} is past the log's end {self.log_end_offset}")
        self.log_start_offset = max(offset, self.log_start_offset)
        self.epochs = self.epochs.truncate_from_start(self.log_start_offset)
        return self.move_high_watermark(self.high_watermark)

    def move_high_watermark(self, offset: Offset) -> Effects:
        """Set the high watermark, limited to the bounds of the log."""
        bounded = self._within(offset)
        if bounded == self.high_watermark:
            return ()
        self.high_watermark = bounded
        return (HighWatermark(offset=bounded),)

    def _within(self, offset: Offset) -> Offset:
        return max(self.log_start_offset, min(offset, self.log_end_offset))


def _epochs_of(batches: Sequence[Batch]) -> list[tuple[LeaderEpoch, Offset]]:
    return [
        (LeaderEpoch(batch.leader_epoch), Offset(batch.base_offset))
        for batch in batches
        if batch.leader_epoch >= 0
    ]
