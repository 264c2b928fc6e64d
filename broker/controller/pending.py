"""Actions that wait until no write for certain partitions is pending: answers and deletions.

A requester is told what was written, and not what was decided, because a write may meet a conflict.
Until then the action is a value here. :mod:`broker.controller.controller` carries it out when the
writes are settled.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass

from ackproof.broker.controller.events import Outcome
from ackproof.broker.types import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingShutdown:
    """``broker`` waits until other brokers have its leaderships."""

    partitions: tuple[TopicPartition, ...]
    broker: BrokerId
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOrder:
    """``/admin/preferred_replica_election`` stays until its elections are done."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingElection:
    """A client waits for these elections. It is told of others that they were ``refused``."""

    partitions: tuple[TopicPartition, ...]
    unclean: bool
    refused: Mapping[TopicPartition, Outcome]
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDeletion:
    """A topic to be deleted from its brokers once no leader is being written any more."""

    topic: str
    partitions: tuple[TopicPartition, ...]


Pending = PendingShutdown | PendingOrder | PendingElection | PendingDeletion


class Pendings:
    """All waiting actions, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: tuple[Pending, ...] = ()

    def add(self, pending: Pending) -> None:
        """Add an action, which may be settled already."""
        self._waiting += (pending,)

    def take_settled(self, writing: Container[TopicPartition]) -> tuple[Pending, ...]:
        """Remove and return the actions that have no partition among ``writing``."""
        settled = tuple(p for p in self._waiting if not any(tp in writing for tp in p.partitions))
        self._waiting = tuple(pending for pending in self._waiting if pending not in settled)
        return settled
