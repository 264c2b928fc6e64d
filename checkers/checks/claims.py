"""What consumers were shown that does not stand in the final log where it was shown.

A *claim* is that an offset holds a record: by whoever was shown it there, by its ack, by the final
log. Claims by the final log, and by those who agree with it, are not kept: what disagrees is few.
What is kept of a consumer's is

- what does not stand in the final log at that offset,
- what does, where another record was acked at that offset: somebody was shown it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.reads import Records, Seen
from ackproof.checkers.index.partition_history import PartitionHistory

ACK = -1
"""In place of a consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """In the order of offset and record; each once for each who makes it.

    Attributes:
        offset, record: What is claimed; ``record`` as in :class:`checkers.checks.reads.Seen`.
        who: Number of the consumer; ACK for the record's own ack.
        since: What is claimed was the case then at the earliest, in nanoseconds: when the record
            was sent, or acked.
        until: When it was last shown, or acked.
        epoch: In which leader epoch it was appended, as who was shown it was told; NONE of an ack,
            which does not tell.
        stands: Whether the final log holds that record at that offset.
    """

    offset: Array
    record: Array
    who: Array
    since: Array
    until: Array
    epoch: Array
    stands: Array

    def __len__(self) -> int:
        return len(self.offset)

    def at(self, places: Array) -> "Claims":
        """Those of them."""
        return Claims(**{name: getattr(self, name)[places] for name in self.__slots__})


def made_by(who: int, seen: Seen, records: Records, contested: Claims) -> Claims:
    """What a consumer claims. ``contested``: acks that the final log disagrees with."""
    kept = (seen.position == NONE) | np.isin(seen.offset, contested.offset)
    rows = np.flatnonzero(kept)
    order = rows[np.lexsort((seen.time[rows], seen.record[rows], seen.offset[rows]))]
    # Of several rows with one claim the last one shown.
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (np.diff(seen.offset[order]) != 0) | (np.diff(seen.record[order]) != 0)
    chosen = order[last]
    record = seen.record[chosen]
    return Claims(
        offset=seen.offset[chosen],
        record=record,
        who=np.full(len(chosen), who, dtype=np.int64),
        since=records.sent(record),
        until=seen.time[chosen],
        epoch=seen.epoch[chosen],
        stands=seen.position[chosen] != NONE,
    )


def contested_acks(history: PartitionHistory) -> Claims:
    """The acks that tell an offset at which the final log does not hold the record."""
    acked = history.named_acks
    contested = acked[history.at_acked_offset[acked] == NONE]
    contested = contested[np.argsort(history.acked_offset[contested], kind="stable")]
    return Claims(
        offset=history.acked_offset[contested],
        record=contested,
        who=np.full(len(contested), ACK, dtype=np.int64),
        since=history.time[contested],
        until=history.time[contested],
        epoch=np.full(len(contested), NONE, dtype=np.int64),
        stands=np.zeros(len(contested), dtype=bool),
    )


def together(claims: Sequence[Claims]) -> Claims:
    """Several, in their order."""
    joined = {
        name: np.concatenate([getattr(some, name) for some in claims]) for name in Claims.__slots__
    }
    every = Claims(**joined)
    return every.at(np.lexsort((every.who, every.record, every.offset)))


def vanished(claims: Claims, history: PartitionHistory, compacted: bool) -> Claims:
    """Of what consumers were shown, that of which the final log holds nothing at its offset. What
    stood below the start of the final log may have been deleted, and what stood in a compacted log
    may have been compacted away. Needs a complete read."""
    if not history.read.complete or compacted:
        return claims.at(np.empty(0, dtype=np.int64))
    start = history.read.start or 0
    gone = (claims.who != ACK) & ~_held(claims.offset, history) & (claims.offset >= start)
    gone &= ~_unread(claims, history)
    return claims.at(np.flatnonzero(gone))


def _unread(claims: Claims, history: PartitionHistory) -> Array:
    """Return which claims are about what lies behind the end of the final read and was shown after
    it had begun: that may have been appended meanwhile."""
    end = history.read.end
    if end is None:
        return np.zeros(len(claims), dtype=bool)
    unread: Array = (claims.offset >= end) & ~history.read.covers(claims.until)
    return unread


def overruled(claims: Claims, history: PartitionHistory) -> Claims:
    """Of claims on offsets that more than one record is claimed for, and at least one by somebody
    who was shown it: all but those for the record that stands there in the end. That is the final
    log's; where it holds none, the one that was claimed last."""
    _, place = np.unique(claims.offset, return_inverse=True)
    count = int(place.max(initial=NONE)) + 1
    held = _held(claims.offset, history)
    shown = np.zeros(count, dtype=bool)
    shown[place[claims.who != ACK]] = True
    standing = claims.stands | (~held & _claimed_last(claims, place, count))
    return claims.at(np.flatnonzero(shown[place] & ~standing))


def _claimed_last(claims: Claims, place: Array, count: int) -> Array:
    """Whether each claim is for the record that was the last to be claimed for its offset."""
    order = np.lexsort((claims.until, place))
    last = np.full(count, NONE, dtype=np.int64)
    last[place[order]] = claims.record[order]
    same: Array = claims.record == last[place]
    return same


def _held(offsets: Array, history: PartitionHistory) -> Array:
    """Whether the final log holds anything at these offsets."""
    at = np.searchsorted(history.log_offset, offsets, side="left")
    found = np.append(history.log_offset, NONE)[at] == offsets
    held: Array = found
    return held
