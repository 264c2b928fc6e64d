"""What follows from a partition's observed timeline, before any ack is looked at.

The observation tells a state late, up to :data:`checkers.cluster.observed.OBSERVATION_LAG_NS`, and
not while its connection to ZooKeeper was broken. Nor while a fault was on one of several servers of
ZooKeeper's: the one that it is connected to may be cut off from the others, and go on telling what
was. So of a state that was seen it is certain that it had come by then, and not when; and a state
held until that lag before the next one was seen, but for the blind times between.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from checkers.cluster.faults import FOREVER, KEEPERS, FaultFacts, Partition
from checkers.cluster.observed import OBSERVATION_LAG_NS, UNKNOWN, Observed, Span, adjacent
from checkers.promises.terms import Surroundings, settled, strike
from checkers.timeline.known import Timeline, Told
from checkers.timeline.words import Word
from history.cell import Cell

EPOCH_REGRESSED = "epoch-regressed"
TWO_LEADERS = "two-leaders"
_NOWHERE = -1
_UNKNOWN_TIME = -1


def timeline(
    cell: Cell,
    partition: Partition,
    around: Surroundings,
    words: Sequence[Word],
    *,
    ensemble: bool,
    combined: Sequence[str] = (),
) -> Timeline:
    """Of one partition; ``words``: what its brokers said; ``ensemble``: whether ZooKeeper is, or
    may be, several servers; ``combined``: the brokers that keep the metadata, too."""
    faults = tuple(fault for fault in around.faults if fault.touches(partition))
    seen = _Seen(around=around, faults=faults, ensemble=ensemble, combined=frozenset(combined))
    epochs = sorted({state.leader_epoch for state in around.observed.states} - {-1, -2})
    thin = [(span, isr) for span, isr in _thin(cell, seen) if span.start < span.end]
    return Timeline(
        acks=cell.acks,
        clock_bound_ns=around.clock_bound_ns,
        disks_kept=not any(map(_takes_or_changes, faults)),
        epochs=epochs,
        elected_after=[seen.elected_after(epoch) for epoch in epochs],
        deposed=[seen.deposed(epoch) for epoch in epochs],
        log_ends=[_log_end(epoch, words) for epoch in epochs],
        watched_until=seen.watched_until(),
        thin_starts=[span.start for span, _ in thin],
        thin_ends=[span.end for span, _ in thin],
        thin_isrs=[isr for _, isr in thin],
        watched=_watched(around.observed),
        versioned=_versioned(around.observed),
        spoken=bool(words),
        told=[*_regressed(around.observed, words), *_two_leaders(around.observed, words)],
    )


def _watched(observed: Observed) -> bool:
    told = any(state.leader_epoch != UNKNOWN for state in observed.states)
    return told and not observed.forsaken


def _versioned(observed: Observed) -> bool:
    return _watched(observed) and all(
        state.version is not None for state in observed.states if state.leader_epoch >= 0
    )


def _takes_or_changes(fault: FaultFacts) -> bool:
    return strike(fault) is not None and fault.destroys != "unclean"


@dataclass(kw_only=True)
class _Seen:
    """A partition's states, with the times of the clients' clock on the strict side."""

    around: Surroundings
    faults: tuple[FaultFacts, ...]
    ensemble: bool
    combined: frozenset[str]

    @cached_property
    def holes(self) -> list[Span]:
        """When it could not be seen, or not for certain, without overlaps."""
        spans = [*self.around.observed.holes, *map(self._reach, self._on_zookeeper())]
        merged: list[Span] = []
        for span in sorted(spans, key=lambda span: span.start):
            if merged and span.start <= merged[-1].end:
                merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
            else:
                merged.append(span)
        return merged

    def elected_after(self, epoch: int) -> int:
        """Before when certainly nobody was elected in this epoch or a later one."""
        before = _UNKNOWN_TIME
        for state in self.around.observed.states:
            if state.leader_epoch >= epoch:
                return 0 if before < 0 else self.not_before(Span(before, state.time + 1))
            before = state.time
        return self.watched_until()

    def watched_until(self) -> int:
        """Until when nobody was elected whom nobody saw."""
        if not self.around.observed.states:
            return 0
        last = self.around.observed.states[-1].time
        return self.not_before(Span(last, FOREVER))

    def not_before(self, change: Span) -> int:
        """Before when a change did not take place that was not there at the span's start, and was
        seen at its end."""
        first = min([change.end - 1, *(h.start for h in self.holes if h.meets(change))])
        if first >= FOREVER - 1:
            return FOREVER
        return max(0, first - OBSERVATION_LAG_NS - (self.around.clock_bound_ns or 0))

    def deposed(self, epoch: int) -> int:
        """From when on the leader of an epoch must have heard that another one leads."""
        leaders = self._leaders
        if epoch not in leaders:
            return FOREVER
        later = (
            self._heard[other]
            for other, leader in leaders.items()
            if other > epoch and leader != leaders[epoch]
        )
        return min(later, default=FOREVER)

    def settled(self, time: int) -> int:
        """By when everybody has heard of a change that was seen then."""
        return settled(time, self.around, self.faults)

    @cached_property
    def _leaders(self) -> Mapping[int, int]:
        """Who was seen last to lead in each epoch. Where leaders coordinate themselves, epoch and
        leader are read one after the other, and the first that is seen may be of two moments."""
        states = self.around.observed.states
        return {state.leader_epoch: state.leader for state in states if state.leader >= 0}

    @cached_property
    def _heard(self) -> Mapping[int, int]:
        """By when all have heard of each epoch's leader, from when it was first seen to lead."""
        first: dict[int, int] = {}
        for state in self.around.observed.states:
            if self._leaders.get(state.leader_epoch) == state.leader:
                first[state.leader_epoch] = min(state.time, first.get(state.leader_epoch, FOREVER))
        return {epoch: self.settled(time) for epoch, time in first.items()}

    def _on_zookeeper(self) -> Iterator[FaultFacts]:
        for fault in self.around.faults if self.ensemble else ():
            servers = fault.servers
            if servers is None or any(map(self._keeps_metadata, servers)):
                yield fault

    def _keeps_metadata(self, server: str) -> bool:
        return server.startswith(KEEPERS) or server in self.combined

    def _reach(self, fault: FaultFacts) -> Span:
        return Span(fault.start, min(fault.end + self.around.settle_ns, FOREVER))


