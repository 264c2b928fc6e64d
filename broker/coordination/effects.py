"""The effects of the coordination of one broker. :mod:`broker.coordination.events` has the
contract."""

import enum
import uuid
from dataclasses import dataclass
from typing import TypeAlias

from ackproof.broker.coordination.nodes import StateChangeRequest
from ackproof.broker.coordination.ops import Op
from ackproof.broker.coordination.ops import partition_of as ops_partition
from ackproof.broker.replication import events as replication
from ackproof.broker.types import BrokerId, TopicPartition

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
            named = (ops_partition(op) for op in ops)
            return next((tp for tp in named if tp is not None), None)
        case Lifecycle(request=request) | Refused(request=request):
            return request.partition
        case ReadPartition() | StartReplica() | Assume() | Tell() | StopReplica() | WatchProgress():
            return effect.partition
        case _:
            return None
