"""Losses by chance, each of a known kind: what clients, ZooKeeper and brokers would tell of them,
and what a root cause analysis has to find."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ackproof.checkers.context.broker_logs import ReplicaTruncation, Role
from ackproof.checkers.context.faults import faults_of
from ackproof.checkers.context.observed import ClusterObservation, absences
from ackproof.checkers.context.surroundings import PartitionSurroundings
from ackproof.checkers.context.timeline import timeline
from ackproof.checkers.context.validity import ALWAYS_VALID
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.missing_records import RootCauses, explain_lost
from ackproof.checkers.root_cause.partition_context import (
    ContextSources,
    PartitionContext,
    partition_context,
)
from ackproof.history.schema import CLUSTER
from tests.support.builders.histories import (
    ACKS_1,
    ALL,
    Entry,
    Made,
    Send,
    a_fault,
    at,
    cell,
    entry,
    indexed,
    send,
    state,
)
from tests.support.builders.timelines import MOMENT, PARTITION, SETTLE_NS, acked

ERA_S = 1_000
"""Between two losses: everything has settled."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """The expected findings of a loss. ``rewritten``: whether records of the next epoch took all of
    its offsets, so that no other leader can have acknowledged them."""

    kind: CauseKind
    sequences: range
    epoch: int
    leader: int
    next_leader: int
    next_offset: int
    fault: str
    cut_by: Sequence[int]
    rewritten: bool


@dataclass(kw_only=True)
class World:
    """A partition of three brokers, one producer, times in seconds. ``speaks``: whether brokers'
    logs tell where theirs ended, what they cut, and of which epochs they were told."""

    acks: str = "all"
    speaks: bool = True
    now: float = 0
    leader: int = 1
    epoch: int = 0
    end: int = 0
    sequence: int = 0
    faults: list[dict[str, Any]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    words: list[Role] = field(default_factory=list)
    truncations: list[ReplicaTruncation] = field(default_factory=list)
    orders: dict[int, list[int]] = field(default_factory=lambda: {1: [], 2: [], 3: []})
    sends: list[Send] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.see(0, 1, (1, 2, 3))
        self.append(5)

    def see(self, seconds: float, leader: int, isr: tuple[int, ...], *, hears: bool = True) -> None:
        """``hears``: whether the leader is told, as the others are."""
        self.rows.append(state(seconds, leader, self.epoch, isr, version=len(self.rows)))
        for broker, told in self.orders.items():
            if self.speaks and (hears or broker != leader):
                told.append(self.epoch)
        if (
            hears
            and self.speaks
            and not any(word.leader_epoch == self.epoch for word in self.words)
        ):
            said = {"log_end": self.end, "high_watermark": self.end}
            word = Role(broker=leader, life=0, leader=leader, leader_epoch=self.epoch, **said)
            self.words.append(word)

    def ack(self, seconds: float, offset: int) -> None:
        moment = at(seconds)
        self.sends += acked(1, self.sequence, moment - MOMENT, moment, offset)
        self.sequence += 1

    def give_up(self, count: int, seconds: float = 0) -> range:
        """Records of which the client has the last word, and it is not an ack."""
        moment = at(self.now + seconds)
        given_up = range(self.sequence, self.sequence + count)
        for sequence in given_up:
            self.sends.append(send("invoke", 1, sequence, moment - MOMENT))
            self.sends.append(send("info", 1, sequence, moment))
        self.sequence += count
        return given_up

    def write(self, sequences: range) -> None:
        """They are appended, whatever the client knows."""
        for sequence in sequences:
            self.log.append(entry(self.end, 1, sequence, self.epoch))
            self.end += 1

    def append(self, count: int) -> None:
        """Records that are acked and kept, from a moment on when nothing is wrong."""
        for number in range(count):
            self.log.append(entry(self.end, 1, self.sequence, self.epoch))
            self.ack(self.now + 100 + number, self.end)
            self.end += 1

    def strike(self, fault: str, *brokers: int, until: float, destroys: str | None = None) -> str:
        number = len({row["fault_id"] for row in self.faults}) + 1
        self.faults += a_fault(
            self.now,
            until,
            fault_id=number,
            fault=fault,
            servers=tuple(f"broker-{broker}" for broker in brokers),
            destroys=destroys,
        )
        return f"{fault}#{number}"

    def elect(self, isr: tuple[int, ...], *, hears: bool = True) -> None:
        """Five seconds from now, the next broker, which holds all that stands in the log."""
        self.epoch += 1
        self.leader = isr[0]
        self.see(self.now + 5, self.leader, isr, hears=hears)

    def made(self) -> Made:
        return Made(sends=self.sends, log=self.log, end=self.end)

    def context(self) -> tuple[PartitionContext, Any]:
        whole = [dict.fromkeys(CLUSTER.names) | row for row in self.rows]
        around = PartitionSurroundings(
            observed=ClusterObservation(whole).of(PARTITION),
            faults=faults_of(self.faults),
            settle_ns=SETTLE_NS,
            clock_bound_ns=MOMENT,
        )
        settings = ALL if self.acks == "all" else {**ACKS_1, "acks": self.acks}
        planned = cell(settings).cell
        known = timeline(planned, PARTITION, around, self.words, ensemble=False)
        told = ContextSources(
            cell=planned,
            partition=PARTITION,
            around=around,
            timeline=known,
            roles=self.words,
            truncations=self.truncations,
            orders=self.orders,
            absences=absences(whole),
            logs=(),
            readers_bound=MOMENT,
        )
        return partition_context(told), known

    def root_causes(self) -> RootCauses:
        around, known = self.context()
        return explain_lost(indexed(self.made(), timeline=known), around, ALWAYS_VALID)


_Way = Callable[["World", int, int], str]
"""How so many records are lost when that broker leads next. Returns the fault."""


def lose(
    world: World, kind: CauseKind, count: int, appended: int, late: int = 0, way: _Way | None = None
) -> None:
    """So many records are acked and lost; then so many are appended by the next leader, behind so
    many that came ``late``: they were given up before. ``way``: None for the usual one."""
    world.now += ERA_S
    given_up = world.give_up(late, -100)
    leader, epoch, begins = world.leader, world.epoch, world.end
    other = leader % 3 + 1
    sequences = range(world.sequence, world.sequence + count)
    fault = (way or _WAYS[kind])(world, other, count)
    assert world.leader == other
    truncation = ReplicaTruncation(
        broker=leader,
        leader=other,
        leader_epoch=world.epoch,
        log_end=begins + count,
        offset=begins,
        due_to=f"leader epoch {epoch} and offset {begins}",
    )
    world.truncations += [truncation] if world.speaks else []
    world.write(given_up)
    world.append(appended)
    world.see(world.now + 90, other, (1, 2, 3))
    world.planted.append(
        Planted(
            kind=kind,
            sequences=sequences,
            epoch=epoch,
            leader=leader,
            next_leader=other,
            next_offset=begins,
            fault=fault,
            cut_by=[leader] if world.speaks else [],
            rewritten=late + appended >= count,
        )
    )


def change_leader(world: World, count: int) -> range:
    """The leader is cut off and replaced. Nothing is lost, and the next leader acks so many records
    before the former one must have heard of it. Return their sequence numbers."""
    world.now += ERA_S
    former, other = world.leader, world.leader % 3 + 1
    world.strike("isolate", former, until=world.now + 30)
    world.elect((other, other % 3 + 1))
    sequences = range(world.sequence, world.sequence + count)
    for number in range(count):
        world.log.append(entry(world.end, 1, world.sequence, world.epoch))
        world.ack(world.now + 5.5 + number / 1000, world.end)
        world.end += 1
    world.see(world.now + 90, other, (1, 2, 3))
    return sequences


def deduplicate(world: World, count: int, elected: int = 0) -> range:
    """So many records are acked at the offsets of others, which were given up, so many elections
    before; they are nowhere. Each leader appends a record."""
    world.now += ERA_S
    begin = world.end
    world.write(world.give_up(count))
    for _ in range(elected):
        world.now += ERA_S
        world.elect((world.leader % 3 + 1, world.leader))
        world.append(1)
    world.now += ERA_S
    sequences = range(world.sequence, world.sequence + count)
    for number in range(count):
        world.ack(world.now + number, begin + number)
    world.append(1)
    return sequences


def _lost(world: World, count: int, seconds: float) -> None:
    for number in range(count):
        world.ack(world.now + seconds + number / 1000, world.end + number)


def _deposed(world: World, other: int, count: int) -> str:
    """Cut off, it goes on acking; the last of all when another one had been seen to lead."""
    fault = world.strike("isolate", world.leader, until=world.now + 30)
    _lost(world, count, 5.5)
    world.elect((other, other % 3 + 1))
    return fault


def _not_fetched(world: World, other: int, count: int) -> str:
    fault = world.strike("kill", world.leader, until=world.now + 20)
    _lost(world, count, -0.5)
    world.elect((other, other % 3 + 1))
    return fault


def _unclean(world: World, other: int, count: int) -> str:
    world.see(world.now - 50, world.leader, (world.leader,))
    fault = world.strike("kill", world.leader, until=world.now + 20)
    _lost(world, count, -0.5)
    world.elect((other,))
    return fault


def _from_disk(world: World, other: int, count: int) -> str:
    brokers = (world.leader, other)
    fault = world.strike("power-failure", *brokers, until=world.now + 20, destroys="unsynced")
    _lost(world, count, -0.5)
    world.elect((other, other % 3 + 1))
    return fault


def _truncation_before(world: World, other: int, count: int) -> str:
    """KIP-101: a follower that has them restarts, cuts at its high watermark, and is elected."""
    truncation = ReplicaTruncation(
        broker=other,
        leader=world.leader,
        leader_epoch=world.epoch,
        log_end=world.end + count,
        offset=world.end,
        due_to="local high watermark",
    )
    world.truncations.append(truncation)
    return _not_fetched(world, other, count)


def cut_for_one_that_never_heard(world: World, other: int, count: int) -> str:
    """Plant the same loss, by a truncation of a follower of the third broker, which is killed
    before it hears of its election."""
    leader, third = world.leader, other % 3 + 1
    fault = world.strike("kill", leader, until=world.now + 20)
    _lost(world, count, -0.5)
    world.elect((third, other), hears=False)
    truncation = ReplicaTruncation(
        broker=other,
        leader=third,
        leader_epoch=world.epoch,
        log_end=world.end + count,
        offset=world.end,
        due_to="local high watermark",
    )
    world.truncations.append(truncation)
    world.now += 5
    world.elect((other,))
    return fault


def _let_in(world: World, other: int, count: int) -> str:
    """KAFKA-7128: the third, which has them, leads with a watermark that lags, and lets the other
    one in, which does not."""
    leader, third = world.leader, other % 3 + 1
    world.see(world.now - 50, leader, (leader, third))
    fault = world.strike("kill", leader, until=world.now + 20)
    _lost(world, count, -0.5)
    world.end += count
    world.elect((third,))
    world.end -= count
    world.see(world.now + 15, third, (third, other))
    world.now += 20
    world.elect((other,))
    return fault


_WAYS: dict[CauseKind, _Way] = {
    CauseKind.DEPOSED_LEADER: _deposed,
    CauseKind.NOT_REPLICATED: _not_fetched,
    CauseKind.UNCLEAN_ELECTION: _unclean,
    CauseKind.LOST_FROM_DISK: _from_disk,
    CauseKind.TRUNCATED_BEFORE_LEADING: _truncation_before,
    CauseKind.ISR_EXPANDED_TOO_EARLY: _let_in,
    CauseKind.UNEXPLAINED: _not_fetched,
}
