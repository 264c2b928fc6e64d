"""What comes out of the coordination of one broker; the contract is in
:mod:`broker.coordination.events`.
"""

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

    token: int
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
    """Have the replica's log ready: recovered if it is there, made if not. No role yet.

    ``topic_id``: whose the log has to be (KIP-516); None: anybody's.
    """

    partition: TopicPartition
    topic_id: uuid.UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assume:
    """Lead or follow: feed ``state`` to the replica (whose log is made ready if need be), and start
    or stop its fetcher accordingly. If that cannot be done: :class:`RoleRefused`. ``topic_id`` as
    in :class:`StartReplica`."""

    partition: TopicPartition
    state: replication.LeaderAndIsr
    topic_id: uuid.UUID | None = None


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
        | replication.IsrRefused
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


def partition_of(effect: Effect) -> TopicPartition | None:
    """Return the partition that an effect is about; None if it is about none, or not known."""
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
