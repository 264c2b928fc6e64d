"""The observer's view of each partition in ZooKeeper: leader, leader epoch and ISR over time.

ZooKeeper's watches signal that something changed, not how often. Of two changes in quick succession
the first may go unobserved. The leader epoch reveals that, because every election raises it by one.
While the observer's own connection was broken, or it did not look (a hole), nothing was observed. A
change in that time is observed as one change when the observer is back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ackproof.checkers.context.faults import FOREVER, Partition

OBSERVATION_LAG_NS = 1_000_000_000
"""The time after a change by which it is in the table. Reading it takes milliseconds, but a busy
machine may be slow to begin."""

NO_LEADER = -1
"""Kafka's number for a missing leader."""
UNKNOWN = -2
"""A leader or an epoch that a row does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of a partition from ``time`` on until the next state."""

    time: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    """The replicas that may be elected while the ISR is empty: the eligible leader replicas
    (KIP-966), or the last members if there are none any more, because all were killed."""
    version: int | None = None
    """The version of the znode with the ISR, which each write raises by one, or None if it is
    unknown."""
    by_controller: bool = False
    """Whether a controller wrote it. Leader, epoch and ISR are then in one znode and belong to the
    same moment."""


def adjacent(before: PartitionState, after: PartitionState) -> bool:
    """Return whether the versions show that no ISR was written between two states, so that none
    went unobserved even if the observer did not look."""
    if before.version is None or after.version is None:
        return False
    return 0 <= after.version - before.version <= 1


@dataclass(frozen=True, slots=True)
class Span:
    """A time span from ``start`` to ``end``, exclusive, in nanoseconds of the Unix epoch."""

    start: int
    end: int

    def meets(self, other: "Span") -> bool:
        """Return whether the two spans overlap."""
        return self.start < other.end and other.start < self.end

    def delays(self, time: int) -> bool:
        """Return whether an observation at this time may be as old as this hole."""
        return self.start <= time <= self.end + OBSERVATION_LAG_NS


