"""A partition's states as they were seen, on the strict side.

The observation tells a state late, up to :data:`checkers.cluster.observed.OBSERVATION_LAG_NS`, and
not while its connection to ZooKeeper was broken. Nor while a fault was on one of several servers of
ZooKeeper's: the one that it is connected to may be cut off from the others, and go on telling what
was. So of a state that was seen it is certain that it had come by then, and not when; and a state
held until that lag before the next one was seen, but for the blind times between.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from ackproof.checkers.cluster.faults import FOREVER, KEEPERS, FaultFacts
from ackproof.checkers.cluster.observed import OBSERVATION_LAG_NS, UNKNOWN, Span
from ackproof.checkers.promises.surroundings import Surroundings

_UNKNOWN_TIME = -1


@dataclass(kw_only=True)
class Seen:
    """A partition's states, with the times of the clients' clock on the strict side."""

    around: Surroundings
    faults: tuple[FaultFacts, ...]
    ensemble: bool

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
            self.heard(self._first_seen[other], leaders[epoch])
            for other, leader in leaders.items()
            if other > epoch and leader != leaders[epoch]
        )
        return min(later, default=FOREVER)

    @property
    def watched(self) -> bool:
        """Whether its states were seen until the end, epochs and all."""
        observed = self.around.observed
        told = any(state.leader_epoch != UNKNOWN for state in observed.states)
        return told and not observed.forsaken

    @property
    def versioned(self) -> bool:
        """And a change of its ISR that went unseen would show."""
        states = self.around.observed.states
        return self.watched and all(s.version is not None for s in states if s.leader_epoch >= 0)

    def settled(self, time: int) -> int:
        """Return by when every broker has heard of a change that was seen then."""
        return self.around.heard(time, None, self.faults)

    def heard(self, time: int, broker: int) -> int:
        """Return by when a broker has heard of a change that was seen then."""
        return self.around.heard(time, broker, self.faults)

    @cached_property
    def _leaders(self) -> Mapping[int, int]:
        """Who was seen last to lead in each epoch. Where leaders coordinate themselves, epoch and
        leader are read one after the other, and the first that is seen may be of two moments."""
        states = self.around.observed.states
        return {state.leader_epoch: state.leader for state in states if state.leader >= 0}

    @cached_property
    def _first_seen(self) -> Mapping[int, int]:
        """When the leader of each epoch was first seen to lead."""
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
