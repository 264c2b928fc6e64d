"""The types of numbers and names that every part of the broker uses.

Integers with different meanings have different types, so that an offset is never passed as an
epoch. All of them are plain ``int`` at run time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NewType, TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")

Offset = NewType("Offset", int)
"""The position of a record in a partition's log, from 0."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""The generation of a partition's leadership, which grows by one with every new leader. -1 means
unknown."""

ControllerEpoch = NewType("ControllerEpoch", int)
"""The generation of the controller, from ``/controller_epoch``."""

BrokerId = NewType("BrokerId", int)
"""``broker.id``; also the replica id, because a broker holds at most one replica of a partition."""

ProducerId = NewType("ProducerId", int)
"""The id of an idempotent producer, for as long as it runs, from InitProducerId."""

ZkVersion = NewType("ZkVersion", int)
"""The version of a znode, for conditional writes. Kafka calls that of a partition state its
partition epoch."""

Millis = NewType("Millis", int)
"""A moment or a span in milliseconds of the caller's clock."""

NO_LEADER = BrokerId(-1)
LEADER_DURING_DELETE = BrokerId(-2)
"""A stand-in for a leader in UpdateMetadata: the topic is being deleted, and the partition must be
forgotten."""
NO_EPOCH = LeaderEpoch(-1)
NO_CONTROLLER_EPOCH = ControllerEpoch(-1)
NO_BROKER_EPOCH = -1
"""A stand-in for an epoch, if there is none or it is unknown."""
NO_OFFSET = Offset(-1)
EARLIEST_TIMESTAMP = -2
"""A stand-in for a time in ListOffsets: the log's start."""
LATEST_TIMESTAMP = -1
"""A stand-in for a time in ListOffsets: the end of the log, as far as the requester may read."""


class TopicPartition(NamedTuple):
    """A partition, for example ``TopicPartition("orders", 0)``, which prints as ``orders-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition of the topic that has this id, and of none that had or will have its name.

    ``topic`` has the id's 16 bytes: unlike those of a ``UUID`` their hash is computed once.
    """

    topic: bytes
    partition: int


NamedPartition: TypeAlias = TopicPartition | TopicIdPartition
"""A partition as requests name it: up to Fetch v12 by its topic's name, from v13 on by its id
(KIP-516)."""


@dataclass_transform(frozen_default=True)
def value(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Return a decorator for a dataclass with slots and a hash, whose fields must not be set.

    Only mypy checks that. A check at run time would make an object two and a half times as slow to
    build, and a produce request has a dozen of these.
    """
    return dataclass(slots=True, kw_only=kw_only, unsafe_hash=True)
