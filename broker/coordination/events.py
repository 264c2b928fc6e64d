"""The events that go into the coordination of one broker. The effects
(:mod:`~broker.coordination.effects`) and their writes (:mod:`~broker.coordination.effects`) can be
imported from here, too.

:class:`~broker.coordination.coordinator.Coordinator` is fed one event at a time, with the time
(``step(event, now)``), and returns effects. The caller must keep this contract:

- Effects about one partition (:func:`~broker.coordination.effects.partition_of`) are *begun* in the
  order given. Those about this broker's own replicas (``StartReplica``, ``Assume``, ``Tell``,
  ``StopReplica``) are *done* before the next effect about that partition is begun. They do not wait
  for other partitions' effects, so that a slow disk delays only its own partition's leader change.
  A read from ZooKeeper is answered later, by an event.
- A ``Write`` about no partition (entries are taken out of a queue) is begun when the earlier
  effects of the same step are done. ``RegisterBroker`` is begun when all earlier effects are done.
- Every :class:`Write` is answered by exactly one :class:`Written` with its token, even when its
  session is over (``UNKNOWN``).
- A read is tried again until it is answered, and dropped when its session ends. After
  :class:`SessionExpired` no earlier answer is fed.
- Answers may come in any order. What is read after the answer to a write or another read is not
  older than that (ZooKeeper's own order within a session). Reads may be older than what others have
  written, because servers of ZooKeeper lag.
- A watch that fires means "read again". It may fire without a change, and late.
- A znode that cannot be parsed counts as absent and is logged.
- ``Coordinator.next_tick`` is the latest time for the next :class:`Tick`, or None.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ackproof.broker.coordination.effects import (
    Assume,
    Check,
    CreateLeader,
    CreateQueue,
    CreateTopic,
    Delete,
    DeletePartition,
    DeleteTopic,
    Dequeue,
    Effect,
    Enqueue,
    Fault,
    Lifecycle,
    Op,
    PutAssigned,
    PutIsr,
    ReadAssignments,
    ReadBrokers,
    ReadPartition,
    ReadQueue,
    ReadQueueSize,
    Refused,
    RegisterBroker,
    RemoveBroker,
    Result,
    SetLeader,
    Stage,
    StartReplica,
    StopReplica,
    TakeTopic,
    Tell,
    WatchProgress,
    WatchReassignments,
    Write,
)
from ackproof.broker.coordination.nodes import Assigned, Node, PartitionView, QueuedRequest
from ackproof.broker.replication import events as replication
from ackproof.broker.types import BrokerId, LeaderEpoch, Offset, TopicPartition, ZkVersion

# --- events ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """A new ZooKeeper session, the first one or after an expiry. Start-up begins ("Broker
    startup")."""

    session: int
    """The id of the session, to be compared with :attr:`LeaderNode.owner`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionExpired:
    """The end of the session and of this broker's ephemeral nodes. Other brokers may lead already.

    It must be fed as soon as it is known, before any event of the next session.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChanged:
    """The firing of the child watch on this broker's own queue ("State-change listener")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRead:
    """The answer to :class:`ReadQueue`, with its token: all entries, in the order of their names.

    Entries that cannot be parsed are left out (and deleted by the reader).
    """

    token: int
    entries: tuple[QueuedRequest, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSizeRead:
    """The answer to :class:`ReadQueueSize`, 0 if there is no such queue."""

    broker: BrokerId
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentsRead:
    """The answer to :class:`ReadAssignments`: the partitions that name this broker, in ``replicas``
    or in ``partitions_reassigned``."""

    mine: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChanged:
    """The firing of a watch that :class:`ReadPartition` set ("Leader-change listener")."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRead:
    """The answer to :class:`ReadPartition`, with its token."""

    token: int
    view: PartitionView


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentsRead:
    """The content of ``/brokers/partitions_reassigned``, as read when :class:`WatchReassignments`
    was carried out and whenever a child watch on it or on one of its topics fires
    ("Partition-reassigned listener")."""

    orders: Mapping[TopicPartition, Assigned]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersRead:
    """The children of ``/brokers/ids``: the answer to :class:`ReadBrokers`, also fed whenever
    brokers come or go. (A broker has one watch on them, to know where the others are.)"""

    live: frozenset[BrokerId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The answer to :class:`Write`."""

    token: int
    result: Result
    versions: Mapping[Node, ZkVersion] = field(default_factory=dict)
    """The versions of the nodes that were put, when DONE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAsked:
    """The request of a leading replica of this broker for another ISR (``replication.WriteIsr``).

    The answer is :class:`Tell` with ``IsrWritten``, ``IsrWriteFailed`` or ``IsrRefused``, perhaps
    in the same step.
    """

    partition: TopicPartition
    asked: replication.WriteIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of the followers of a partition that this broker leads.

    It is fed while :class:`WatchProgress` requests it: at the beginning, whenever one of the
    partition's replicas has fetched, and about every half second.
    """

    partition: TopicPartition
    leader_epoch: LeaderEpoch
    log_end: Offset
    high_watermark: Offset
    ends: Mapping[BrokerId, Offset]
    """The log ends of the followers as the leader knows them, -1 before their first fetch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRefused:
    """The failure of the replica to take the role of :class:`Assume` (its log belongs to another
    topic, or a disk is broken). If it was to lead, the leadership is given up. The role is tried
    again later."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutdownAsked:
    """The start of a clean shutdown of this broker, which gives up its leaderships.

    It is done when :attr:`Coordinator.leading` is empty. The broker claims no leadership any more.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The passing of time: ``Coordinator.next_tick``."""


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
