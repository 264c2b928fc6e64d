"""Names of the things every part of the broker talks about.

Integers that mean different things have different types, so that an offset is never passed where
an epoch is meant. All of them are plain ``int`` at run time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, NewType, TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")

Offset = NewType("Offset", int)
"""Position of a record in a partition's log, from 0."""

LeaderEpoch = NewType("LeaderEpoch", int)
"""Generation of a partition's leadership; grows by one with every new leader. -1: unknown."""

ControllerEpoch = NewType("ControllerEpoch", int)
"""Generation of the controller, from ``/controller_epoch``."""

BrokerId = NewType("BrokerId", int)
"""``broker.id``; also the replica id, since a broker holds at most one replica of a partition."""

ProducerId = NewType("ProducerId", int)
"""An idempotent producer, for as long as it runs; from InitProducerId."""

ZkVersion = NewType("ZkVersion", int)
"""Version of a znode, for conditional writes. Kafka calls that of a partition state its
partition epoch."""

Millis = NewType("Millis", int)
"""A moment or a span in milliseconds of whatever clock the caller feeds in."""

NO_LEADER = BrokerId(-1)
LEADER_DURING_DELETE = BrokerId(-2)
"""In place of a leader, in UpdateMetadata: the topic is being deleted, forget the partition."""
NO_EPOCH = LeaderEpoch(-1)
NO_CONTROLLER_EPOCH = ControllerEpoch(-1)
NO_BROKER_EPOCH = -1
"""In place of a controller's epoch, where there is none, or none is known."""
NO_OFFSET = Offset(-1)
EARLIEST_TIMESTAMP = -2
"""In ListOffsets, in place of a time: where does the log begin?"""
LATEST_TIMESTAMP = -1
"""Where does it end, as far as whoever asks may read?"""


class TopicPartition(NamedTuple):
    """A partition, e.g. ``TopicPartition("orders", 0)``; prints as ``orders-0``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition of the topic that has this id, and of none that had or will have its name.

    ``topic`` are the id's 16 bytes: unlike those of a ``UUID`` their hash is computed once.
    """

    topic: bytes
    partition: int


NamedPartition: TypeAlias = TopicPartition | TopicIdPartition
"""A partition as requests name it: up to Fetch v12 by its topic's name, from v13 on by its
id (KIP-516)."""


@dataclass_transform(frozen_default=True)
def value(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """A dataclass with slots and a hash, whose fields nobody sets.

    That they are not set is mypy's to see. At run time it would make an object two and a half times
    as slow to build, and of these a produce request has a dozen.
    """
    return dataclass(slots=True, kw_only=kw_only, unsafe_hash=True)
