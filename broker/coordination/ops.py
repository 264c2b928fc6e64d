"""The operations of a write to ZooKeeper, which are all done, or none.

``expected`` is a version, ABSENT or ANY_VERSION (:mod:`broker.coordination.nodes`).
"""

import enum
import uuid
from dataclasses import dataclass
from typing import TypeAlias

from ackproof.broker.coordination.nodes import ABSENT, ANY_VERSION, Node, StateChangeRequest
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition, ZkVersion


class Result(enum.Enum):
    """The outcome of a :class:`Write`."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was done: a node existed or did not exist, or had another version."""
    UNKNOWN = "unknown"
    """The connection was lost, or the session is over: the write may be done or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Require that the node exists at this version (ANY_VERSION: at any version)."""

    node: Node
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLeader:
    """Create the ephemeral ``leader`` with this broker's id, and without an epoch if it is -1."""

    partition: TopicPartition
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLeader:
    """Overwrite an existing ``leader`` with this broker's id and an epoch, whatever its version and
    owner. Only as printed."""

    partition: TopicPartition
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class PutIsr:
    """Write ``ISR``."""

    partition: TopicPartition
    isr: tuple[BrokerId, ...]
    epoch: LeaderEpoch
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class PutAssigned:
    """Write ``replicas`` or ``partitions_reassigned`` (an empty list: delete the partition), with
    the brokers that are ``removing``.

    Parents (``/brokers/topics/T/P``, ``/brokers/partitions_reassigned/T``) are created if
    necessary.
    """

    node: Node
    replicas: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...] = ()
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the node if it is at this version. REFUSED if it does not exist.

    With the last ``partitions_reassigned`` of a topic its parent may be deleted, too.
    """

    node: Node
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Put a request at the end of the broker's queue: a persistent sequential znode.

    REFUSED if there is no ``/brokers/state/N``.
    """

    broker: BrokerId
    request: StateChangeRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Dequeue:
    """Take an entry out of a broker's queue. It may be gone already. That rejects a write with
    other operations, but not one that consists only of these."""

    broker: BrokerId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create ``/brokers/topics/T`` with a new id, or give an existing topic a new one.

    ``expected`` is its version. With ABSENT the write is REFUSED if it exists.
    """

    topic: str
    expected: ZkVersion = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeTopic:
    """Write ``/brokers/topics/T`` unchanged if it is at this version. The next version is then the
    writer's."""

    topic: str
    topic_id: uuid.UUID | None
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePartition:
    """Delete ``/brokers/topics/T/P`` with its content, if it exists."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete ``/brokers/topics/T`` with its settings if it exists and has no partitions, and
    ``/brokers/partitions_reassigned/T`` if it has no children.

    ``expected`` is the version at which it must exist, without partitions, or the write is REFUSED.
    """

    topic: str
    expected: ZkVersion = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveBroker:
    """Delete the broker's queue with its content, if it exists.

    REFUSED if the broker is registered.
    """

    broker: BrokerId


Op: TypeAlias = (
    Check
    | CreateLeader
    | SetLeader
    | PutIsr
    | PutAssigned
    | Delete
    | Enqueue
    | Dequeue
    | CreateTopic
    | TakeTopic
    | DeletePartition
    | DeleteTopic
    | RemoveBroker
)


def partition_of(op: Op) -> TopicPartition | None:
    """Return the partition that an op concerns, or None if it is about a topic or a queue's
    entry."""
    match op:
        case Check() | PutAssigned() | Delete():
            return op.node.partition
        case CreateLeader() | SetLeader() | PutIsr() | DeletePartition():
            return op.partition
        case Enqueue():
            return op.request.partition
        case _:
            return None
