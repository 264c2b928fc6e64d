"""The observed timeline of one partition: its leaders, leader epochs and ISRs, from two sources.

The sources are the observer's view of ZooKeeper (``checkers.context.observed``) and the brokers'
own state-change logs (:mod:`checkers.context.broker_logs`). The conclusions that are certain are
computed for each partition and passed to the rules.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ackproof.checkers.context.broker_logs import Role
from ackproof.checkers.context.faults import FOREVER, KEEPERS, FaultFacts, Partition
from ackproof.checkers.context.observed import (
    ALWAYS,
    OBSERVATION_LAG_NS,
    UNKNOWN,
    Observed,
    PartitionState,
    Span,
    adjacent,
)
from ackproof.checkers.context.surroundings import PartitionSurroundings
from ackproof.checkers.context.validity import data_loss_span
from ackproof.history.cell import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAnomaly:
    """An anomaly that follows from the observation alone. ``time`` is when it was observed, by the
    harness's clock, or -1 if it comes from a broker's log, whose clock is unknown."""

    anomaly: str
    time: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderMinIsr:
    """A period in which the ISR, as known to the leader, was smaller than min.insync.replicas.

    Attributes:
        start, end: The bounds of the period.
        epoch: The epoch of the leader concerned, or None for any leader.
        isr: A description of the ISR.
    """

    start: int
    end: int
    epoch: int | None
    isr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimeline:
    """The timeline of one partition.

    Attributes:
        acks: The ``acks`` of its cell.
        clock_bound_ns: The clock bound of its clients, or None if it is unknown. Nothing is then
            concluded from times.
        disks_kept: Whether no fault took or changed data on brokers' disks.
        epochs: The leader epochs that were observed, ascending.
        elected_after: For each epoch, the time before which certainly no leader was elected in it
            or a later one.
        deposed: For each epoch, the time from which on its leader must have learned that another
            broker leads.
        log_ends: For each epoch, the log end offset with which its leader began, as that reported
            it; -1 if unknown.
        watched_until: The time until which certainly no leader was elected in a later epoch than
            the last.
        under_min_isr: The periods under min ISR.
        watched: Whether its states in ZooKeeper, with epochs, were observed until the end.
        versioned: Whether, in addition, an unobserved change of its ISR would show.
        in_broker_logs: Whether brokers' own logs mention it.
        told: The anomalies that do not depend on acks.
    """

    acks: str = ""
    clock_bound_ns: int | None = None
    disks_kept: bool = False
    epochs: Sequence[int] = ()
    elected_after: Sequence[int] = ()
    deposed: Sequence[int] = ()
    log_ends: Sequence[int] = ()
    watched_until: int = 0
    under_min_isr: Sequence[UnderMinIsr] = ()
    watched: bool = False
    versioned: bool = False
    in_broker_logs: bool = False
    told: Sequence[ObservedAnomaly] = ()

    @property
    def tells_of_acks(self) -> bool:
        """Whether its acks say something about the ISR (acks=all) at known times."""
        return self.acks == "all" and self.clock_bound_ns is not None


UNSEEN = PartitionTimeline()
"""The timeline of a partition of which nothing is known."""


# --- seen -----------------------------------------------------------------------------------------
#
# The observed states of a partition, with strict bounds on their times.
#
# A state may be observed up to :data:`checkers.context.observed.OBSERVATION_LAG_NS` late, and is
# not observed while the connection to ZooKeeper is broken. While a fault affects one of several
# ZooKeeper servers, the observer's server may be cut off from the others and return old states. An
# observed state therefore certainly existed by its time, but may have begun earlier. It lasted
# until one lag before the next state was observed, except for unobserved times in between.


_UNKNOWN_TIME = -1


@dataclass(kw_only=True)
class StrictStates:
    """The states of a partition, with strict bounds on the clients' clock."""

    around: PartitionSurroundings
    faults: tuple[FaultFacts, ...]
    ensemble: bool

    @cached_property
    def holes(self) -> list[Span]:
        """The times in which the partition was not observed, or not reliably, without overlaps."""
        spans = [*self.around.observed.holes, *map(self._reach, self._on_zookeeper())]
        merged: list[Span] = []
        for span in sorted(spans, key=lambda span: span.start):
            if merged and span.start <= merged[-1].end:
                merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
            else:
                merged.append(span)
        return merged

    def elected_after(self, epoch: int) -> int:
        """Return the time before which certainly no leader was elected in this epoch or a later
        one."""
        before = _UNKNOWN_TIME
        for state in self.around.observed.states:
            if state.leader_epoch >= epoch:
                return 0 if before < 0 else self.not_before(Span(before, state.time + 1))
            before = state.time
        return self.watched_until()

    def watched_until(self) -> int:
        """Return the time until which no election went unobserved."""
        if not self.around.observed.states:
            return 0
        last = self.around.observed.states[-1].time
        return self.not_before(Span(last, FOREVER))

    def not_before(self, change: Span) -> int:
        """Return the time before which a change certainly had not happened. It was absent at the
        span's start and observed at its end."""
        first = min([change.end - 1, *(h.start for h in self.holes if h.meets(change))])
        if first >= FOREVER - 1:
            return FOREVER
        return max(0, first - OBSERVATION_LAG_NS - (self.around.clock_bound_ns or 0))

    def deposed(self, epoch: int) -> int:
        """Return the time from which on the leader of an epoch must have learned that another one
        leads."""
        leaders = self._leaders
        if epoch not in leaders:
            return FOREVER
        later = (
            self.heard(self._first_seen[other], leaders[epoch])
            for other, leader in leaders.items()
            if other > epoch and leader != leaders[epoch]
        )
        return min(later, default=FOREVER)

    @property
    def watched(self) -> bool:
        """Whether the states were observed until the end, with epochs."""
        observed = self.around.observed
        told = any(state.leader_epoch != UNKNOWN for state in observed.states)
        return told and not observed.observer_lost

    @property
    def versioned(self) -> bool:
        """Whether, in addition, an unobserved change of the ISR would show."""
        states = self.around.observed.states
        return self.watched and all(s.version is not None for s in states if s.leader_epoch >= 0)

    def settled(self, time: int) -> int:
        """Return the time by which every broker has learned of a change that was observed at
        ``time``."""
        return self.around.heard(time, None, self.faults)

    def heard(self, time: int, broker: int) -> int:
        """Return the time by which a broker has learned of a change that was observed at
        ``time``."""
        return self.around.heard(time, broker, self.faults)

    @cached_property
    def _leaders(self) -> Mapping[int, int]:
        """The broker that was last observed to lead in each epoch. If leaders coordinate
        themselves, epoch and leader are read one after the other, and the first observation may mix
        two moments."""
        states = self.around.observed.states
        return {state.leader_epoch: state.leader for state in states if state.leader >= 0}

    @cached_property
    def _first_seen(self) -> Mapping[int, int]:
        """The time at which the leader of each epoch was first observed."""
        first: dict[int, int] = {}
        for state in self.around.observed.states:
            if self._leaders.get(state.leader_epoch) == state.leader:
                first[state.leader_epoch] = min(state.time, first.get(state.leader_epoch, FOREVER))
        return first

    def _on_zookeeper(self) -> Iterator[FaultFacts]:
        for fault in self.around.faults if self.ensemble else ():
            servers = fault.servers
            if servers is None or any(map(self._keeps_metadata, servers)):
                yield fault

    def _keeps_metadata(self, server: str) -> bool:
        return server.startswith(KEEPERS) or server in self.around.combined

    def _reach(self, fault: FaultFacts) -> Span:
        return Span(fault.start, self.around.settled(fault.end))


