"""The controller's four calls of Kafka with ZooKeeper, in the form of kio's classes. kio lacks
them.

They are LeaderAndIsr (api 4, version 5), StopReplica (5, 3), UpdateMetadata (6, 7) and
ControlledShutdown (7, 3), each in the newest version before the KRaft fields (KIP-866, KIP-704).
Fields, order and defaults are those of Kafka 3.x's message schemas (``LeaderAndIsrRequest.json``
and so on). Types of the broker (``BrokerId``, ``LeaderEpoch``, ...) replace kio's. The common part
of a request and its nested parts (api key, version, header) is inherited.
"""

import uuid
from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2 import RequestHeader
from kio.schema.response_header.v1 import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16

from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion
from protocol.fields import BOOL, ERROR_CODE, INT8, INT16, INT32, INT64, STRING, UUID


class _Request:
    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.nested
    __flexible__: ClassVar[bool] = True
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader


class _Response:
    __slots__ = ()
    __type__: ClassVar[EntityType] = EntityType.nested
    __flexible__: ClassVar[bool] = True
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader


class _LeaderAndIsr:
    __slots__ = ()
    __api_key__: ClassVar[i16] = i16(4)
    __version__: ClassVar[i16] = i16(5)


class _StopReplica:
    __slots__ = ()
    __api_key__: ClassVar[i16] = i16(5)
    __version__: ClassVar[i16] = i16(3)


class _UpdateMetadata:
    __slots__ = ()
    __api_key__: ClassVar[i16] = i16(6)
    __version__: ClassVar[i16] = i16(7)


class _ControlledShutdown:
    __slots__ = ()
    __api_key__: ClassVar[i16] = i16(7)
    __version__: ClassVar[i16] = i16(3)


