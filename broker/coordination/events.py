"""What goes into the coordination of one broker, and what comes out of it: the effects
(:mod:`~broker.coordination.effects`) and the writes they ask for (:mod:`~broker.coordination.ops`)
can be had from here, too.

:class:`~broker.coordination.coordinator.Coordinator` is fed one event at a time, with the time
(``step(event, now)``), and hands back effects. The contract with whoever feeds it:

- Effects that are about one partition (:func:`~broker.coordination.effects.partition_of`) are
  *begun* in the order given, and those that concern this broker's own replicas (``StartReplica``,
  ``Assume``, ``Tell``, ``StopReplica``) are *done* before the next one about that partition is
  begun. Other partitions' effects are not waited for, so that a slow disk holds up no leader change
  but its own partition's. What asks ZooKeeper is answered later, by an event.
- A ``Write`` about no partition (entries are taken out of a queue) is begun when the effects that
  the same step gave before it are done, ``RegisterBroker`` when all that were given are.
- Every :class:`Write` is answered by exactly one :class:`Written` with its token, also when its
  session is over (``UNKNOWN``).
- A read is tried again until it is answered, and dropped when its session ends: after
  :class:`SessionExpired` no answer from before it is fed.
- Answers may come in any order, but what is read after a write or another read was answered is not
  older than that (ZooKeeper's own order within a session). Reads may be older than what others
  have written: servers of ZooKeeper lag.
- A watch that fires means "look again". It may fire without a change, and late.
- A znode that cannot be understood is taken for absent and logged.
- ``Coordinator.next_tick`` is when it wants a :class:`Tick` at the latest; None: not at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ackproof.broker.coordination.effects import (
    Assume,
    CreateQueue,
    Effect,
    Fault,
    Lifecycle,
    ReadAssignments,
    ReadBrokers,
    ReadPartition,
    ReadQueue,
    ReadQueueSize,
    Refused,
    RegisterBroker,
    Stage,
    StartReplica,
    StopReplica,
    Tell,
    WatchProgress,
    WatchReassignments,
    Write,
)
from ackproof.broker.coordination.nodes import Assigned, Node, PartitionView, QueuedRequest
from ackproof.broker.coordination.ops import (
    Check,
    CreateLeader,
    CreateTopic,
    Delete,
    DeletePartition,
    DeleteTopic,
    Dequeue,
    Enqueue,
    Op,
    PutAssigned,
    PutIsr,
    RemoveBroker,
    Result,
    SetLeader,
    TakeTopic,
)
from ackproof.broker.replication import events as replication
from ackproof.broker.types import BrokerId, LeaderEpoch, Offset, TopicPartition, ZkVersion

# --- events ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """There is a ZooKeeper session, the first one or after an expiry: start-up begins
    ("Broker startup")."""

    session: int
    """Its id, to be compared with :attr:`LeaderNode.owner`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpired:
    """The session is over, and with it this broker's ephemeral nodes: others may lead already.

    To be fed as soon as it is known, before anything of the next session.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChanged:
    """The child watch on this broker's own queue fired ("State-change listener")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRead:
    """Answer to :class:`ReadQueue`, with its token: all entries, in the order of their names.

    Entries that cannot be understood are left out (and deleted by whoever reads).
    """

    token: int
    entries: tuple[QueuedRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSizeRead:
    """Answer to :class:`ReadQueueSize`; 0 if there is no such queue."""

    broker: BrokerId
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentsRead:
    """Answer to :class:`ReadAssignments`: the partitions that name this broker, in ``replicas`` or
    in ``partitions_reassigned``."""

    mine: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    """A watch that :class:`ReadPartition` left has fired ("Leader-change listener")."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """Answer to :class:`ReadPartition`, with its token."""

    token: int
    view: PartitionView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentsRead:
    """All of ``/brokers/partitions_reassigned``, as read when :class:`WatchReassignments` was
    carried out and whenever a child watch on it or on one of its topics fires
    ("Partition-reassigned listener")."""

    orders: Mapping[TopicPartition, Assigned]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersRead:
    """The children of ``/brokers/ids``: answer to :class:`ReadBrokers`, and to be fed whenever some
    come or go (by the one watch on them that a broker has, to know where the others are)."""

    live: frozenset[BrokerId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Answer to :class:`Write`."""

    token: int
    result: Result
    versions: Mapping[Node, ZkVersion] = field(default_factory=dict)
    """When DONE: the versions of the nodes that were put."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAsked:
    """A replica of this broker leads and wants another ISR (``replication.WriteIsr``).

    Answered by :class:`Tell` with ``IsrWritten``, ``IsrWriteFailed`` or ``IsrRefused``, perhaps in
    the same step.
    """

    partition: TopicPartition
    asked: replication.WriteIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the followers of a partition are that this broker leads.

    To be fed while :class:`WatchProgress` asks for it: when it begins to, whenever one of the
    partition's replicas has fetched, and every half second or so.
    """

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    log_end: Offset
    high_watermark: Offset
    ends: Mapping[BrokerId, Offset]
    """Log ends of the followers as the leader knows them, -1 before their first fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRefused:
    """The replica could not take on the role of :class:`Assume` (its log belongs to another topic,
    a disk is broken). If it was to lead, the leadership is given up. It is tried again later."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownAsked:
    """This broker is about to stop in an orderly way: it gives up what it leads.

    Done when :attr:`Coordinator.leading` is empty; it claims nothing any more.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time passed: ``Coordinator.next_tick``."""


Event: TypeAlias = (
    SessionStarted
    | SessionExpired
    | QueueChanged
    | QueueRead
    | QueueSizeRead
    | AssignmentsRead
    | PartitionChanged
    | PartitionRead
    | ReassignmentsRead
    | BrokersRead
    | Written
    | IsrAsked
    | Progress
    | RoleRefused
    | ShutdownAsked
    | Tick
)

__all__ = [
    "AssignmentsRead",
    "Assume",
    "BrokersRead",
    "Check",
    "CreateLeader",
    "CreateQueue",
    "CreateTopic",
    "Delete",
    "DeletePartition",
    "DeleteTopic",
    "Dequeue",
    "Effect",
    "Enqueue",
    "Event",
    "Fault",
    "IsrAsked",
    "Lifecycle",
    "Op",
    "PartitionChanged",
    "PartitionRead",
    "Progress",
    "PutAssigned",
    "PutIsr",
    "QueueChanged",
    "QueueRead",
    "QueueSizeRead",
    "ReadAssignments",
    "ReadBrokers",
    "ReadPartition",
    "ReadQueue",
    "ReadQueueSize",
    "ReassignmentsRead",
    "Refused",
    "RegisterBroker",
    "RemoveBroker",
    "Result",
    "RoleRefused",
    "SessionExpired",
    "SessionStarted",
    "SetLeader",
    "ShutdownAsked",
    "Stage",
    "StartReplica",
    "StopReplica",
    "TakeTopic",
    "Tell",
    "Tick",
    "WatchProgress",
    "WatchReassignments",
    "Write",
    "Written",
]
