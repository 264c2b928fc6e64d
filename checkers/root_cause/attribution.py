"""In which leader epoch each lost record was acked, and which later leader came without it.

An ack names an offset and has a time, and no epoch. An epoch is possible where

- the ack did not come before its leader was elected, by the strict bound of the observation;
- its leader had heard of no other one for certain (``deposed``). Who acks on after that is broken;
  such an epoch is kept for where no other one explains anything;
- the offset lies where its leader's log ended when it began, or above. And, where the same broker
  went on to lead in the next epoch, below where that one began: a leader's log does not shrink
  while it leads. Unless a fault took data from its disk in between. Where no offset tells, the ack
  came before that epoch was seen.

- its leader is not known never to have heard that it leads (``unheard``): as if nobody had led in
  it, it explains no loss either;
- what stands right below the offset was sent by the same producer before it, and acked there before
  it, in this epoch or an earlier one. The log of an earlier epoch's leader would have to have grown
  in step without it.

Of the possible ones those are preferred that explain the loss: a later leader began at this offset
or below, and so without the record. E.g. broker 1 leads epoch 3 from offset 100, broker 2 leads
epoch 4 from offset 150 and is asked by clients at once, while others still reach broker 1: both may
have acked offset 160. Of epoch 4 it stands in the log; the one that is lost was acked in epoch 3.

And an unbroken run, in which each record of a producer stands one offset behind its last one, is
one leader's: two logs would have to have grown in step. What is known of one of a run is known of
all of it.

Where several are left nobody knows which of them it was, and all of them are told."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.root_cause.partition_context import FaultSeen, Reign

UNTOLD = -2
"""A later leader may have come without it: where its log ended is not told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """Lost records. ``producer``, ``sequence``: whose they are; ``offset``: NONE where the client
    was told none (acks=0); ``time``: of the acks; ``stands``: the epoch of what the final log holds
    at that offset, NONE for nothing; ``epoch``: in which each was appended, NONE where nobody was
    told, as with acks; ``behind``: the epoch of the record of the same producer that was acked
    right below it before it, and stands there, NONE where there is none."""

    producer: Array
    sequence: Array
    offset: Array
    time: Array
    stands: Array
    epoch: Array | None = None
    behind: Array | None = None

    def at(self, places: Array) -> "Lost":
        """Some of them."""
        return Lost(
            producer=self.producer[places],
            sequence=self.sequence[places],
            offset=self.offset[places],
            time=self.time[places],
            stands=self.stands[places],
            epoch=None if self.epoch is None else self.epoch[places],
            behind=None if self.behind is None else self.behind[places],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Records of the same story. ``records``: places in :class:`Lost`; ``first``, ``last``: the
    first and the last epoch that may have acked them, as places in the reigns, NONE where none may
    have; ``after``: the next leader that came without them, NONE where none did, or UNTOLD."""

    records: Array
    first: int
    last: int
    after: int


@dataclass(slots=True)
class _Best:
    """By record: how well the best reign so far explains it, which ones do, and who came after."""

    rank: Array
    first: Array
    last: Array
    after: Array

    def offer(self, number: int, rank: Array, after: Array) -> None:
        """Another reign; earlier ones are offered later."""
        better = rank > self.rank
        same = (rank == self.rank) & (rank > 0)
        self.rank[better] = rank[better]
        self.last[better] = number
        self.first[better | same] = number
        # Who came after the earliest of them: it is the first that was without the record.
        self.after[better | same] = after[better | same]


def groups(lost: Lost, reigns: Sequence[Reign], faults: Sequence[FaultSeen]) -> list[Group]:
    """The records by story, in the order of their first acks."""
    best = _attributed(lost, reigns, faults, _anywhere(lost))
    if len(lost.time) > 1:
        best = _attributed(lost, reigns, faults, _in_runs(lost, best))
    if not len(lost.time):
        return []
    # One number for the three, each of them UNTOLD at the least.
    base = len(reigns) - UNTOLD
    keys = ((best.first - UNTOLD) * base + (best.last - UNTOLD)) * base + (best.after - UNTOLD)
    _, begins, places = np.unique(keys, return_index=True, return_inverse=True)
    made = (
        Group(
            records=np.flatnonzero(places.ravel() == number),
            first=int(best.first[begin]),
            last=int(best.last[begin]),
            after=int(best.after[begin]),
        )
        for number, begin in enumerate(begins.tolist())
    )
    return sorted(made, key=lambda group: int(lost.time[group.records].min()))


def _anywhere(lost: Lost) -> tuple[Array, Array]:
    return np.zeros(len(lost.time), np.int64), np.full(len(lost.time), np.iinfo(np.int64).max)


def _in_runs(lost: Lost, best: _Best) -> tuple[Array, Array]:
    """From which to which reign each record was acked, by what is known of its whole run."""
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
    lost: Lost,
    reigns: Sequence[Reign],
    faults: Sequence[FaultSeen],
    within: tuple[Array, Array],
) -> _Best:
    rank, first, last, after = np.full((4, len(lost.time)), NONE, dtype=np.int64)
    best = _Best(rank=np.maximum(rank, 0), first=first, last=last, after=after)
    for number, after in _followed(lost, reigns, faults):
        reign = reigns[number]
        possible = (within[0] <= number) & (number <= within[1])
        if lost.epoch is not None:
            possible &= (lost.epoch == NONE) | (lost.epoch == reign.epoch)
        if lost.behind is not None:
            possible &= lost.behind <= reign.epoch
        possible &= lost.time >= reign.elected_after
        possible &= (lost.offset == NONE) | (lost.offset >= reign.log_end)
        possible &= ~_led_on(lost, reigns, number, faults)
        in_time = lost.time <= reign.deposed
        holds_another = (lost.offset != NONE) & (lost.stands == reign.epoch)
        explained = after >= 0
        rank = np.where(in_time & ~holds_another, 3, np.where(explained, 2, 1))
        rank = np.where(in_time & (after == UNTOLD), 4, rank)
        rank = np.where(in_time & explained, 5, rank)
        best.offer(number, np.where(possible, rank, 0), after)
    return best


def _followed(
    lost: Lost, reigns: Sequence[Reign], faults: Sequence[FaultSeen]
) -> Iterator[tuple[int, Array]]:
    """Each reign in which somebody led, the last one first, with the next one that came without
    each record."""
    after = np.full(len(lost.time), NONE, dtype=np.int64)
    nameless = lost.offset == NONE
    next_ = len(reigns)
    for number in range(len(reigns) - 1, -1, -1):
        if reigns[number].unheard:
            continue
        if next_ < len(reigns):
            later = reigns[next_]
            # Whoever was elected in between may have been followed, by whoever led before, too.
            same = next_ == number + 1 and later.leader == reigns[number].leader
            if later.log_end >= 0:
                after = np.where(~nameless & (lost.offset >= later.log_end), next_, after)
            elif not same or _disk_taken(reigns, number, faults):
                after = np.where(nameless, after, UNTOLD)
            if not same:
                # No offset tells where it stood: what was acked when its leader was about to fall
                # may have gone with it, what was acked long before has not.
                failing = reigns[number].failing
                at_risk = (failing >= 0) & (lost.time >= failing)
                after = np.where(nameless, np.where(at_risk, next_, NONE), after)
        yield number, after
        next_ = number


def _led_on(lost: Lost, reigns: Sequence[Reign], number: int, faults: Sequence[FaultSeen]) -> Array:
    """Which records were acked in the next epoch if in one of the two, whose leader is the same."""
    nothing = np.zeros(len(lost.time), dtype=bool)
    if number + 1 == len(reigns):
        return nothing
    later = reigns[number + 1]
    if later.leader != reigns[number].leader or later.unheard:
        return nothing
    seen: Array = (lost.time >= later.seen) & (later.seen >= 0)
    if later.log_end < 0:
        return seen
    above: Array = lost.offset >= later.log_end
    above = above & seen if _disk_taken(reigns, number, faults) else above
    return np.where(lost.offset == NONE, seen, above)


def _disk_taken(reigns: Sequence[Reign], number: int, faults: Sequence[FaultSeen]) -> bool:
    """Whether data may have gone from the disk of a reign's leader before the next one."""
    reign, later = reigns[number], reigns[number + 1]
    return any(
        fault.took >= reign.seen and fault.start <= later.seen and fault.befell(reign.leader)
        for fault in faults
        if fault.took >= 0
    )