# --- LeaderAndIsr ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionState(_LeaderAndIsr, _Request):
    """The leader of one partition, its epoch and its ISR."""

    partition_index: int = field(metadata=INT32)
    controller_epoch: ControllerEpoch = field(metadata=INT32)
    """The epoch of the controller that wrote this state, which may differ from that of the
    sender."""
    leader: BrokerId = field(metadata=INT32)
    leader_epoch: LeaderEpoch = field(metadata=INT32)
    isr: tuple[BrokerId, ...] = field(metadata=INT32)
    zk_version: ZkVersion = field(metadata=INT32)
    """The version of the partition state znode. The leader's ISR writes are conditional on it."""
    replicas: tuple[BrokerId, ...] = field(metadata=INT32)
    """All assigned replicas, the preferred one first."""
    adding_replicas: tuple[BrokerId, ...] = field(metadata=INT32, default=())
    removing_replicas: tuple[BrokerId, ...] = field(metadata=INT32, default=())
    is_new: bool = field(metadata=BOOL, default=False)
    """Whether this replica is new on the broker, so that no log is expected there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicState(_LeaderAndIsr, _Request):
    """The partitions of one topic."""

    topic_name: str = field(metadata=STRING)
    topic_id: uuid.UUID | None = field(metadata=UUID)
    partition_states: tuple[LeaderAndIsrPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrLiveLeader(_LeaderAndIsr, _Request):
    """The address of a leader named in the request."""

    broker_id: BrokerId = field(metadata=INT32)
    host_name: str = field(metadata=STRING)
    port: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrRequest(_LeaderAndIsr, _Request):
    """A request of the controller that tells a broker which partitions to lead and which to
    follow."""

    __type__: ClassVar[EntityType] = EntityType.request
    controller_id: BrokerId = field(metadata=INT32)
    controller_epoch: ControllerEpoch = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    """The czxid of the broker's registration. The broker refuses a request with another one."""
    type_: int = field(metadata=INT8, default=0)
    """0 if unknown, otherwise ``LEADER_AND_ISR_INCREMENTAL`` or ``LEADER_AND_ISR_FULL``."""
    topic_states: tuple[LeaderAndIsrTopicState, ...]
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrPartitionError(_LeaderAndIsr, _Response):
    """The broker's answer for one partition."""

    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrTopicError(_LeaderAndIsr, _Response):
    """The broker's answer for one topic's partitions."""

    topic_id: uuid.UUID | None = field(metadata=UUID)
    partition_errors: tuple[LeaderAndIsrPartitionError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrResponse(_LeaderAndIsr, _Response):
    """The broker's answer. ``error_code`` is about the request as a whole."""

    __type__: ClassVar[EntityType] = EntityType.response
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    topics: tuple[LeaderAndIsrTopicError, ...]


# --- StopReplica ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartitionState(_StopReplica, _Request):
    """One partition to stop."""

    partition_index: int = field(metadata=INT32)
    leader_epoch: LeaderEpoch = field(metadata=INT32, default=LeaderEpoch(-1))
    """The leader epoch; -1 if unknown, -2 if the topic is being deleted (KIP-570)."""
    delete_partition: bool = field(metadata=BOOL)
    """Whether the log must be deleted, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaTopicState(_StopReplica, _Request):
    """The partitions of one topic."""

    topic_name: str = field(metadata=STRING)
    partition_states: tuple[StopReplicaPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaRequest(_StopReplica, _Request):
    """A request of the controller that tells a broker to stop replicas, and possibly to delete
    them."""

    __type__: ClassVar[EntityType] = EntityType.request
    controller_id: BrokerId = field(metadata=INT32)
    controller_epoch: ControllerEpoch = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    topic_states: tuple[StopReplicaTopicState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaPartitionError(_StopReplica, _Response):
    """The broker's answer for one partition."""

    topic_name: str = field(metadata=STRING)
    partition_index: int = field(metadata=INT32)
    error_code: ErrorCode = field(metadata=ERROR_CODE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplicaResponse(_StopReplica, _Response):
    """The broker's answer. ``error_code`` is about the request as a whole."""

    __type__: ClassVar[EntityType] = EntityType.response
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    partition_errors: tuple[StopReplicaPartitionError, ...]


# --- UpdateMetadata -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataPartitionState(_UpdateMetadata, _Request):
    """One partition, as clients must see it."""

    partition_index: int = field(metadata=INT32)
    controller_epoch: ControllerEpoch = field(metadata=INT32)
    leader: BrokerId = field(metadata=INT32)
    """The leader; -1 if there is none, -2 if the topic is being deleted
    (``LeaderAndIsr.LeaderDuringDelete``)."""
    leader_epoch: LeaderEpoch = field(metadata=INT32)
    isr: tuple[BrokerId, ...] = field(metadata=INT32)
    zk_version: ZkVersion = field(metadata=INT32)
    replicas: tuple[BrokerId, ...] = field(metadata=INT32)
    offline_replicas: tuple[BrokerId, ...] = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataTopicState(_UpdateMetadata, _Request):
    """The partitions of one topic."""

    topic_name: str = field(metadata=STRING)
    topic_id: uuid.UUID | None = field(metadata=UUID)
    partition_states: tuple[UpdateMetadataPartitionState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataEndpoint(_UpdateMetadata, _Request):
    """One listener of a broker."""

    port: int = field(metadata=INT32)
    host: str = field(metadata=STRING)
    listener: str = field(metadata=STRING)
    security_protocol: int = field(metadata=INT16)
    """0 stands for PLAINTEXT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataBroker(_UpdateMetadata, _Request):
    """One live broker."""

    id: BrokerId = field(metadata=INT32)
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None = field(metadata=STRING)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataRequest(_UpdateMetadata, _Request):
    """A request of the controller with the content of a broker's Metadata responses.

    ``live_brokers`` replaces the broker's former list. ``topic_states`` adds to it.
    """

    __type__: ClassVar[EntityType] = EntityType.request
    controller_id: BrokerId = field(metadata=INT32)
    controller_epoch: ControllerEpoch = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)
    topic_states: tuple[UpdateMetadataTopicState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadataResponse(_UpdateMetadata, _Response):
    """The broker's answer."""

    __type__: ClassVar[EntityType] = EntityType.response
    error_code: ErrorCode = field(metadata=ERROR_CODE)


# --- ControlledShutdown ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownRequest(_ControlledShutdown, _Request):
    """A request of a broker to the controller to move its leaderships away before it stops."""

    __type__: ClassVar[EntityType] = EntityType.request
    broker_id: BrokerId = field(metadata=INT32)
    broker_epoch: int = field(metadata=INT64, default=-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingPartition(_ControlledShutdown, _Response):
    """A partition that the broker still leads."""

    topic_name: str = field(metadata=STRING)
    partition_index: int = field(metadata=INT32)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownResponse(_ControlledShutdown, _Response):
    """The partitions that could not be moved. If there are none, the broker may stop."""

    __type__: ClassVar[EntityType] = EntityType.response
    error_code: ErrorCode = field(metadata=ERROR_CODE)
    remaining_partitions: tuple[RemainingPartition, ...]
