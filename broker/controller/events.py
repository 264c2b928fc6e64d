"""The events that go into the controller, and the effects that come out of it.

:class:`~broker.controller.controller.Controller` is fed one event at a time (``step``) and returns
effects. The caller carries them out *in the order given* before it feeds the next event. It feeds
the outcome of :class:`WriteStates` as :class:`StatesWritten` before any other waiting event. Writes
to ZooKeeper are made under one controller epoch, and must fail as a whole once another controller
was elected. The next event is then :class:`Resigned`.
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
    """The election of this broker as controller, with everything that it has read from
    ZooKeeper."""

    epoch: ControllerEpoch
    live: Mapping[BrokerId, LiveBroker]
    topics: Mapping[str, TopicAssignment]
    states: Mapping[TopicPartition, PartitionState]
    unclean: frozenset[str]
    """The topics with ``unclean.leader.election.enable``, by topic setting or broker default."""
    waits_for_isr: bool
    """Whether no member of an ISR that bounced as a whole may lead before all members are back."""
    by_isr_order: bool = False
    """Whether the first member of the ISR succeeds a leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """The end of this broker's time as controller. Everything that it knew is void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersChanged:
    """All registered brokers, as just read."""

    live: Mapping[BrokerId, LiveBroker]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsChanged:
    """The topics that are new, have more partitions, or are gone.

    ``states`` holds the states of their partitions that ZooKeeper already has.
    """

    topics: Mapping[str, TopicAssignment]
    gone: frozenset[str] = frozenset()
    states: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)
    unclean: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrChanged:
    """States that leaders wrote. ``notifications`` are the znodes that announced them."""

    notifications: tuple[str, ...]
    states: Mapping[TopicPartition, PartitionState]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatesWritten:
    """The outcome of :class:`WriteStates`.

    ``conflicts``: the znode had another version or existed already, and was read again (*HA
    design*, broker failover, steps 3.1 to 3.3). The value is None when the znode is gone.
    """

    written: Mapping[TopicPartition, ZkVersion]
    conflicts: Mapping[TopicPartition, PartitionState | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredElectionAsked:
    """The partitions named by ``/admin/preferred_replica_election``."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionAsked:
    """A client's request to elect leaders: preferred ones or, for partitions without a leader,
    unclean ones.

    ``partitions`` is None for all partitions. The answer is :class:`Answer` with the same
    ``token``.
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
    """The time for the check of ``auto.leader.rebalance.enable``.

    A broker gets its preferred partitions back if others lead more than ``imbalance_percentage`` of
    them.
    """

    imbalance_percentage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownAsked:
    """A broker's request to shut down. The answer is :class:`AnswerShutdown` with the same
    ``token``."""

    broker: BrokerId
    broker_epoch: int
    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionAsked:
    """The topics named by ``/admin/delete_topics``."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentAsked:
    """The replicas requested by ``/admin/reassign_partitions``."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentsAltered:
    """A client's request for these replicas (KIP-455), or with None to cancel a reassignment.

    The answer is :class:`Answer` with the same ``token``, when the reassignment has begun.
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
    """Write this partition state if its znode is at ``expected``, or create it if that is None."""

    partition: TopicPartition
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    controller_epoch: ControllerEpoch
    expected: ZkVersion | None
    broker_epochs: Mapping[BrokerId, int]
    """The broker epoch under which each member is in the ISR."""

    def written_at(self, version: ZkVersion) -> PartitionState:
        """Return the state as ZooKeeper then holds it."""
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
    """Write each of these states. They do not depend on each other."""

    writes: tuple[StateWrite, ...]


Request = LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Deliver a request to a broker, in order with those before and after it, until the broker is
    gone."""

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
    """Delete ``/admin/preferred_replica_election``, because its elections are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropReassignments:
    """Remove these partitions from ``/admin/reassign_partitions``.

    ``refused`` gives the reason if the reassignment was not carried out.
    """

    partitions: tuple[TopicPartition, ...]
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Remove the topic's znodes and the request to delete it, because all replicas are deleted.

    ``topic_id`` is the id of the deleted topic.
    """

    topic: str
    topic_id: uuid.UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDeletion:
    """Remove the request to delete a topic, because there is no such topic."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShutdown:
    """Answer a controlled shutdown. ``remaining`` are the partitions that the broker still
    leads."""

    token: int
    error: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


class Outcome(NamedTuple):
    """The answer to a client for one partition. ``text`` explains an error."""

    error: ErrorCode
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Answer a client, by partition."""

    token: int
    outcomes: Mapping[TopicPartition, Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Report an unexpected error.

    It prevented ``what`` (a partition, or a kind of event) from being processed. The rest of the
    step was carried out. The error is logged, and the requester with ``token`` is told.
    """

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
