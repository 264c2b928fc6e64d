"""The content of ZooKeeper about the cluster, as values.

The controller decides on these values, and the server reads and writes them.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The names of the protocols in ZooKeeper, with their numbers in requests."""

NEVER_READ: Final = -1
"""A stand-in for a transaction's number: the state was written by this broker, and not read
again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One listener of a broker, e.g. ``PLAINTEXT://node1:9092``."""

    host: str
    port: int
    listener: str = "PLAINTEXT"
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """The registration of a broker in ``/brokers/ids``. ``endpoints`` has at least one entry."""

    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBroker:
    """A registered broker. ``epoch`` is the czxid of its znode, which differs for each
    registration."""

    info: BrokerInfo
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The content of ``/brokers/topics/T/partitions/P/state``, with the version that was read."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch
    """The epoch of the controller that last wrote the state."""
    zk_version: ZkVersion
    broker_epochs: Mapping[BrokerId, int] = field(default_factory=dict)
    """The broker epoch under which each member is in the ISR. A write for another reason leaves it
    as it is. It is empty when another make of broker wrote the state."""
    mzxid: int = field(default=NEVER_READ, compare=False)
    """ZooKeeper's transaction that last wrote the znode, on the scale of ``LiveBroker.epoch``."""

    def trusted_up_to(self, member: BrokerId) -> int:
        """Return the latest broker epoch under which ``member`` can be in the ISR. If it has a
        later epoch now, it has restarted since, and may have lost records."""
        return self.broker_epochs.get(member, self.mzxid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAssignment:
    """The replicas of a partition, the preferred one first.

    During a reassignment (KIP-455) ``replicas`` holds the old and the new ones, and ``adding`` and
    ``removing`` say which are which.
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The replicas that will remain."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAssignment:
    """The content of ``/brokers/topics/T``. ``topic_id`` is None for topics older than KIP-516."""

    topic_id: uuid.UUID | None
    partitions: Mapping[int, ReplicaAssignment]