NEVER = Span(FOREVER, FOREVER)
ALWAYS = Span(0, FOREVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The observed states of one partition and the holes of the observation, each in the order of
    time."""

    states: tuple[PartitionState, ...] = ()
    holes: tuple[Span, ...] = ()

    def until(self, end: int) -> "Observed":
        """Return what was observed before a time. A hole that began before it is unchanged."""
        return Observed(
            states=tuple(state for state in self.states if state.time < end),
            holes=tuple(hole for hole in self.holes if hole.start < end),
        )

    def changes(self) -> Iterator[tuple[PartitionState, PartitionState]]:
        """Return each state with the next one."""
        return pairwise(self.states)

    def successions(self) -> Iterator[tuple[PartitionState, PartitionState, int | None]]:
        """Yield each state, the next one, and the last broker that was observed to lead before the
        second, or None."""
        leader: int | None = None
        for before, after in self.changes():
            leader = before.leader if before.leader >= 0 else leader
            yield before, after, leader

    def spans(self) -> Iterator[tuple[Span, PartitionState]]:
        """Yield each state with the span in which it was the last one observed."""
        times = (*(state.time for state in self.states), FOREVER)
        for state, (since, until) in zip(self.states, pairwise(times), strict=True):
            yield Span(since, until), state

    def during(self, span: Span) -> list[PartitionState]:
        """Return the states that were in force at some moment of a span."""
        return [state for in_force, state in self.spans() if in_force.meets(span)]

    def blind(self, span: Span) -> bool:
        """Return whether there was no observation at some moment of a span."""
        first = self.states[0].time if self.states else FOREVER
        return span.start < first or any(hole.meets(span) for hole in self.holes)

    def widened(self, span: Span) -> Span:
        """Return a span with a later end, by which every observation that holes delayed was made.

        In a hole from second 10 to 20, the ISR shrinks in second 11. A fault of second 12 struck
        the smaller ISR, which was observed in second 20.
        """
        end = span.end
        for hole in self.holes:
            if hole.meets(Span(span.start, end)):
                end = max(end, hole.end + OBSERVATION_LAG_NS)
        return Span(span.start, end)

    def possible(self, span: Span) -> list[PartitionState]:
        """Return the observed states that may have been in force at some moment of a span."""
        return self.during(self.widened(span))

    def complete(self, span: Span) -> bool:
        """Return whether each state that was in force in a span was observed, be it late. They are
        then all among the :meth:`possible` ones."""
        if not self.blind(span):
            return True
        states = self.possible(span)
        return (
            bool(states)
            and states[0].time <= span.start
            and self.widened(span).end <= FOREVER
            and all(state.by_controller and state.version is not None for state in states)
            and not any(self.missed(before, after) for before, after in pairwise(states))
        )

    def missed(self, before: PartitionState, after: PartitionState) -> bool:
        """Return whether a state between two may have gone unobserved. If a controller wrote
        both completely and the versions are adjacent, none did, however long the observer did
        not look."""
        at_once = before.by_controller and after.by_controller and adjacent(before, after)
        return not at_once and self.blind(Span(before.time, after.time))

    def not_before(self, state: PartitionState) -> int:
        """Return the earliest time at which a state can have been written. A state found after a
        hole may be as old as the hole is long, and a lagging ZooKeeper server delays it further."""
        earliest = state.time
        for hole in reversed(self.holes):
            # A hole that begins within the lag of the one before continues it.
            if hole.delays(earliest):
                earliest = hole.start
        return earliest

    @property
    def observer_lost(self) -> bool:
        """Whether the observer was lost and did not come back."""
        return any(hole.end == FOREVER for hole in self.holes)

    @property
    def brokers(self) -> frozenset[int]:
        """The brokers that were ever observed to lead the partition or to be in its ISR, and so
        have replicas of it."""
        members = {
            broker for state in self.states for broker in (state.leader, *state.isr, *state.elr)
        }
        return frozenset(broker for broker in members if broker >= 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A time in which a broker was observed to have no ZooKeeper session."""

    broker: int
    since: int
    until: int


class ClusterObservation:
    """The observation of all partitions of a run, from the rows of its table ``cluster``.

    Args:
        rows: The rows.
        whole: Whether these are all rows that were written. If some are missing, any state may be
            among them, which is a hole over the whole time.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], *, whole: bool = True) -> None:
        rows = sorted(rows, key=lambda row: row["time"])
        self.whole = whole
        self._holes = tuple(_holes(rows)) if whole else (ALWAYS,)
        self._states: dict[Partition, list[PartitionState]] = {}
        self._controllers = [
            (row["time"], row["broker"])
            for row in rows
            if row["kind"] == "controller" and row["broker"] is not None
        ]
        for row in rows:
            if row["kind"] == "partition":
                states = self._states.setdefault((row["topic"], row["partition"]), [])
                states.append(_state(row, states[-1] if states else None))

    def partitions(self, topic: str) -> int:
        """Return the number of observed partitions of a topic."""
        return sum(name == topic for name, _ in self._states)

    def of(self, partition: Partition) -> Observed:
        """Return the observation of a partition."""
        return Observed(states=tuple(self._states.get(partition, ())), holes=self._holes)

    def tenure(self, time: int) -> tuple[int, Span] | None:
        """Return the last broker that was observed to be the controller at a time, and its time in
        office, or None if there was none."""
        return next((one for one in self.tenures if one[1].start <= time < one[1].end), None)

    @property
    def tenures(self) -> tuple[tuple[int, Span], ...]:
        """The brokers that were observed to be the controller, each with its time in office."""
        followed = pairwise([*self._controllers, (FOREVER, -1)])
        return tuple((broker, Span(since, end)) for (since, broker), (end, _) in followed)


def _state(row: Mapping[str, Any], before: PartitionState | None) -> PartitionState:
    leader, epoch = row["leader"], row["leader_epoch"]
    isr, elr = (tuple(one for one in row[name] or () if one is not None) for name in ("isr", "elr"))
    if before is not None and not (isr or elr):
        elr = before.isr or before.elr
    return PartitionState(
        time=row["time"],
        leader=UNKNOWN if leader is None else leader,
        leader_epoch=UNKNOWN if epoch is None else epoch,
        isr=isr,
        elr=elr,
        version=row["version"],
        by_controller=(row["controller_epoch"] or 0) > 0,
    )


def _holes(rows: Sequence[Mapping[str, Any]]) -> Iterator[Span]:
    since = None
    for row in rows:
        if row["kind"] == "zookeeper-lost" and since is None:
            since = row["time"]
        elif row["kind"] == "zookeeper-back" and since is not None:
            yield Span(since, row["time"])
            since = None
    if since is not None:
        yield Span(since, FOREVER)


def absences(rows: Sequence[Mapping[str, Any]]) -> list[Absence]:
    """Return the absences of all brokers, from the rows of a run's table ``cluster``."""
    since: dict[int, int] = {}
    found = []
    for row in sorted(rows, key=lambda row: row["time"]):
        if row["kind"] == "broker-down":
            since.setdefault(row["broker"], row["time"])
        elif row["kind"] == "broker-up" and row["broker"] in since:
            began = since.pop(row["broker"])
            found.append(Absence(broker=row["broker"], since=began, until=row["time"]))
    left = [Absence(broker=one, since=time, until=FOREVER) for one, time in since.items()]
    return [*found, *left]
