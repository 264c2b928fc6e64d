"""What the observer saw of each partition in ZooKeeper: leader, leader epoch, ISR, and when.

ZooKeeper's watches tell that something changed, not how often: of two changes in quick succession
the first may go unseen. The leader epoch gives that away, since every election raises it by one.
While the observer's own connection was broken, or it did not come to look (a hole), nothing was
seen at all; what changed meanwhile is seen, as one change, when it is back."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ackproof.checkers.context.faults import FOREVER, Partition

OBSERVATION_LAG_NS = 1_000_000_000
"""A change is in the table within this time after it took place. Reading the view takes
milliseconds; a machine at its limit may be slow to begin."""

NO_LEADER = -1
"""Kafka's word for a partition without a leader."""
UNKNOWN = -2
"""A leader or an epoch that a row does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Of a partition, from ``time`` on until the next one."""

    time: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int | None = None
    """Of the znode with the ISR, which each write raises by one; None where it is not told."""
    by_controller: bool = False
    """Whether a controller wrote it: leader, epoch and ISR in one znode, and so of one moment."""


def adjacent(before: State, after: State) -> bool:
    """Whether their versions say that no ISR was written between them: none went unseen, even if
    nobody looked meanwhile."""
    if before.version is None or after.version is None:
        return False
    return 0 <= after.version - before.version <= 1


@dataclass(frozen=True, slots=True)
class Span:
    """From ``start`` to ``end``, exclusive; nanoseconds of the Unix epoch."""

    start: int
    end: int

    def meets(self, other: "Span") -> bool:
        """Whether they have a moment in common."""
        return self.start < other.end and other.start < self.end

    def delays(self, time: int) -> bool:
        """As a hole: whether what was seen at a time may be as old as it."""
        return self.start <= time <= self.end + OBSERVATION_LAG_NS


NEVER = Span(FOREVER, FOREVER)
ALWAYS = Span(0, FOREVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One partition's states in the order of time, and the holes of the observation."""

    states: tuple[State, ...] = ()
    holes: tuple[Span, ...] = ()

    def until(self, end: int) -> "Observed":
        """Return what was seen before a time. A hole that began before it stays as it is."""
        return Observed(
            states=tuple(state for state in self.states if state.time < end),
            holes=tuple(hole for hole in self.holes if hole.start < end),
        )

    def changes(self) -> Iterator[tuple[State, State]]:
        """Each state and the one after it."""
        return pairwise(self.states)

    def successions(self) -> Iterator[tuple[State, State, int | None]]:
        """Yield each state, the one after it, and the broker that was seen last to lead before the
        second; None where none was."""
        leader: int | None = None
        for before, after in self.changes():
            leader = before.leader if before.leader >= 0 else leader
            yield before, after, leader

    def spans(self) -> Iterator[tuple[Span, State]]:
        """Each state with the time for which it was the last that was seen."""
        times = (*(state.time for state in self.states), FOREVER)
        for state, (since, until) in zip(self.states, pairwise(times), strict=True):
            yield Span(since, until), state

    def during(self, span: Span) -> list[State]:
        """The states that were in force at some moment of a span."""
        return [state for in_force, state in self.spans() if in_force.meets(span)]

    def blind(self, span: Span) -> bool:
        """Whether it was not seen at some moment of a span."""
        first = self.states[0].time if self.states else FOREVER
        return span.start < first or any(hole.meets(span) for hole in self.holes)

    def missed(self, before: State, after: State) -> bool:
        """Whether a state may have come between two and gone unseen. Not where a controller wrote
        all of both, and the second right after the first, however long nobody looked."""
        at_once = before.by_controller and after.by_controller and adjacent(before, after)
        return not at_once and self.blind(Span(before.time, after.time))

    def not_before(self, state: State) -> int:
        """When a state was written at the earliest. What is found when the observer is back may be
        as old as the hole is long; a server of ZooKeeper's that lags tells it later still."""
        holes = (hole.start for hole in self.holes if hole.delays(state.time))
        return min(holes, default=state.time)

    @property
    def forsaken(self) -> bool:
        """Whether the observer was lost and did not come back."""
        return any(hole.end == FOREVER for hole in self.holes)

    @property
    def brokers(self) -> frozenset[int]:
        """All that were ever seen to lead it or to be in its ISR: they have replicas of it."""
        members = {broker for state in self.states for broker in (state.leader, *state.isr)}
        return frozenset(broker for broker in members if broker >= 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A broker was seen to have no ZooKeeper session."""

    broker: int
    since: int
    until: int


class Observation:
    """All partitions of a run, from the rows of its table ``cluster``.

    Args:
        whole: Whether these are all rows that were written. Where some are missing, any state may
            be among them: that is a hole in the observation over all of the time.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], *, whole: bool = True) -> None:
        rows = sorted(rows, key=lambda row: row["time"])
        self.whole = whole
        self._holes = tuple(_holes(rows)) if whole else (ALWAYS,)
        self._states: dict[Partition, list[State]] = {}
        self._controllers = [
            (row["time"], row["broker"])
            for row in rows
            if row["kind"] == "controller" and row["broker"] is not None
        ]
        for row in rows:
            if row["kind"] == "partition":
                self._states.setdefault((row["topic"], row["partition"]), []).append(_state(row))

    def partitions(self, topic: str) -> int:
        """How many partitions of a topic were seen."""
        return sum(name == topic for name, _ in self._states)

    def of(self, partition: Partition) -> Observed:
        """What was seen of a partition."""
        return Observed(states=tuple(self._states.get(partition, ())), holes=self._holes)

    def tenure(self, time: int) -> tuple[int, Span] | None:
        """The broker that was seen to be the last controller at a time, and until when it was;
        None: there had been none."""
        return next((one for one in self.tenures if one[1].start <= time < one[1].end), None)

    @property
    def tenures(self) -> tuple[tuple[int, Span], ...]:
        """The brokers that were seen to be the controller, each with its time in office."""
        followed = pairwise([*self._controllers, (FOREVER, -1)])
        return tuple((broker, Span(since, end)) for (since, broker), (end, _) in followed)


def _state(row: Mapping[str, Any]) -> State:
    leader, epoch = row["leader"], row["leader_epoch"]
    return State(
        time=row["time"],
        leader=UNKNOWN if leader is None else leader,
        leader_epoch=UNKNOWN if epoch is None else epoch,
        isr=tuple(broker for broker in row["isr"] or () if broker is not None),
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
    """Of all brokers, from the rows of a run's table ``cluster``."""
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
