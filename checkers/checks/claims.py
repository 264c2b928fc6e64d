"""Claims about offsets, and those of them that the final log contradicts.

A *claim* says that an offset holds a certain record. It is made by a consumer that read the record
there, by the record's ack, or by the final log. Claims of the final log, and claims that agree with
it, are not kept, so that only a few remain. A claim of a consumer is kept in two cases:

- The final log does not have the record at that offset.
- The final log has it there, but another record was acked at that offset. A consumer did read it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.reads import ConsumerReads, ReadRecords
from ackproof.checkers.index.partition_history import PartitionHistory

ACK = -1
"""Stands in place of a consumer's number for claims by acks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Claims in the order of offset and record. Each claimant makes a claim once.

    Attributes:
        offset, record: The claim; ``record`` as in :class:`checkers.checks.reads.ConsumerReads`.
        who: The number of the consumer, or ACK for the record's own ack.
        since: The earliest time at which the claim can have been true, in nanoseconds: that of the
            send or of the ack.
        until: The time of the last read, or of the ack.
        epoch: The leader epoch in which the record was appended, as the consumer received it; NONE
            for an ack, which has none.
        stands: Whether the final log has that record at that offset.
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
        """Return the claims at these places."""
        return Claims(**{name: getattr(self, name)[places] for name in self.__slots__})


def made_by(who: int, seen: ConsumerReads, records: ReadRecords, contested: Claims) -> Claims:
    """Return the claims of a consumer. ``contested`` has the acks that the final log
    contradicts."""
    kept = (seen.position == NONE) | np.isin(seen.offset, contested.offset)
    rows = np.flatnonzero(kept)
    order = rows[np.lexsort((seen.time[rows], seen.record[rows], seen.offset[rows]))]
    # If several rows make the same claim, the last read is kept.
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
    """Return the acks with an offset at which the final log does not have the record."""
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
    """Return several sets of claims as one."""
    joined = {
        name: np.concatenate([getattr(some, name) for some in claims]) for name in Claims.__slots__
    }
    every = Claims(**joined)
    return every.at(np.lexsort((every.who, every.record, every.offset)))


def vanished(claims: Claims, history: PartitionHistory) -> Claims:
    """Return the claims of consumers for offsets at which the final log has no record. Records
    below the start of the final log may have been deleted. In a compacted log a record goes when a
    later one of its key is there, if its transaction was aborted, or if it is a tombstone of
    sufficient age; a record whose key is unknown is left out. What a reader of committed records
    was shown was committed. Needs a complete read."""
    if not history.read.complete:
        return claims.at(np.empty(0, dtype=np.int64))
    start = history.read.start or 0
    gone = (claims.who != ACK) & ~_held(claims.offset, history) & (claims.offset >= start)
    gone &= ~_unread(claims, history)
    if history.keys is not None:
        known = (claims.record != NONE) & (claims.record < len(history.keys))
        record = np.where(known, claims.record, NONE)
        known &= np.append(history.keys, NONE)[record] != NONE
        gone &= known & ~history.may_be_removed(record, claims.offset)
        if history.visible is None:
            gone &= ~history.is_undecided(record)
    return claims.at(np.flatnonzero(gone))


def _unread(claims: Claims, history: PartitionHistory) -> Array:
    """Return whether each claim is for an offset beyond the end of the final read and was made
    after that read had begun. Such a record may have been appended meanwhile."""
    end = history.read.end
    if end is None:
        return np.zeros(len(claims), dtype=bool)
    unread: Array = (claims.offset >= end) & ~history.read.covers(claims.until)
    return unread


def overruled(claims: Claims, history: PartitionHistory) -> Claims:
    """Return the overruled claims. They are for offsets with claims for more than one record, at
    least one of them by a consumer, and they are not for the record that prevails. The final log's
    record prevails; if it has none, the record that was claimed last does."""
    _, place = np.unique(claims.offset, return_inverse=True)
    count = int(place.max(initial=NONE)) + 1
    held = _held(claims.offset, history)
    shown = np.zeros(count, dtype=bool)
    shown[place[claims.who != ACK]] = True
    standing = claims.stands | (~held & _claimed_last(claims, place, count))
    return claims.at(np.flatnonzero(shown[place] & ~standing))


def _claimed_last(claims: Claims, place: Array, count: int) -> Array:
    """Return whether each claim is for the record that was claimed last for its offset."""
    order = np.lexsort((claims.until, place))
    last = np.full(count, NONE, dtype=np.int64)
    last[place[order]] = claims.record[order]
    same: Array = claims.record == last[place]
    return same


def _held(offsets: Array, history: PartitionHistory) -> Array:
    """Return whether the final log has any record at each of these offsets."""
    at = np.searchsorted(history.log_offset, offsets, side="left")
    found = np.append(history.log_offset, NONE)[at] == offsets
    held: Array = found
    return held
