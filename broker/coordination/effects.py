"""The effects of the coordination of one broker. :mod:`broker.coordination.events` has the
contract.
"""

import enum
import uuid
from dataclasses import dataclass
from typing import TypeAlias

from ackproof.broker.coordination.nodes import ABSENT, ANY_VERSION, Node, StateChangeRequest
from ackproof.broker.replication import events as replication
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition, ZkVersion

# --- operations of a write ------------------------------------------------------------------------
#
# The operations of a write to ZooKeeper, which are all done, or none.
#
# ``expected`` is a version, ABSENT or ANY_VERSION (:mod:`broker.coordination.nodes`).


class Result(enum.Enum):
    """The outcome of a :class:`Write`."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was done: a node existed or did not exist, or had another version."""
    UNKNOWN = "unknown"
    """The connection was lost, or the session is over: the write may be done or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Require that the node exists at this version (ANY_VERSION: at any version)."""

    node: Node
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLeader:
    """Create the ephemeral ``leader`` with this broker's id, and without an epoch if it is -1."""

    partition: TopicPartition
    epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLeader:
    """Overwrite an existing ``leader`` with this broker's id and an epoch, whatever its version and
    owner. Only as printed."""

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
    the brokers that are ``removing``.

    Parents (``/brokers/topics/T/P``, ``/brokers/partitions_reassigned/T``) are created if
    necessary.
    """

    node: Node
    replicas: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...] = ()
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete the node if it is at this version. REFUSED if it does not exist.

    With the last ``partitions_reassigned`` of a topic its parent may be deleted, too.
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
    """Take an entry out of a broker's queue. It may be gone already. That rejects a write with
    other operations, but not one that consists only of these."""

    broker: BrokerId
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create ``/brokers/topics/T`` with a new id, or give an existing topic a new one.

    ``expected`` is its version. With ABSENT the write is REFUSED if it exists.
    """

    topic: str
    expected: ZkVersion = ABSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeTopic:
    """Write ``/brokers/topics/T`` unchanged if it is at this version. The next version is then the
    writer's."""

    topic: str
    topic_id: uuid.UUID | None
    expected: ZkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePartition:
    """Delete ``/brokers/topics/T/P`` with its content, if it exists."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete ``/brokers/topics/T`` with its settings if it exists and has no partitions, and
    ``/brokers/partitions_reassigned/T`` if it has no children.

    ``expected`` is the version at which it must exist, without partitions, or the write is REFUSED.
    """

    topic: str
    expected: ZkVersion = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveBroker:
    """Delete the broker's queue with its content, if it exists.

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


def partition_of_op(op: Op) -> TopicPartition | None:
    """Return the partition that an op concerns, or None if it is about a topic or a queue's
    entry."""
    match op:
        case Check() | PutAssigned() | Delete():
            return op.node.partition
        case CreateLeader() | SetLeader() | PutIsr() | DeletePartition():
            return op.partition
        case Enqueue():
            return op.request.partition
        case _:
            return None


# --- effects --------------------------------------------------------------------------------------


# --- effects: ZooKeeper ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Carry out all of ``ops`` or none (one multi, or one request if it is one op).

    ``session``: carry them out in this session only. Once it is over, the answer is UNKNOWN and
    nothing may be sent. None, as printed: carry them out in whichever session exists at that time.
    """

    token: int
    ops: tuple[Op, ...]
    session: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQueue:
    """Create this broker's ``/brokers/state/N`` if it does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueue:
    """Read a broker's queue; its own one with a child watch (:class:`QueueChanged`). A queue that
    does not exist counts as empty."""

    token: int
    broker: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueueSize:
    """Count the entries of a broker's queue (``stateChangeQ.isFull``). No watch."""

    broker: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAssignments:
    """Read the partitions that name this broker. Once per start-up, without a watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPartition:
    """Read all nodes of the partition, ``leader`` first and with a watch, present or not.

    Its creation, change and deletion are :class:`PartitionChanged`. If ``replicas`` is absent, it
    gets the same watch: the partition is being created, and exists when that appears. Each effect
    is answered by a read of its own, begun after the effect.
    """

    token: int
    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBrokers:
    """Read which brokers are live, without a watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchReassignments:
    """Watch ``/brokers/partitions_reassigned`` and each topic in it, until the session ends.

    :class:`ReassignmentsRead` follows at once and with each change. The effect comes once in a
    session, when this broker first leads a partition.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """Create the ephemeral ``/brokers/ids/N``, because start-up is complete. Try again while an
    earlier registration of this broker exists."""


# --- effects: this broker's replicas ---------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReplica:
    """Prepare the replica's log: recover it, or create it if it does not exist. It has no role yet.

    ``topic_id`` is the topic that the log must belong to (KIP-516), or None for any.
    """

    partition: TopicPartition
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assume:
    """Lead or follow: feed ``state`` to the replica (whose log is prepared if necessary), and start
    or stop its fetcher accordingly. If that is impossible, :class:`RoleRefused` follows.
    ``topic_id`` is as in :class:`StartReplica`."""

    partition: TopicPartition
    state: replication.LeaderAndIsr
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Feed this event to the partition's replica, if it still exists."""

    partition: TopicPartition
    event: (
        replication.StartServing
        | replication.ReplicasChanged
        | replication.Resigned
        | replication.IsrWritten
        | replication.IsrWriteFailed
        | replication.IsrRefused
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    """Do "close and delete r": stop its fetcher and delete the log."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchProgress:
    """Begin, or stop, to feed :class:`Progress` for this partition."""

    partition: TopicPartition
    wanted: bool


# --- effects: to be logged -------------------------------------------------------------------


class Stage(enum.Enum):
    """The stage of a state change's lifecycle ("explicit monitoring")."""

    REQUESTED = "requested"
    RECEIVED = "received"
    COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifecycle:
    """A line of the document's "explicit monitoring". Its ``str`` has the document's words.

    ``broker`` is the receiver of the request: for REQUESTED the one that it is sent to, and
    otherwise the one that has received or completed it.
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
    """The reasons for a rejection, with the document's own names if it has one."""

    QUEUE_FULL = "FollowerStateChangeQueueFull"
    NOT_REPLICA = "NotReplicaForPartitionException"
    STALE_START = "start-replica of an earlier epoch ignored"
    STALE_CLOSE = "close-replica of a replica that is assigned ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A state change request that was not put into ``broker``'s queue, or that ``broker`` took out
    and did not carry out. It is logged, QUEUE_FULL as an error."""

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


def partition_of(effect: Effect) -> TopicPartition | None:
    """Return the partition that an effect concerns, or None if there is none or it is unknown."""
    match effect:
        case Write(ops=ops):
            named = (partition_of_op(op) for op in ops)
            return next((tp for tp in named if tp is not None), None)
        case Lifecycle(request=request) | Refused(request=request):
            return request.partition
        case ReadPartition() | StartReplica() | Assume() | Tell() | StopReplica() | WatchProgress():
            return effect.partition
        case _:
            return None
