"""What waits until nothing is being written of certain partitions: answers, and deletions.

Who asks hears of what was written, and not of what was decided: a write may meet a conflict. Until
then what is to be said is a value here. What is made of it is :mod:`broker.controller.controller`'s
to know, when it is settled.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from ackproof.broker.controller.events import Outcome
from ackproof.broker.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingShutdown:
    """``broker`` waits for the leaderships it had to be elsewhere."""

    partitions: tuple[TopicPartition, ...]
    broker: BrokerId
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOrder:
    """``/admin/preferred_replica_election`` stays until it was carried out."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingElection:
    """A client waits for these elections; of others it is told that they were ``refused``."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool
    refused: Mapping[TopicPartition, Outcome]
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDeletion:
    """A topic whose brokers are told to delete it when no leader is being written any more."""

    topic: str
    partitions: tuple[TopicPartition, ...]


Pending = PendingShutdown | PendingOrder | PendingElection | PendingDeletion


class Pendings:
    """All that waits, in the order in which it came."""

    def __init__(self) -> None:
        self._waiting: tuple[Pending, ...] = ()

    def add(self, pending: Pending) -> None:
        """It may be settled already."""
        self._waiting += (pending,)

    def take_settled(self, writing: Container[TopicPartition]) -> tuple[Pending, ...]:
        """Those of whose partitions none is among ``writing``; they wait no more."""
        settled = tuple(p for p in self._waiting if not any(tp in writing for tp in p.partitions))
        self._waiting = tuple(pending for pending in self._waiting if pending not in settled)
        return settled
