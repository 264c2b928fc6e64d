"""What goes into the coordination of one broker and what comes out of it.

:class:`~broker.coordination.coordinator.Coordinator` is fed one event at a time, with the time
(``step(event, now)``), and hands back effects. The contract with whoever feeds it:

- Effects are *begun* in the order given, and those that concern this broker's own replicas
  (``StartReplica``, ``Assume``, ``Tell``, ``StopReplica``) are *done*, in that order, before the
  next event is fed. What asks ZooKeeper is answered later, by an event.
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

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from broker.coordination.nodes import Node, PartitionView, QueuedRequest, StateChangeRequest
from broker.replication import events as replication
from broker.types import BrokerId, LeaderEpoch, Offset, TopicPartition, ZkVersion

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
    """Answer to :class:`ReadQueue`: all entries, in the order of their names.

    Entries that cannot be understood are left out (and deleted by whoever reads).
    """

    broker: BrokerId
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

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersRead:
    """Answer to :class:`ReadBrokers`: the children of ``/brokers/ids``."""

    live: frozenset[BrokerId]


class Result(enum.Enum):
    """What became of a :class:`Write`."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was done: a node was there or was not there, or had another version."""
    UNKNOWN = "unknown"
    """The connection was lost, or the session is over: done or not done."""


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

    Answered by :class:`Tell` with ``IsrWritten`` or ``IsrWriteFailed``, perhaps in the same step.
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
    a disk is broken). If it was to lead, the leadership is given up."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBalancingAsked:
    """Somebody wants these partitions led by their preferred replicas (ElectLeaders); where this
    broker leads and is not preferred, it steps down if the preferred one is in the ISR."""

    partitions: tuple[TopicPartition, ...]


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
    | LoadBalancingAsked
    | ShutdownAsked
    | Tick
)


# --- what a write consists of ----------------------------------------------------------------
# ``expected`` is a version, ABSENT or ANY_VERSION (:mod:`broker.coordination.nodes`).


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
    """Write ``replicas`` or ``partitions_reassigned`` (an empty list: delete the partition).

    Parents (``/brokers/topics/T/P``, ``/brokers/partitions_reassigned/T``) are created as needed.
    """

    node: Node
    replicas: tuple[BrokerId, ...]
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
    """Create ``/brokers/topics/T``; REFUSED if it is there."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePartition:
    """Delete ``/brokers/topics/T/P`` with all that is in it, if it is there."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete ``/brokers/topics/T`` if it is there and has no partitions, and its settings; and
    ``/brokers/partitions_reassigned/T`` if it has no children."""

    topic: str


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
    | DeletePartition
    | DeleteTopic
)


# --- effects: ZooKeeper ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Carry out all of ``ops`` or none (one multi, or one request if it is one op).

    ``session``: in this session only; once it is over, the answer is UNKNOWN and nothing may be
    sent. None, as printed: in whichever session there is when it gets to be sent.
    """

    token: int
    ops: tuple[Op, ...]
    session: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQueue:
    """Create this broker's ``/brokers/state/N`` if it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueue:
    """Read a broker's queue; its own one with a child watch (:class:`QueueChanged`). A queue
    that does not exist is an empty one."""

    broker: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueueSize:
    """Count the entries of a broker's queue (``stateChangeQ.isFull``). No watch."""

    broker: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAssignments:
    """Read which partitions name this broker. Once per start-up; no watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPartition:
    """Read all nodes of the partition, ``leader`` first and with a watch (present or not): its
    creation, change and deletion are :class:`PartitionChanged`. Where ``replicas`` is absent, the
    same watch on it: a partition is being created, and becomes one then.

    Each is answered by a reading of its own, begun after it was asked for.
    """

    token: int
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBrokers:
    """Read which brokers are live. No watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReassignments:
    """This broker leads something, and therefore listens to ``/brokers/partitions_reassigned``
    and to each topic in it, until the session ends: :class:`ReassignmentsRead`, at once and
    with each change. Comes once in a session, when it first leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """Start-up is complete: create the ephemeral ``/brokers/ids/N``, and try again while an
    earlier registration of this broker is still there."""


# --- effects: this broker's replicas ---------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReplica:
    """Have the replica's log ready: recovered if it is there, made if not. No role yet."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Assume:
    """Lead or follow: feed ``word`` to the replica (whose log is made ready if need be), and start
    or stop its fetcher accordingly. If that cannot be done: :class:`RoleRefused`."""

    partition: TopicPartition
    word: replication.LeaderAndIsr


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Feed this to the partition's replica; nothing if there is none any more."""

    partition: TopicPartition
    event: (
        replication.StartServing
        | replication.ReplicasChanged
        | replication.Resigned
        | replication.IsrWritten
        | replication.IsrWriteFailed
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    """ "close and delete r": stop its fetcher and delete the log."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchProgress:
    """From now on (not any more) :class:`Progress` is wanted for this partition."""

    partition: TopicPartition
    wanted: bool


# --- effects: to be logged -------------------------------------------------------------------


class Stage(enum.Enum):
    """Of a state change's lifecycle ("explicit monitoring")."""

    REQUESTED = "requested"
    RECEIVED = "received"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """A line of the document's "explicit monitoring"; ``str`` of it has the document's words.

    ``broker``: to whom (REQUESTED), or who has received or completed it.
    """

    stage: Stage
    request: StateChangeRequest
    broker: BrokerId

    def __str__(self) -> str:
        asked = self.request
        what = f"{asked.change.value} for topic {asked.partition.topic} partition " + str(
            asked.partition.partition
        )
        match self.stage:
            case Stage.REQUESTED:
                return (
                    f"leader, broker id {asked.leader}, requested {what}, "
                    f"to broker id {self.broker}, at epoch {asked.epoch}"
                )
            case Stage.RECEIVED:
                return (
                    f"follower, broker id {self.broker}, received {what}, "
                    f"from leader {asked.leader}, at epoch {asked.epoch}"
                )
            case Stage.COMPLETED:
                return (
                    f"follower, broker id {self.broker}, completed {what}, "
                    f"request from leader {asked.leader}, at epoch {asked.epoch}"
                )


class Fault(enum.Enum):
    """What is refused and logged, with the document's own names where it has one."""

    QUEUE_FULL = "FollowerStateChangeQueueFull"
    NOT_REPLICA = "NotReplicaForPartitionException"
    STALE_START = "start-replica of an earlier epoch ignored"
    STALE_CLOSE = "close-replica of a replica that is assigned ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A state change request that was not put into ``broker``'s queue, or that ``broker`` took
    out and did not carry out. To be logged, QUEUE_FULL as an error."""

    fault: Fault
    request: StateChangeRequest
    broker: BrokerId


Effect: TypeAlias = (
    Write
    | CreateQueue
    | ReadQueue
    | ReadQueueSize
    | ReadAssignments
    | ReadPartition
    | ReadBrokers
    | WatchReassignments
    | RegisterBroker
    | StartReplica
    | Assume
    | Tell
    | StopReplica
    | WatchProgress
    | Lifecycle
    | Refused
)
