"""What ZooKeeper holds of a partition and of a broker, as values (seed 001, "Paths stored in
Zookeeper").

Read by the server and decided on here. A node is named by what it is, not by its path:

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
"""As in ZooKeeper: whatever version it has. Of a write: created where it is not there."""

ABSENT: Final = ZkVersion(-2)
"""In place of a version: the node is not there, and the write creates it."""

ADMIN: Final = BrokerId(-1)
"""In place of a leader's id, where an admin command sends a state change request."""

ADMIN_EPOCH: Final = LeaderEpoch(-1)
"""What admin commands send for an epoch (``sendStateChange(..., -1)``)."""


class Kind(enum.Enum):
    """Which of a partition's nodes."""

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
    """``leader``. ``epoch`` -1: the claim is there and its epoch not yet (as printed, they are
    two writes).

    Its ``version`` does not tell one leader from the next: the node is created anew with each, at
    version 0. Who wants to know that nobody has claimed since checks the version of ``ISR``.
    """

    broker: BrokerId
    epoch: LeaderEpoch
    owner: int
    """ZooKeeper session that the ephemeral node belongs to."""
    version: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrNode:
    """``ISR``: who is in sync, and the latest epoch of the partition."""

    isr: tuple[BrokerId, ...]
    epoch: LeaderEpoch
    version: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """``replicas`` or ``partitions_reassigned``: broker ids, the preferred replica first.

    ``removing``, of ``partitions_reassigned`` (KIP-455; not in the document): whom a former RAR
    named, and neither AR nor this one does. Each may have been started.

    ``created``: the transaction that made the node (``czxid``). Each order makes
    ``partitions_reassigned`` anew: it tells two that name the same apart.
    """

    replicas: tuple[BrokerId, ...]
    version: ZkVersion
    removing: tuple[BrokerId, ...] = ()
    created: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition's nodes as just read, one after the other and not at one moment; None: absent.

    Whoever decides by them writes under the versions of those that matter.
    """

    replicas: Assigned | None = None
    leader: LeaderNode | None = None
    isr: IsrNode | None = None
    reassigned: Assigned | None = None
    topic_id: uuid.UUID | None = field(default=None, compare=False)
    """Of the topic (KIP-516), which is there before its partitions and after them."""

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        """AR."""
        return self.replicas.replicas if self.replicas else ()

    @property
    def moving_to(self) -> tuple[BrokerId, ...] | None:
        """RAR; empty: to be deleted; None: no reassignment."""
        return self.reassigned.replicas if self.reassigned else None

    @property
    def removing(self) -> tuple[BrokerId, ...]:
        """Those that keep a replica for a reassignment that another has replaced."""
        return self.reassigned.removing if self.reassigned else ()

    @property
    def is_closing(self) -> bool:
        """It is to be deleted, and its close-replicas are out (the fenced leader says so by writing
        ``partitions_reassigned`` once more)."""
        return self.moving_to == () and self.reassigned is not None and self.reassigned.version > 0

    @property
    def all_replicas(self) -> tuple[BrokerId, ...]:
        """AR, and those of RAR that are new: all whose fetches count."""
        coming = self.moving_to or ()
        return (*self.assigned, *(broker for broker in coming if broker not in self.assigned))

    def hosts(self, broker: BrokerId) -> bool:
        """Whether ``broker`` has a replica of it, or is about to."""
        return broker in self.all_replicas


class Change(enum.Enum):
    """Kinds of state change requests."""

    START_REPLICA = "start-replica"
    CLOSE_REPLICA = "close-replica"
    ISR_CHANGED = "isr-changed"
    """Not in the document (fenced): a replica left the ISR by itself, the leader is to look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChangeRequest:
    """What is put into a broker's queue; ``leader`` sent it, in its ``epoch``."""

    change: Change
    partition: TopicPartition
    leader: BrokerId
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """An entry of ``/brokers/state/N``. ``name`` is its znode's; names sort as they were put."""

    name: str
    request: StateChangeRequest
