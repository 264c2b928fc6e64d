"""The state machine's view of the replica's own log: its ends, high watermark and epochs.

Each method changes this view and returns the effects that make the real log follow. The real log
belongs to the server. Nothing here knows the content of a record.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
from ackproof.broker.types import NO_EPOCH, LeaderEpoch, Offset

# --- epochs ---------------------------------------------------------------------------------------
#
# The start of each leader epoch in the log (KIP-101): the content of ``leader-epoch-checkpoint``.
#
# Entries are (epoch, start offset), both strictly increasing. An epoch ends where the next one
# starts, and the latest epoch ends at the log's end. A leader enters its epoch before its first
# append. The latest entry of a leader is therefore always its own epoch, even if the epoch holds no
# record yet.


UNKNOWN_OFFSET = Offset(-1)
Entry = tuple[LeaderEpoch, Offset]


@dataclass(frozen=True, slots=True)
class Epochs:
    """An immutable history of leader epochs."""

    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        for (epoch, start), (next_epoch, next_start) in pairwise(self.entries):
            if epoch >= next_epoch or start >= next_start:
                raise ValueError(f"leader epochs do not increase: {self.entries}")

    @property
    def latest(self) -> LeaderEpoch:
        """The latest epoch, or -1 when none is known."""
        return self.entries[-1][0] if self.entries else NO_EPOCH

    def assign(self, epoch: LeaderEpoch, start: Offset) -> "Epochs":
        """Return this history with ``epoch`` beginning at ``start``.

        Nothing changes when ``epoch`` is the latest already, because the start of an epoch does not
        move forward. Entries with the same or a later epoch, or with the same or a higher offset,
        contradict the new entry and are removed.
        """
        if self.entries and epoch == self.latest and start >= self.entries[-1][1]:
            return self
        kept = (entry for entry in self.entries if entry[0] < epoch and entry[1] < start)
        return Epochs((*kept, (epoch, start)))

    def assign_all(self, entries: Iterable[Entry]) -> "Epochs":
        """Return this history after ``assign`` of each of ``entries`` in order."""
        history = self
        for epoch, start in entries:
            history = history.assign(epoch, start)
        return history

    def truncate_from_end(self, end: Offset) -> "Epochs":
        """Return this history without the epochs that begin at ``end`` or later."""
        return Epochs(tuple(entry for entry in self.entries if entry[1] < end))

    def truncate_from_start(self, start: Offset) -> "Epochs":
        """Return this history without the epochs that ended by ``start``. The epoch that spans
        ``start`` begins there."""
        earlier = [epoch for epoch, begin in self.entries if begin <= start]
        later = tuple(entry for entry in self.entries if entry[1] > start)
        return Epochs(((earlier[-1], start), *later)) if earlier else self

    def end_offset_for(self, epoch: LeaderEpoch, log_end: Offset) -> Entry:
        """Return the largest known epoch that is not above ``epoch``, and the offset at which it
        ended.

        The result is (-1, -1) when ``epoch`` is above all known epochs. When all known epochs are
        above it, its records are gone from the start of the log. The result is then (``epoch``,
        start of the first known epoch), so that a follower continues from there.
        """
        if epoch == NO_EPOCH or epoch > self.latest:
            return NO_EPOCH, UNKNOWN_OFFSET
        if epoch == self.latest:
            return epoch, log_end
        end = next(start for known, start in self.entries if known > epoch)
        floor = [known for known, _ in self.entries if known <= epoch]
        return (floor[-1] if floor else epoch), end


# --- the log --------------------------------------------------------------------------------------


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
