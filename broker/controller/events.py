"""What goes into the controller and what comes out of it.

:class:`~broker.controller.controller.Controller` is fed one event at a time (``step``) and hands
back effects. Whoever feeds it carries them out *in the order given* before feeding the next event,
and feeds the outcome of :class:`WriteStates` as :class:`StatesWritten` before anything else it has
waiting. Writes to ZooKeeper are made in the name of one controller epoch and must fail as a whole
once another controller was elected; then the next event is :class:`Resigned`.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import LiveBroker, PartitionState, TopicAssignment
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest

# --- events ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """This broker became controller and read everything anew."""

    epoch: ControllerEpoch
    live: Mapping[BrokerId, LiveBroker]
    topics: Mapping[str, TopicAssignment]
    states: Mapping[TopicPartition, PartitionState]
    unclean: frozenset[str]
    """Topics with ``unclean.leader.election.enable``, by topic or broker default."""
    waits_for_isr: bool
    """Whether nobody of a bounced ISR may lead before all of it is back."""
    by_isr_order: bool = False
    """Whether a leader is succeeded by the first in the ISR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """This broker is not the controller any more; everything it knew is void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersChanged:
    """All registered brokers, as just read."""

    live: Mapping[BrokerId, LiveBroker]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """Topics that are new, have more partitions, or are gone.

    ``states`` holds what ZooKeeper already has of their partitions.
    """

    topics: Mapping[str, TopicAssignment]
    gone: frozenset[str] = frozenset()
    states: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)
    unclean: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChanged:
    """Leaders wrote these states; ``notifications`` are the znodes that said so."""

    notifications: tuple[str, ...]
    states: Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesWritten:
    """The outcome of :class:`WriteStates`.

    ``conflicts``: the znode had another version (or existed already) and was read again (steps 3.1
    to 3.3 of seed 000's failover); None when it is gone.
    """

    written: Mapping[TopicPartition, ZkVersion]
    conflicts: Mapping[TopicPartition, PartitionState | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredElectionAsked:
    """``/admin/preferred_replica_election`` names these partitions."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionAsked:
    """A client wants leaders elected: preferred ones, or, where nobody leads, unclean ones.

    ``partitions`` None: all. Answered by :class:`Answer` with the same ``token``.
    """

    partitions: tuple[TopicPartition, ...] | None
    unclean: bool
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElectionsChanged:
    """``unclean.leader.election.enable`` of these topics, by their own setting or by default."""

    enabled: Mapping[str, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceLeaders:
    """Time for ``auto.leader.rebalance.enable``'s check: brokers of whose preferred partitions
    more than ``imbalance_percentage`` are led by others get them back."""

    imbalance_percentage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownAsked:
    """A broker wants to stop; answered by :class:`AnswerShutdown` with the same ``token``."""

    broker: BrokerId
    broker_epoch: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionAsked:
    """``/admin/delete_topics`` names these topics."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentAsked:
    """``/admin/reassign_partitions`` wants these replicas."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentsAltered:
    """A client wants these replicas (KIP-455); None: take a reassignment under way back.

    Answered by :class:`Answer` with the same ``token`` when it has begun.
    """

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaAnswered:
    """A broker's answer to a StopReplica request, by partition."""

    broker: BrokerId
    errors: Mapping[TopicPartition, ErrorCode]


Event = (
    Elected
    | Resigned
    | BrokersChanged
    | TopicsChanged
    | IsrChanged
    | StatesWritten
    | PreferredElectionAsked
    | ElectionAsked
    | UncleanElectionsChanged
    | RebalanceLeaders
    | ControlledShutdownAsked
    | DeletionAsked
    | ReassignmentAsked
    | ReassignmentsAltered
    | StopReplicaAnswered
)


# --- effects --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWrite:
    """Write this partition state if its znode is at ``expected``; None: create it."""

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch
    expected: ZkVersion | None
    broker_epochs: Mapping[BrokerId, int]
    """As which incarnation each member is in the ISR."""

    def written_at(self, version: ZkVersion) -> PartitionState:
        """The state as it then is in ZooKeeper."""
        return PartitionState(
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            isr=self.isr,
            controller_epoch=self.controller_epoch,
            zk_version=version,
            broker_epochs=self.broker_epochs,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStates:
    """Write each of these; they do not depend on each other."""

    writes: tuple[StateWrite, ...]


Request = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Deliver to a broker, in order with what is sent to it before and after, until it is gone."""

    broker: BrokerId
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAssignment:
    """Write ``/brokers/topics/T``."""

    topic: str
    assignment: TopicAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class DropIsrChanges:
    """Delete these ISR change notifications."""

    notifications: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPreferredElection:
    """Delete ``/admin/preferred_replica_election``: it was carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropReassignments:
    """Take these partitions out of ``/admin/reassign_partitions``.

    ``refused`` says why when the reassignment was not carried out.
    """

    partitions: tuple[TopicPartition, ...]
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """All replicas are deleted: remove the topic's znodes and the order to delete it.

    ``topic_id`` is the one that was deleted.
    """

    topic: str
    topic_id: uuid.UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDeletion:
    """There is no such topic: remove the order to delete it."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShutdown:
    """Answer a controlled shutdown; ``remaining``: partitions that the broker still leads."""

    token: int
    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


class Outcome(NamedTuple):
    """What a client is told of one partition; ``text`` says more of an error."""

    error: ErrorCode
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer a client, by partition."""

    token: int
    outcomes: Mapping[TopicPartition, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Something unforeseen kept ``what`` (a partition, or a kind of event) from being done; all
    else of the step was. To be logged; who asked with ``token`` is to be told."""

    what: str
    error: Exception
    token: int | None = None


Effect = (
    WriteStates
    | Send
    | WriteAssignment
    | DropIsrChanges
    | DropPreferredElection
    | DropReassignments
    | DeleteTopic
    | DropDeletion
    | AnswerShutdown
    | Answer
    | Failed
)
