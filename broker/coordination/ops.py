"""What a write to ZooKeeper consists of; all of it is done, or none.

``expected`` is a version, ABSENT or ANY_VERSION (:mod:`broker.coordination.nodes`).
"""

import enum
import uuid
from dataclasses import dataclass
from typing import TypeAlias

from ackproof.broker.coordination.nodes import ABSENT, ANY_VERSION, Node, StateChangeRequest
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition, ZkVersion


class Result(enum.Enum):
    """What became of a :class:`Write`."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was done: a node was there or was not there, or had another version."""
    UNKNOWN = "unknown"
    """The connection was lost, or the session is over: done or not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The node is there, at this version (ANY_VERSION: at whatever version)."""

    node: Node
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLeader:
    """Create the ephemeral ``leader`` with this broker's id; ``epoch`` -1: without one."""

    partition: TopicPartition
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLeader:
    """Overwrite ``leader``, which is there, with this broker's id and an epoch: at whatever
    version, and whoever's node it is. Only as printed."""

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
    those that are ``removing``.

    Parents (``/brokers/topics/T/P``, ``/brokers/partitions_reassigned/T``) are created as needed.
    """

    node: Node
    replicas: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...] = ()
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the node, if it is at this version; REFUSED if it is not there.

    With the last ``partitions_reassigned`` of a topic its parent may go, too.
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
    """Take an entry out of a broker's queue. It may be gone already: that is no refusal of a
    write that consists of nothing but these, of any other it is."""

    broker: BrokerId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create ``/brokers/topics/T`` with a new id, or give one that is there a new one.

    ``expected``: its version; ABSENT: REFUSED if it is there.
    """

    topic: str
    expected: ZkVersion = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeTopic:
    """Write ``/brokers/topics/T`` as it is, if it is at this version: the next one is the
    writer's."""

    topic: str
    topic_id: uuid.UUID | None
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePartition:
    """Delete ``/brokers/topics/T/P`` with all that is in it, if it is there."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete ``/brokers/topics/T`` if it is there and has no partitions, and its settings; and
    ``/brokers/partitions_reassigned/T`` if it has no children.

    ``expected``: the version at which it has to be there, without partitions, or it is REFUSED.
    """

    topic: str
    expected: ZkVersion = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveBroker:
    """Delete the broker's queue with all that is in it, if it is there.

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
    """Return the partition that an op is about; None if it is about a topic or a queue's entry."""
    match op:
        case Check() | PutAssigned() | Delete():
            return op.node.partition
        case CreateLeader() | SetLeader() | PutIsr() | DeletePartition():
            return op.partition
        case Enqueue():
            return op.request.partition
        case _:
            return None