# --- the ISR ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """What was in sync from then on, None: nobody knows. ``next``: whether nothing can have been
    between it and the look before."""

    time: int
    isr: tuple[int, ...] | None
    next: bool


def _thin(cell: Cell, seen: _Seen) -> Iterator[tuple[Span, str]]:
    """When fewer than min.insync.replicas were in sync, and whoever led knew it; who was.

    From when a leader must have heard of the ISR until the lag before another one was seen. An ISR
    that grew and shrank again before it was read shows in the version: what was seen before and
    after is not taken for one time.
    """
    set_to = [fault.min_isr for fault in seen.faults if fault.min_isr is not None]
    # While its topic's min.insync.replicas is being set any value may be in force.
    needed = min([cell.min_insync_replicas, *set_to])
    if seen.around.clock_bound_ns is None or not _versioned(seen.around.observed):
        return
    since, words = None, ""
    for look in _looks(seen):
        is_thin = look.isr is not None and len(look.isr) < needed
        if since is not None and not (is_thin and look.next):
            yield Span(since, seen.not_before(Span(look.time, look.time + 1))), words
            since = None
        if is_thin:
            words = f"{list(look.isr or ())} was in sync, min.insync.replicas is {needed}"
            since = seen.settled(look.time) if since is None else since
    if since is not None:
        yield Span(since, FOREVER), words


def _looks(seen: _Seen) -> Iterator[_Look]:
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


# --- leaders and epochs -------------------------------------------------------------------------


def _regressed(observed: Observed, words: Sequence[Word]) -> Iterator[Told]:
    """Leader epochs that went back, in ZooKeeper or at a broker."""
    for before, after in observed.changes():
        # In a session ZooKeeper never shows an older state; in a new one another server may.
        blind = observed.blind(Span(before.time, after.time + 1))
        if 0 <= after.leader_epoch < before.leader_epoch and not blind:
            epochs = f"from {before.leader_epoch} to {after.leader_epoch}"
            detail = f"ZooKeeper's leader epoch went back {epochs}"
            yield Told(anomaly=EPOCH_REGRESSED, time=after.time, detail=detail)
    highest: dict[tuple[int, int], int] = {}
    for word in words:
        process = word.broker, word.life
        if 0 <= word.leader_epoch < highest.get(process, -1):
            epochs = f"epoch {word.leader_epoch} after epoch {highest[process]}"
            detail = f"broker-{word.broker} took a role in {epochs}"
            yield Told(anomaly=EPOCH_REGRESSED, time=_UNKNOWN_TIME, detail=detail)
        highest[process] = max(word.leader_epoch, highest.get(process, -1))


def _two_leaders(observed: Observed, words: Sequence[Word]) -> Iterator[Told]:
    """Epochs with several leaders, by ZooKeeper and by the brokers' own word."""
    leaders: dict[int, dict[int, str]] = defaultdict(dict)
    since: dict[int, int] = {}
    for state in observed.states:
        # Of two znodes leader and epoch may be of two moments, and nobody has led so.
        if state.by_controller and state.leader >= 0 and state.leader_epoch >= 0:
            leaders[state.leader_epoch].setdefault(state.leader, "by ZooKeeper")
            since[state.leader_epoch] = state.time
    for word in words:
        if word.leads and word.leader_epoch >= 0:
            leaders[word.leader_epoch].setdefault(word.broker, "by its own word")
    for epoch, those in sorted(leaders.items()):
        if len(those) > 1:
            who = " and ".join(f"broker-{b} ({how})" for b, how in sorted(those.items()))
            time = since.get(epoch, _UNKNOWN_TIME)
            yield Told(anomaly=TWO_LEADERS, time=time, detail=f"{who} led in epoch {epoch}")


def _log_end(epoch: int, words: Sequence[Word]) -> int:
    """Where the log of the epoch's leader ended when it said first that it leads."""
    said = [word for word in words if word.leads and word.leader_epoch == epoch]
    if len({word.broker for word in said}) != 1 or said[0].log_end is None:
        return _NOWHERE
    return said[0].log_end
