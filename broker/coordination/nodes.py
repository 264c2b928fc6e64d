"""The nodes of ZooKeeper for a partition and a broker, as values (*Design V2*, "Paths stored in
Zookeeper").

The server reads them, and this package decides on them. A node is named by its meaning, not by its
path:

==============================================  =============================================
``/brokers/topics/T/P/replicas``                ``Node(REPLICAS, tp)``: ids, the preferred first
``/brokers/topics/T/P/leader`` (ephemeral)      ``Node(LEADER, tp)``: broker id and epoch
``/brokers/topics/T/P/ISR``                     ``Node(ISR, tp)``: ids and epoch
``/brokers/partitions_reassigned/T/P``          ``Node(REASSIGNED, tp)``: ids; none: delete it.
                                                And those that are ``removing``
``/brokers/state/N``                            a queue: ``QueuedRequest``, in the order of names
==============================================  =============================================
"""

import enum
import uuid
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition, ZkVersion

ANY_VERSION: Final = ZkVersion(-1)
"""Any version, as in ZooKeeper. A write creates the node if it does not exist."""

ABSENT: Final = ZkVersion(-2)
"""A stand-in for a version: the node does not exist, and the write creates it."""

ADMIN: Final = BrokerId(-1)
"""A stand-in for a leader's id, if an admin command sends a state change request."""

ADMIN_EPOCH: Final = LeaderEpoch(-1)
"""The epoch that admin commands send (``sendStateChange(..., -1)``)."""


class Kind(enum.Enum):
    """The kinds of a partition's nodes."""

    REPLICAS = "replicas"
    LEADER = "leader"
    ISR = "ISR"
    REASSIGNED = "partitions_reassigned"


class Node(NamedTuple):
    """One node of one partition."""

    kind: Kind
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderNode:
    """The content of ``leader``. An ``epoch`` of -1 means that the claim has no epoch yet (as
    printed, these are two writes).

    Its ``version`` does not distinguish leaders, because each creates the node at version 0. To
    verify that no broker has claimed since, check the version of ``ISR``.
    """

    broker: BrokerId
    epoch: LeaderEpoch
    owner: int
    """The ZooKeeper session that the ephemeral node belongs to."""
    version: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrNode:
    """The content of ``ISR``: the replicas in sync, and the latest epoch of the partition."""

    isr: tuple[BrokerId, ...]
    epoch: LeaderEpoch
    version: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The content of ``replicas`` or ``partitions_reassigned``: broker ids, the preferred replica
    first.

    ``removing`` belongs to ``partitions_reassigned`` (KIP-455; not in the document). It has the
    brokers that a former RAR named, and that neither AR nor this one names. Each may have been
    started. ``created`` is the transaction that created the node (``czxid``). Each order creates
    ``partitions_reassigned`` again, so that orders with the same brokers can be distinguished.
    """

    replicas: tuple[BrokerId, ...]
    version: ZkVersion
    removing: tuple[BrokerId, ...] = ()
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition's nodes as just read, one after the other and not at one moment. None means
    absent.

    A decision by them must be written under the versions of the nodes that matter.
    """

    replicas: Assigned | None = None
    leader: LeaderNode | None = None
    isr: IsrNode | None = None
    reassigned: Assigned | None = None
    topic_id: uuid.UUID | None = field(default=None, compare=False)
    """The id of the topic (KIP-516), which exists before its partitions and after them."""

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        """AR, the assigned replicas."""
        return self.replicas.replicas if self.replicas else ()

    @property
    def moving_to(self) -> tuple[BrokerId, ...] | None:
        """RAR. Empty means that the partition must be deleted, and None that there is no
        reassignment."""
        return self.reassigned.replicas if self.reassigned else None

    @property
    def removing(self) -> tuple[BrokerId, ...]:
        """The brokers that keep a replica of a reassignment that another has replaced."""
        return self.reassigned.removing if self.reassigned else ()

    @property
    def is_closing(self) -> bool:
        """Whether the partition is being deleted, and its close-replicas are sent. The fenced
        leader shows that by writing ``partitions_reassigned`` once more."""
        return self.moving_to == () and self.reassigned is not None and self.reassigned.version > 0

    @property
    def all_replicas(self) -> tuple[BrokerId, ...]:
        """AR and the new members of RAR: all replicas whose fetches count."""
        coming = self.moving_to or ()
        return (*self.assigned, *(broker for broker in coming if broker not in self.assigned))

    def hosts(self, broker: BrokerId) -> bool:
        """Return whether ``broker`` has a replica of it, or will have one."""
        return broker in self.all_replicas


class Change(enum.Enum):
    """Kinds of state change requests."""

    START_REPLICA = "start-replica"
    CLOSE_REPLICA = "close-replica"
    ISR_CHANGED = "isr-changed"
    """A replica left the ISR by itself, and the leader must read it. Fenced only; not in the
    document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChangeRequest:
    """A request in a broker's queue, sent by ``leader`` in its ``epoch``."""

    change: Change
    partition: TopicPartition
    leader: BrokerId
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """An entry of ``/brokers/state/N``. ``name`` is its znode's. The names sort in the order of
    arrival."""

    name: str
    request: StateChangeRequest
