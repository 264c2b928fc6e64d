"""A sound cluster by chance, and what its clients, its observer and its brokers would tell of it.

Elections and ISR changes take place in ZooKeeper, are seen a moment later, and are heard of by the
brokers later still; until then these go on as before. Clients' clocks are off by as much as is
known of them at most.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.context.broker_logs import Role
from ackproof.checkers.context.faults import FaultFacts, Partition, faults_of
from ackproof.checkers.context.observed import ClusterObservation
from ackproof.checkers.context.surroundings import PartitionSurroundings
from ackproof.checkers.context.timeline import PartitionTimeline, timeline
from ackproof.history.cell import Value
from tests.support.builders.histories import (
    ALL,
    REPLICA_LAG_MS,
    SECOND,
    SESSION_TIMEOUT_MS,
    TOPIC,
    Entry,
    Made,
    Send,
    at,
    cell,
    entry,
    indexed,
    send,
    state,
)

PARTITION: Partition = (TOPIC, 0)
SETTLE_NS = (SESSION_TIMEOUT_MS + REPLICA_LAG_MS) * 1_000_000
MOMENT = SECOND // 1000

Found = tuple[str, int | None, int | None, int | None]
"""Anomaly, offset, producer, sequence."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """The evidence on one partition. ``rows``: of the table ``cluster``; ``bound``: of the clients'
    clocks, nanoseconds; ``min_isr``: set by faults; ``setting``: the number of the fault that does,
    None: all."""

    made: Made
    rows: Sequence[Mapping[str, Any]]
    words: Sequence[Role] = ()
    faults: Sequence[Mapping[str, Any]] = ()
    bound: int | None = MOMENT
    settings: Mapping[str, Value] = field(default_factory=lambda: ALL)
    ensemble: bool = False
    combined: Sequence[str] = ()
    min_isr: int | None = None
    setting: int | None = None

    def but(self, **changes: Any) -> "Told":
        return replace(self, **changes)

    @property
    def facts(self) -> tuple[FaultFacts, ...]:
        return tuple(
            replace(fault, min_isr=self.min_isr if self._sets(fault) else None)
            for fault in faults_of(self.faults)
        )

    def _sets(self, fault: FaultFacts) -> bool:
        return self.setting in (None, fault.fault_id)

    @property
    def timeline(self) -> PartitionTimeline:
        rows = [{"version": None, "controller_epoch": None, **row} for row in self.rows]
        around = PartitionSurroundings(
            observed=ClusterObservation(rows).of(PARTITION),
            faults=self.facts,
            settle_ns=SETTLE_NS,
            clock_bound_ns=self.bound,
            combined=frozenset(self.combined),
        )
        told = cell(self.settings).cell
        return timeline(told, PARTITION, around, self.words, ensemble=self.ensemble)

    def found(self) -> set[Found]:
        """Everything that any rule finds."""
        return {
            (row["anomaly"], row["offset"], row["producer"], row["sequence"]) for row in self.all()
        }

    def all(self) -> list[dict[str, Any]]:
        """Return the same as rows of anomalies."""
        history = indexed(self.made, timeline=self.timeline)
        return [row for one in CHECKERS.values() for row in one(history).to_pylist()]


def acked(
    producer: int, sequence: int, asked: int, answered: int, offset: int
) -> tuple[Send, Send]:
    """The two events of a send that was acked; nanoseconds."""
    return (
        send("invoke", producer, sequence, asked),
        send("ok", producer, sequence, answered, offset),
    )


@dataclass(kw_only=True)
class Cluster:
    """A partition as it really is, in nanoseconds of the harness's clock; ``skew``: how far the
    clients' clock is ahead. ``leader``, ``epoch`` and ``isr`` are ZooKeeper's; ``serving`` is the
    epoch and ISR by which its brokers still go."""

    skew: int = 0
    now: int = at(0)
    epoch: int = 0
    leader: int = 1
    isr: tuple[int, ...] = (1, 2, 3)
    version: int = 0
    serving: tuple[int, tuple[int, ...]] = (0, (1, 2, 3))
    sends: list[Send] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    words: list[Role] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.see(0)
        self.hear()

    def write(self, *, leader: int | None = None, isr: Sequence[int] = ()) -> None:
        """ZooKeeper's state changes, by an election where ``leader`` is said."""
        self.version += 1
        self.isr = tuple(isr)
        if leader is not None:
            self.leader, self.epoch = leader, self.epoch + 1

    def see(self, late: int) -> None:
        """The observer reads it, so long after now."""
        row = state(0, self.leader, self.epoch, self.isr, version=self.version)
        self.rows.append({**row, "time": self.now + late})

    def hear(self) -> None:
        """The brokers have heard of it."""
        if self.serving[0] != self.epoch or not self.words:
            for broker in self.isr:
                end = len(self.log) if broker == self.leader else None
                word = Role(
                    broker=broker,
                    life=0,
                    leader=self.leader,
                    leader_epoch=self.epoch,
                    log_end=end,
                )
                self.words.append(word)
        self.serving = self.epoch, self.isr

    def produce(self, producer: int, before: int, after: int, *, told: bool) -> None:
        """A record is appended now, and acked where ``told``, if enough are in sync. It was sent so
        long ago at most; the ack is received so much later."""
        epoch, isr = self.serving
        if len(isr) < 2:
            return
        sequence = self.sequences[producer] = self.sequences.get(producer, -1) + 1
        asked = max(self.asked.get(producer, 0), self.now - before)
        self.asked[producer] = asked
        offset = len(self.log)
        self.log.append(entry(offset, producer, sequence, epoch))
        self.sends.append(send("invoke", producer, sequence, asked + self.skew))
        if told:
            answered = self.now + after + self.skew
            self.sends.append(send("ok", producer, sequence, answered, offset))

    def told(self, bound: int) -> Told:
        return Told(
            made=Made(sends=self.sends, log=self.log, end=len(self.log)),
            rows=self.rows,
            words=self.words,
            bound=bound,
        )


