"""When fewer than min.insync.replicas were in sync, and whoever led knew it.

It is known in three ways:

- By time, whatever the epoch: from when all must have heard of an ISR until the lag before another
  one was seen. Where faults come close together nobody must have heard of anything for long.
- By epoch, if one began with such an ISR: whoever appends in it has been told with which ISR it
  leads, however late that was. No fault is in the way, and no clock at its beginning.
- By leader, if such an ISR came within an epoch: it wrote it itself, or has it from those who keep
  the metadata. What befalls other brokers, such as the one that fell out, does not keep it from
  knowing.

An ISR that grew and shrank again before it was read shows in the version: what was seen before and
after is not taken for one time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ackproof.checkers.cluster.faults import FOREVER, FaultFacts
from ackproof.checkers.cluster.observed import OBSERVATION_LAG_NS, Span, State, adjacent
from ackproof.checkers.timeline.known import Thin
from ackproof.checkers.timeline.seen import Seen
from ackproof.history.cell import Cell


def thin(cell: Cell, seen: Seen) -> list[Thin]:
    """Of one partition; nothing where the clients' clocks are not known, or a change of the ISR may
    have gone unseen."""
    if seen.around.clock_bound_ns is None or not seen.versioned:
        return []
    found = [*_by_time(cell, seen), *_by_epoch(cell, seen)]
    return [one for one in found if one.start < one.end]


def _words(isr: Sequence[int], needed: int) -> str:
    return f"{list(isr)} was in sync, min.insync.replicas is {needed}"


# --- by time ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What was in sync from then on, None: nobody knows. ``next``: whether nothing can have been
    between it and the look before."""

    time: int
    isr: tuple[int, ...] | None
    next: bool


def _by_time(cell: Cell, seen: Seen) -> Iterator[Thin]:
    # While its topic's min.insync.replicas is being set any value may be in force.
    needed = min([cell.min_insync_replicas, *(value for _, value in _set_to(seen))])
    since, words = None, ""
    for look in _looks(seen):
        is_thin = look.isr is not None and len(look.isr) < needed
        if since is not None and not (is_thin and look.next):
            end = seen.not_before(Span(look.time, look.time + 1))
            yield Thin(start=since, end=end, epoch=None, isr=words)
            since = None
        if is_thin:
            words = _words(look.isr or (), needed)
            since = seen.settled(look.time) if since is None else since
    if since is not None:
        yield Thin(start=since, end=FOREVER, epoch=None, isr=words)


def _looks(seen: Seen) -> Iterator[_Look]:
    """The states that are known, in the order of time, and the holes between them."""
    states, holes = seen.around.observed.states, seen.holes
    found = [
        _Look(time=state.time, isr=state.isr, next=before is not None and adjacent(before, state))
        for before, state in pairwise((None, *states))
        if state is not None and not any(hole.delays(state.time) for hole in holes)
    ]
    for hole in holes:
        found.append(_Look(time=hole.start, isr=None, next=False))
        back = hole.end + OBSERVATION_LAG_NS
        in_force = [state for state in states if state.time <= back]
        if hole.end < FOREVER and in_force:
            found.append(_Look(time=back, isr=in_force[-1].isr, next=False))
    return iter(sorted(found, key=lambda look: look.time))


# --- by epoch, by leader -------------------------------------------------------------------------


def _by_epoch(cell: Cell, seen: Seen) -> Iterator[Thin]:
    """Epoch 5 begins with [1], and 2 comes into the ISR a minute later. What was appended in epoch
    5, and acked before that, was acked by 1 alone, though 1 had been cut off all the time: before
    it heard of epoch 5 it appended nothing in it."""
    states = seen.around.observed.states
    for place, (before, after) in enumerate(pairwise(states), start=1):
        if not (before.by_controller and after.by_controller):  # of two znodes nobody knows
            continue
        known = _known(seen, before, after)
        for span, needed in _needed(cell, seen, after.leader):
            until = _until(seen, states[place:], needed)
            yield Thin(
                start=max(span.start, known),
                end=min(span.end, until),
                epoch=after.leader_epoch,
                isr=_words(after.isr, needed),
            )


def _known(seen: Seen, before: State, after: State) -> int:
    """From when on whoever appends in the epoch of a state knows its ISR; of a state that began
    another epoch, and may not have been its first, that is left open.

    Epoch 5 with [1], which was seen, may have begun with [1, 2], unless that was the state right
    after the last one of epoch 4.
    """
    if after.leader_epoch == before.leader_epoch:
        return seen.heard(after.time, after.leader)
    begun = after.leader_epoch > before.leader_epoch and adjacent(before, after)
    return 0 if begun else FOREVER


def _until(seen: Seen, states: Sequence[State], needed: int) -> int:
    """Until when fewer were in sync, from the first of these states on, and nothing went unseen."""
    if len(states[0].isr) >= needed:
        return 0
    for before, after in pairwise(states):
        if len(after.isr) >= needed or not adjacent(before, after):
            return seen.not_before(Span(before.time, after.time + 1))
    return seen.watched_until()


def _needed(cell: Cell, seen: Seen, leader: int) -> Iterator[tuple[Span, int]]:
    """What min.insync.replicas was at least, by what this leader knew; of all time."""
    orders = [_Order.of(fault, value, seen, leader) for fault, value in _set_to(seen)]
    edges = {0, FOREVER}.union(*(order.edges for order in orders))
    for start, end in pairwise(sorted(edges)):
        span = Span(start, end)
        on = [order for order in orders if order.possible.meets(span)]
        values = {order.value for order in on}
        if len(on) != 1 or not on[0].certain.meets(span):
            values.add(cell.min_insync_replicas)
        yield span, min(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """A value that was set: when it may have been in force, and when it was for certain."""

    value: int
    possible: Span
    certain: Span

    @classmethod
    def of(cls, fault: FaultFacts, value: int, seen: Seen, leader: int) -> "_Order":
        bound = seen.around.clock_bound_ns or 0
        begun = max(0, fault.start - bound)
        until = FOREVER if fault.healed is None else seen.heard(fault.healed, leader)
        since = FOREVER if fault.verified is None else seen.heard(fault.verified, leader)
        back = begun if fault.heal is None else fault.heal - bound
        return cls(
            value=value,
            possible=Span(begun, until),
            certain=Span(since, max(since, back)),
        )

    @property
    def edges(self) -> set[int]:
        return {self.possible.start, self.possible.end, self.certain.start, self.certain.end}


def _set_to(seen: Seen) -> list[tuple[FaultFacts, int]]:
    """The faults that set another number, and the number."""
    return [(one, one.min_isr) for one in seen.faults if one.min_isr is not None and one.begun]
