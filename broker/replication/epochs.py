"""The start of each leader epoch in the log (KIP-101): the content of ``leader-epoch-checkpoint``.

Entries are (epoch, start offset), both strictly increasing. An epoch ends where the next one
starts, and the latest epoch ends at the log's end. A leader enters its epoch before its first
append. The latest entry of a leader is therefore always its own epoch, even if the epoch holds no
record yet.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from ackproof.broker.types import NO_EPOCH, LeaderEpoch, Offset

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
