"""Records that stand in a log more than once, each for a known reason: what clients, raw logs and
ZooKeeper would tell of them, and what a root cause analysis has to find."""

from dataclasses import dataclass, field, replace
from typing import Any

from ackproof.checkers.context.timeline import PartitionTimeline
from ackproof.checkers.context.validity import ALWAYS_VALID
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.checkers.index.raw_logs import ProducerPosition, Session
from ackproof.checkers.root_cause.duplicates import explain_duplicates
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.missing_records import RootCauses
from ackproof.checkers.root_cause.partition_context import (
    ContextFault,
    LeadershipTerm,
    PartitionContext,
    PartitionProducers,
)
from tests.support.builders.histories import SECOND, Entry, Made, Send, at, entry, indexed, send

ERA_S = 1_000
"""Between two bursts: whatever was under way is answered. Each has two epochs, the second of which
begins five seconds after the first record was sent."""

NOT_IDEMPOTENT = (-1, -1)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """The expected findings of a burst."""

    kind: CauseKind
    sequences: range
    epochs: list[int]
    first: int


@dataclass(kw_only=True)
class World:
    """A partition of brokers 1, 2, 3, which lead in turn, and one producer."""

    idempotent: bool
    retries: int = -1
    end: int = 0
    sequence: int = 0
    number: int = 0
    leadership_terms: list[LeadershipTerm] = field(default_factory=list)
    faults: list[ContextFault] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    written: dict[int, ProducerPosition] = field(default_factory=dict)
    planted: list[Planted] = field(default_factory=list)

    @property
    def now(self) -> float:
        return self.number * ERA_S

    def era(self) -> None:
        self.number += 1
        for epoch, since in ((2 * self.number, 0.0), (2 * self.number + 1, 105.0)):
            moment = at(self.now + since)
            term = LeadershipTerm(
                epoch=epoch,
                leader=epoch % 3 + 1,
                seen=moment,
                elected_after=moment - SECOND,
                deposed=moment + ERA_S * SECOND,
                log_end=self.end,
            )
            self.leadership_terms.append(term)

    def append(self, count: int, first: int, epoch: int, session: Session, shift: int) -> None:
        """Copies of records from ``first`` on; ``shift``: of the producer's own numbers."""
        for sequence in range(first, first + count):
            self.log.append(entry(self.end, 1, sequence, epoch))
            number = -1 if session == NOT_IDEMPOTENT else sequence + shift
            self.written[self.end] = ProducerPosition(*session, number)
            self.end += 1

    def send(self, count: int, first: int, offset: int, seconds: float) -> None:
        """Each is acked so long after it was sent."""
        for number in range(count):
            asked = at(self.now + 100 + number / 1000)
            answered = asked + int(seconds * SECOND)
            self.sends.append(send("invoke", 1, first + number, asked))
            self.sends.append(send("ok", 1, first + number, answered, offset + number))

    @property
    def context(self) -> PartitionContext:
        sender = PartitionProducers(
            client="librdkafka",
            idempotent=self.idempotent,
            retries=self.retries,
            resends_after=SECOND // 20,
        )
        return PartitionContext(
            leadership_terms=self.leadership_terms, faults=self.faults, sender=sender
        )

    def history(self) -> PartitionHistory:
        made = Made(sends=self.sends, log=self.log, end=self.end)
        history = indexed(made, timeline=PartitionTimeline(acks="all", watched=True))
        return replace(history, written=self.written)

    def root_causes(self, **changes: Any) -> RootCauses:
        return explain_duplicates(self.history(), replace(self.context, **changes), ALWAYS_VALID)


@dataclass(frozen=True, kw_only=True)
class Way:
    """A cause of copies. ``later``: in the next epoch; ``answered``: seconds after the send;
    ``session``, ``shift``: of the second copy; ``fault``: of the disk of the broker that appended
    it."""

    kind: CauseKind
    later: bool = False
    answered: float = 8
    renewed: bool = False
    shift: int = 0
    fault: bool = False


EXPECTED = (
    Way(kind=CauseKind.RETRIED),
    Way(kind=CauseKind.RETRIED_AT_NEXT_LEADER, later=True),
)
NEVER_RESENT = (
    Way(kind=CauseKind.UNEXPLAINED, answered=0.002),
    Way(kind=CauseKind.UNEXPLAINED, later=True, answered=2),
)
NUMBERED = (
    Way(kind=CauseKind.NEW_SESSION, renewed=True),
    Way(kind=CauseKind.NEW_SESSION, renewed=True, later=True),
    Way(kind=CauseKind.RENUMBERED, shift=1_000),
    Way(kind=CauseKind.FORGOTTEN, later=True, fault=True),
    Way(kind=CauseKind.UNEXPLAINED),
    Way(kind=CauseKind.UNEXPLAINED, later=True),
)


def repeat(world: World, way: Way, count: int, once: int) -> None:
    """So many records stand twice; then so many are appended once."""
    world.era()
    first, begin, epoch = world.sequence, world.end, 2 * world.number
    session = (7, epoch) if world.idempotent else NOT_IDEMPOTENT
    again = (7, epoch + 1) if way.renewed else session
    world.append(count, first, epoch, session, 0)
    world.append(count, first, epoch + way.later, again, way.shift)
    world.send(count, first, begin + count, way.answered)
    world.append(once, first + count, epoch + way.later, again, 0)
    world.send(once, first + count, world.end - once, 8)
    world.sequence += count + once
    if way.fault:
        leader = world.leadership_terms[-1].leader
        struck = at(world.now + 103)
        fault = ContextFault(
            label=f"power-failure#{world.number}",
            servers=[f"broker-{leader}"],
            start=struck,
            end=struck + SECOND,
            took=struck,
        )
        world.faults.append(fault)
    world.planted.append(
        Planted(
            kind=way.kind,
            sequences=range(first, first + count),
            epochs=[epoch, epoch + way.later],
            first=begin,
        )
    )