ISRS = [(1,), (2,), (1, 2), (2, 3), (1, 3), (1, 2, 3)]


@st.composite
def sound(draw: st.DrawFn) -> Told:
    """In spite of all faults it keeps its guarantees."""
    bound = draw(st.sampled_from([0, MOMENT, SECOND // 2]))
    cluster = Cluster(skew=draw(st.sampled_from([-bound, 0, bound])))
    for _ in range(draw(st.integers(0, 8))):
        _send_some(draw, cluster)
        cluster.now += draw(st.integers(1, 30)) * SECOND
        _change(draw, cluster)
        if draw(st.booleans()):
            _pass_unseen(draw, cluster)
        cluster.see(draw(st.integers(0, SECOND - 1)))
        # Until its brokers have heard, they may ack as before.
        _send_some(draw, cluster)
        cluster.now += draw(st.integers(SECOND, SETTLE_NS))
        _send_some(draw, cluster)
        cluster.hear()
    _send_some(draw, cluster)
    return cluster.told(bound)


def _change(draw: st.DrawFn, cluster: Cluster) -> None:
    isr = draw(st.sampled_from(ISRS))
    able = sorted(set(isr) & set(cluster.isr))
    if able and draw(st.booleans()):
        cluster.write(leader=draw(st.sampled_from(able)), isr=isr)
    else:
        cluster.write(isr=tuple(sorted({*isr, cluster.leader})))


def _pass_unseen(draw: st.DrawFn, cluster: Cluster) -> None:
    """The ISR becomes another and the same again, before anybody reads it; meanwhile it serves."""
    before = cluster.isr
    cluster.write(isr=(1, 2, 3))
    cluster.hear()
    _send_some(draw, cluster)
    cluster.write(isr=before)
    cluster.hear()


def _send_some(draw: st.DrawFn, cluster: Cluster) -> None:
    for _ in range(draw(st.integers(0, 2))):
        before, after = (draw(st.integers(0, 12 * SECOND)) for _ in range(2))
        cluster.produce(draw(st.integers(0, 1)), before, after, told=draw(st.booleans()))