# --- thin -----------------------------------------------------------------------------------------
#
# Periods under min ISR that the leader knew of.
#
# There are three ways to know that:
#
# - By time, for any epoch: from the time by which every broker must have learned of an ISR until
#   one lag before the next ISR was observed. If faults come close together, that time may not come
#   for long.
# - By epoch, if it began with such an ISR: a leader that appends in an epoch has been told the ISR
#   with which it leads, however late. This needs no bound for faults or clocks at its beginning.
# - By leader, if such an ISR came within an epoch: the leader wrote it itself, or has it from the
#   servers that keep the metadata. Faults on other brokers, such as the one that left the ISR, do
#   not keep it from knowing.
#
# An ISR that grew and shrank again before it was read shows in the version. The periods before and
# after are then not joined.


def under_min_isr(cell: Cell, seen: StrictStates) -> list[UnderMinIsr]:
    """Return the periods of one partition under min ISR. Return none if the clients' clocks are
    unknown or a change of the ISR may have gone unobserved."""
    if seen.around.clock_bound_ns is None or not seen.versioned:
        return []
    found = [*_by_time(cell, seen), *_by_epoch(cell, seen)]
    return [one for one in found if one.start < one.end]


def _words(isr: Sequence[int], needed: int) -> str:
    return f"{list(isr)} was in sync, min.insync.replicas is {needed}"


