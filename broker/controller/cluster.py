"""What ZooKeeper holds about the cluster, as values.

Shared by the controller, which decides on them, and by the server, which reads and writes them.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion

SECURITY_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""As ZooKeeper names them, with their numbers in requests."""

NEVER_READ: Final = -1
"""In place of a transaction's number: this was written by us, and not read again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One listener of a broker, e.g. ``PLAINTEXT://node1:9092``."""

    host: str
    port: int
    listener: str = "PLAINTEXT"
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """How a broker presents itself in ``/brokers/ids``; ``endpoints`` has at least one."""

    broker_id: BrokerId
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBroker:
    """A registered broker. ``epoch`` is the czxid of its znode: each registration has its own."""

    info: BrokerInfo
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """Content of ``/brokers/topics/T/partitions/P/state`` with the version it was read at."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch
    """Epoch of the controller that last wrote the state."""
    zk_version: ZkVersion
    broker_epochs: Mapping[BrokerId, int] = field(default_factory=dict)
    """As which incarnation each member is in the ISR. Whoever writes the state for another reason
    leaves it as it is. Empty when another make of broker wrote the state."""
    mzxid: int = field(default=NEVER_READ, compare=False)
    """ZooKeeper's transaction that last wrote the znode, on the scale of ``LiveBroker.epoch``."""

    def trusted_up_to(self, member: BrokerId) -> int:
        """The broker epoch as which ``member`` is in the ISR, at most. One that has a later epoch
        now was away since, and may have lost what it had."""
        return self.broker_epochs.get(member, self.mzxid)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaAssignment:
    """Where a partition's replicas are, the preferred one first.

    During a reassignment (KIP-455) ``replicas`` holds old and new ones, ``adding`` and
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
    """Content of ``/brokers/topics/T``. ``topic_id`` is None for topics older than KIP-516."""

    topic_id: uuid.UUID | None
    partitions: Mapping[int, ReplicaAssignment]
