"""Attribution of lost records: the leader epoch in which each was acked, and the later leader that
came without it.

An ack has an offset and a time but no epoch. An epoch is possible under the following conditions:

- The ack did not come before the election of its leader, by the strict bound of the observation.
- Its leader had not certainly learned of another one (``deposed``). A leader that acks after that
  is broken; such an epoch is only used if no other one explains the loss.
- The offset is at or above the log end with which its leader began. If the same broker also led the
  next epoch, the offset is below the log end with which that epoch began, because a leader's log
  does not shrink while it leads. A fault that took data from its disk in between is an exception.
  Without a known offset, the ack came before that epoch was observed.
- Its leader is not known never to have learned that it leads (``unaware``). Such an epoch explains
  no loss either, as if it had had no leader.
- The record right below the offset may have been sent before by the same producer, acked there
  before, and be in the log. Then the epoch is not earlier than that record's. Otherwise the log of
  an earlier epoch's leader would have had to grow in step without that record.

Possible epochs that explain the loss are preferred: a later leader began at this offset or below,
and so without the record. For example, broker 1 leads epoch 3 from offset 100. Broker 2 leads epoch
4 from offset 150 and receives requests at once, while other clients still reach broker 1. Both may
have acked offset 160. The log has the record of epoch 4, so the lost record was acked in epoch 3.

In an unbroken run each record of a producer is one offset after its previous one. Such a run
belongs to one leader, because two logs would otherwise have had to grow in step. The attribution of
one record of a run therefore holds for the whole run.

If several epochs remain, it is unknown which of them it was, and all of them are reported.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.root_cause.partition_context import ContextFault, LeadershipTerm

LOG_END_UNKNOWN = -2
"""A later leader may have come without the record, but its log end offset is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecords:
    """Lost records.

    Attributes:
        producer, sequence: The identity of each record.
        offset: The offset of the ack, or NONE if it has none (acks=0).
        time: The time of the ack.
        stands: The epoch of the final log's record at that offset, or NONE if there is none.
        epoch: The epoch in which the record was appended, or NONE if unknown, as for acks.
        behind: The epoch of the record of the same producer that was acked right below it before it
            and is in the log, or NONE if there is none.
    """

    producer: Array
    sequence: Array
    offset: Array
    time: Array
    stands: Array
    epoch: Array | None = None
    behind: Array | None = None

    def at(self, places: Array) -> "LostRecords":
        """Return the records at these places."""
        return LostRecords(
            producer=self.producer[places],
            sequence=self.sequence[places],
            offset=self.offset[places],
            time=self.time[places],
            stands=self.stands[places],
            epoch=None if self.epoch is None else self.epoch[places],
            behind=None if self.behind is None else self.behind[places],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrativeGroup:
    """Records with the same narrative.

    Attributes:
        records: Their places in :class:`LostRecords`.
        first, last: The first and the last epoch that may have acked them, as places in the
            leadership terms, or NONE.
        after: The next leader that came without them, as a place in the terms; NONE if none did, or
            UNTOLD.
    """

    records: Array
    first: int
    last: int
    after: int


@dataclass(slots=True)
class _Best:
    """For each record, the rank of the best leadership term so far, the terms with that rank, and
    the term after them."""

    rank: Array
    first: Array
    last: Array
    after: Array

    def offer(self, number: int, rank: Array, after: Array) -> None:
        """Compare another leadership term with the best ones. Terms are offered from the last to
        the first."""
        better = rank > self.rank
        same = (rank == self.rank) & (rank > 0)
        self.rank[better] = rank[better]
        self.last[better] = number
        self.first[better | same] = number
        # The term after the earliest of them counts, because it is the first without the record.
        self.after[better | same] = after[better | same]


def groups(
    lost: LostRecords, leadership_terms: Sequence[LeadershipTerm], faults: Sequence[ContextFault]
) -> list[NarrativeGroup]:
    """Return the records by narrative, in the order of their first acks."""
    best = _attributed(lost, leadership_terms, faults, _anywhere(lost))
    if len(lost.time) > 1:
        best = _attributed(lost, leadership_terms, faults, _in_runs(lost, best))
    if not len(lost.time):
        return []
    # The three numbers, each at least UNTOLD, are combined into one.
    base = len(leadership_terms) - LOG_END_UNKNOWN
    keys = ((best.first - LOG_END_UNKNOWN) * base + (best.last - LOG_END_UNKNOWN)) * base + (
        best.after - LOG_END_UNKNOWN
    )
    _, begins, places = np.unique(keys, return_index=True, return_inverse=True)
    unsorted = (
        NarrativeGroup(
            records=np.flatnonzero(places.ravel() == number),
            first=int(best.first[begin]),
            last=int(best.last[begin]),
            after=int(best.after[begin]),
        )
        for number, begin in enumerate(begins.tolist())
    )
    return sorted(unsorted, key=lambda group: int(lost.time[group.records].min()))


def _anywhere(lost: LostRecords) -> tuple[Array, Array]:
    return np.zeros(len(lost.time), np.int64), np.full(len(lost.time), np.iinfo(np.int64).max)


def _in_runs(lost: LostRecords, best: _Best) -> tuple[Array, Array]:
    """Return the first and the last leadership term in which each record may have been acked, as
    far as its whole run shows."""
    least, most = _anywhere(lost)
    order = np.lexsort((lost.sequence, lost.producer))
    offset, producer = lost.offset[order], lost.producer[order]
    goes_on = (np.diff(offset) == 1) & (np.diff(producer) == 0) & (offset[:-1] != NONE)
    for run in np.split(order, np.flatnonzero(~goes_on) + 1):
        if len(run) > 1 and (best.first[run] >= 0).all():
            first, last = best.first[run].max(), best.last[run].min()
            if first <= last:
                least[run], most[run] = first, last
    return least, most


def _attributed(
    lost: LostRecords,
    leadership_terms: Sequence[LeadershipTerm],
    faults: Sequence[ContextFault],
    within: tuple[Array, Array],
) -> _Best:
    rank, first, last, after = np.full((4, len(lost.time)), NONE, dtype=np.int64)
    best = _Best(rank=np.maximum(rank, 0), first=first, last=last, after=after)
    for number, after in _followed(lost, leadership_terms, faults):
        term = leadership_terms[number]
        possible = (within[0] <= number) & (number <= within[1])
        if lost.epoch is not None:
            possible &= (lost.epoch == NONE) | (lost.epoch == term.epoch)
        if lost.behind is not None:
            possible &= lost.behind <= term.epoch
        possible &= lost.time >= term.elected_after
        possible &= (lost.offset == NONE) | (lost.offset >= term.log_end)
        possible &= ~_led_on(lost, leadership_terms, number, faults)
        in_time = lost.time <= term.deposed
        holds_another = (lost.offset != NONE) & (lost.stands == term.epoch)
        explained = after >= 0
        rank = np.where(in_time & ~holds_another, 3, np.where(explained, 2, 1))
        rank = np.where(in_time & (after == LOG_END_UNKNOWN), 4, rank)
        rank = np.where(in_time & explained, 5, rank)
        best.offer(number, np.where(possible, rank, 0), after)
    return best


def _followed(
    lost: LostRecords, leadership_terms: Sequence[LeadershipTerm], faults: Sequence[ContextFault]
) -> Iterator[tuple[int, Array]]:
    """Yield each term with a leader, the last one first, with the next term that came without each
    record."""
    after = np.full(len(lost.time), NONE, dtype=np.int64)
    nameless = lost.offset == NONE
    next_ = len(leadership_terms)
    for number in range(len(leadership_terms) - 1, -1, -1):
        if leadership_terms[number].unaware:
            continue
        if next_ < len(leadership_terms):
            later = leadership_terms[next_]
            # If another broker may have been elected in between, others may have followed it,
            # including the former leader.
            same = next_ == number + 1 and later.leader == leadership_terms[number].leader
            if later.log_end >= 0:
                after = np.where(~nameless & (lost.offset >= later.log_end), next_, after)
            elif not same or _disk_taken(leadership_terms, number, faults):
                after = np.where(nameless, after, LOG_END_UNKNOWN)
            if not same:
                # Without an offset the place of the record is unknown. A record that was acked
                # shortly before its leader failed may have been lost with it; one that was acked
                # long before was not.
                failing = leadership_terms[number].failing
                at_risk = (failing >= 0) & (lost.time >= failing)
                after = np.where(nameless, np.where(at_risk, next_, NONE), after)
        yield number, after
        next_ = number


def _led_on(
    lost: LostRecords,
    leadership_terms: Sequence[LeadershipTerm],
    number: int,
    faults: Sequence[ContextFault],
) -> Array:
    """Return which records were acked in the next epoch if they were acked in one of the two,
    because both have the same leader."""
    nothing = np.zeros(len(lost.time), dtype=bool)
    if number + 1 == len(leadership_terms):
        return nothing
    later = leadership_terms[number + 1]
    if later.leader != leadership_terms[number].leader or later.unaware:
        return nothing
    seen: Array = (lost.time >= later.seen) & (later.seen >= 0)
    if later.log_end < 0:
        return seen
    above: Array = lost.offset >= later.log_end
    above = above & seen if _disk_taken(leadership_terms, number, faults) else above
    return np.where(lost.offset == NONE, seen, above)


def _disk_taken(
    leadership_terms: Sequence[LeadershipTerm], number: int, faults: Sequence[ContextFault]
) -> bool:
    """Return whether data may have been lost from the disk of a term's leader before the next
    term."""
    term, later = leadership_terms[number], leadership_terms[number + 1]
    return any(
        fault.took >= term.seen and fault.start <= later.seen and fault.affected(term.leader)
        for fault in faults
        if fault.took >= 0
    )