# --- by time ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The ISR from ``time`` on, or None if it is unknown. ``next`` says whether no other ISR can
    have been between it and the look before."""

    time: int
    isr: tuple[int, ...] | None
    next: bool


def _by_time(cell: Cell, seen: StrictStates) -> Iterator[UnderMinIsr]:
    # While its topic's min.insync.replicas is being changed, either value may be in force.
    needed = min([cell.min_insync_replicas, *(value for _, value in _set_to(seen))])
    since, words = None, ""
    for look in _looks(seen):
        is_thin = look.isr is not None and len(look.isr) < needed
        if since is not None and not (is_thin and look.next):
            end = seen.not_before(Span(look.time, look.time + 1))
            yield UnderMinIsr(start=since, end=end, epoch=None, isr=words)
            since = None
        if is_thin:
            words = _words(look.isr or (), needed)
            since = seen.settled(look.time) if since is None else since
    if since is not None:
        yield UnderMinIsr(start=since, end=FOREVER, epoch=None, isr=words)


def _looks(seen: StrictStates) -> Iterator[_Look]:
    """Return the known states in the order of time, and the holes between them."""
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


def _by_epoch(cell: Cell, seen: StrictStates) -> Iterator[UnderMinIsr]:
    """Yield the periods by epoch and by leader. For example, epoch 5 begins with the ISR [1], and
    broker 2 joins it a minute later. Records that were appended in epoch 5 and acked before that
    were acked by broker 1 alone, even if it had been cut off all the time. Before it learned of
    epoch 5 it appended nothing in that epoch."""
    states = seen.around.observed.states
    for place, (before, after) in enumerate(pairwise(states), start=1):
        if not (before.by_controller and after.by_controller):  # of two znodes nobody knows
            continue
        known = _known(seen, before, after)
        for span, needed in _needed(cell, seen, after.leader):
            until = _until(seen, states[place:], needed)
            yield UnderMinIsr(
                start=max(span.start, known),
                end=min(span.end, until),
                epoch=after.leader_epoch,
                isr=_words(after.isr, needed),
            )


def _known(seen: StrictStates, before: PartitionState, after: PartitionState) -> int:
    """Return the time from which on the leader that appends in the epoch of a state knows its ISR.
    If the state began another epoch but may not have been its first one, no such time is known.

    For example, an epoch 5 that was observed with [1] may have begun with [1, 2], unless that state
    directly followed the last one of epoch 4.
    """
    if after.leader_epoch == before.leader_epoch:
        return seen.heard(after.time, after.leader)
    begun = after.leader_epoch > before.leader_epoch and adjacent(before, after)
    return 0 if begun else FOREVER


def _until(seen: StrictStates, states: Sequence[PartitionState], needed: int) -> int:
    """Return the time until which the ISR stayed too small, from the first of these states on,
    without an unobserved change."""
    if len(states[0].isr) >= needed:
        return 0
    for before, after in pairwise(states):
        if len(after.isr) >= needed or not adjacent(before, after):
            return seen.not_before(Span(before.time, after.time + 1))
    return seen.watched_until()


def _needed(cell: Cell, seen: StrictStates, leader: int) -> Iterator[tuple[Span, int]]:
    """Yield the lowest min.insync.replicas that this leader can have known, by span of time."""
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
    """A value that was set: the span in which it may have been in force, and the span in which it
    certainly was."""

    value: int
    possible: Span
    certain: Span

    @classmethod
    def of(cls, fault: FaultFacts, value: int, seen: StrictStates, leader: int) -> "_Order":
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


def _set_to(seen: StrictStates) -> list[tuple[FaultFacts, int]]:
    """Return the faults that set another value, with the value."""
    return [(one, one.min_isr) for one in seen.faults if one.min_isr is not None and one.begun]


# --- derived --------------------------------------------------------------------------------------


EPOCH_REGRESSED = "epoch-regressed"
TWO_LEADERS = "two-leaders"
_NOWHERE = -1


def timeline(
    cell: Cell,
    partition: Partition,
    around: PartitionSurroundings,
    roles: Sequence[Role],
    *,
    ensemble: bool,
) -> PartitionTimeline:
    """Return the conclusions from the states of one partition.

    Args:
        cell: The cell.
        partition: The partition.
        around: Its surroundings.
        roles: The roles that brokers took, from their own logs.
        ensemble: Whether ZooKeeper has, or may have, several servers.
    """
    if ALWAYS in around.observed.holes:
        # Only the brokers' own logs count, because a missing state may lie between any two others.
        told = [*_regressed(Observed(), roles), *_two_leaders(Observed(), roles)]
        return PartitionTimeline(acks=cell.acks, in_broker_logs=bool(roles), told=told)
    faults = tuple(fault for fault in around.faults if fault.touches(partition))
    seen = StrictStates(around=around, faults=faults, ensemble=ensemble)
    epochs = sorted({state.leader_epoch for state in around.observed.states} - {-1, -2})
    return PartitionTimeline(
        acks=cell.acks,
        clock_bound_ns=around.clock_bound_ns,
        disks_kept=not any(map(_takes_or_changes, faults)),
        epochs=epochs,
        elected_after=[seen.elected_after(epoch) for epoch in epochs],
        deposed=[seen.deposed(epoch) for epoch in epochs],
        log_ends=[_log_end(epoch, roles) for epoch in epochs],
        watched_until=seen.watched_until(),
        under_min_isr=under_min_isr(cell, seen),
        watched=seen.watched,
        versioned=seen.versioned,
        in_broker_logs=bool(roles),
        told=[*_regressed(around.observed, roles), *_two_leaders(around.observed, roles)],
    )


def _takes_or_changes(fault: FaultFacts) -> bool:
    return data_loss_span(fault) is not None and fault.destroys != "unclean"


def _regressed(observed: Observed, roles: Sequence[Role]) -> Iterator[ObservedAnomaly]:
    """Yield the leader epochs that went back, in ZooKeeper or at a broker."""
    for before, after in observed.changes():
        # Within a session ZooKeeper never returns an older state. In a new session another server
        # may.
        blind = observed.blind(Span(before.time, after.time + 1))
        if 0 <= after.leader_epoch < before.leader_epoch and not blind:
            epochs = f"from {before.leader_epoch} to {after.leader_epoch}"
            detail = f"ZooKeeper's leader epoch went back {epochs}"
            yield ObservedAnomaly(anomaly=EPOCH_REGRESSED, time=after.time, detail=detail)
    highest: dict[tuple[int, int], int] = {}
    for role in roles:
        process = role.broker, role.life
        if 0 <= role.leader_epoch < highest.get(process, -1):
            epochs = f"epoch {role.leader_epoch} after epoch {highest[process]}"
            detail = f"broker-{role.broker} took a role in {epochs}"
            yield ObservedAnomaly(anomaly=EPOCH_REGRESSED, time=_UNKNOWN_TIME, detail=detail)
        highest[process] = max(role.leader_epoch, highest.get(process, -1))


def _two_leaders(observed: Observed, roles: Sequence[Role]) -> Iterator[ObservedAnomaly]:
    """Yield the epochs with several leaders, from ZooKeeper and from the brokers' own logs."""
    leaders: dict[int, dict[int, str]] = defaultdict(dict)
    since: dict[int, int] = {}
    for state in observed.states:
        # With two znodes, leader and epoch may belong to two moments and never have been in force
        # together.
        if state.by_controller and state.leader >= 0 and state.leader_epoch >= 0:
            leaders[state.leader_epoch].setdefault(state.leader, "by ZooKeeper")
            since[state.leader_epoch] = state.time
    for role in roles:
        if role.leads and role.leader_epoch >= 0:
            leaders[role.leader_epoch].setdefault(role.broker, "according to its own log")
    for epoch, those in sorted(leaders.items()):
        if len(those) > 1:
            who = " and ".join(f"broker-{b} ({how})" for b, how in sorted(those.items()))
            time = since.get(epoch, _UNKNOWN_TIME)
            yield ObservedAnomaly(
                anomaly=TWO_LEADERS, time=time, detail=f"{who} led in epoch {epoch}"
            )


def _log_end(epoch: int, roles: Sequence[Role]) -> int:
    """Return the log end offset of the epoch's leader when it first reported that it leads, or
    -1."""
    said = [role for role in roles if role.leads and role.leader_epoch == epoch]
    if len({role.broker for role in said}) != 1 or said[0].log_end is None:
        return _NOWHERE
    return said[0].log_end
