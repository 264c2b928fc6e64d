"""Messages under way. Any of them may be next, be lost, or come twice."""

import random
from dataclasses import dataclass

from ackproof.broker.replication.events import (
    EpochEndOffset,
    Fetched,
    FetchOutOfRange,
    IsrWriteFailed,
    IsrWritten,
    LeaderAndIsr,
    WriteIsr,
)
from ackproof.broker.types import BrokerId, LeaderEpoch, Offset

ZOOKEEPER = BrokerId(1_000)
CONTROLLER = BrokerId(1_001)


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A follower's fetch (KIP-320: with the epoch it presumes)."""

    leader_epoch: LeaderEpoch
    offset: Offset
    log_start_offset: Offset


@dataclass(frozen=True, slots=True)
class EpochRequest:
    """OffsetForLeaderEpoch."""

    leader_epoch: LeaderEpoch
    epoch: LeaderEpoch


ToReplica = Fetched | EpochEndOffset | FetchOutOfRange | LeaderAndIsr | IsrWritten | IsrWriteFailed
Body = FetchRequest | EpochRequest | WriteIsr | ToReplica


@dataclass(frozen=True, slots=True)
class Message:
    """``life``: of the broker, as its source (for a request) or its target (for all else).

    An answer ends with the connection that the question came by, a controller's word with the
    registration it was meant for (KIP-380); neither reaches a broker's next life.
    """

    source: BrokerId
    target: BrokerId
    partition: int
    body: Body
    life: int

    @property
    def is_isr_write(self) -> bool:
        """One that goes over a ZooKeeper session: never doubled, and a loss is noticed."""
        return isinstance(self.body, WriteIsr | IsrWritten | IsrWriteFailed)


class Network:
    def __init__(self, rng: random.Random) -> None:
        self.under_way: list[Message] = []
        self.cut: set[tuple[BrokerId, BrokerId]] = set()
        self._rng = rng

    def send(self, message: Message) -> None:
        self.under_way.append(message)

    def take(self) -> Message:
        """Any message, out of order."""
        index = self._rng.randrange(len(self.under_way))
        self.under_way[index], self.under_way[-1] = self.under_way[-1], self.under_way[index]
        return self.under_way.pop()

    def reaches(self, message: Message) -> bool:
        return (message.source, message.target) not in self.cut
