"""Metadata (api 3), versions 1 to 9.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, LeaderEpoch
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_HII = struct.Struct(">hii")
_FORM_HIII = struct.Struct(">hiii")
_FORM_I = struct.Struct(">i")
_FORM_O = struct.Struct(">?")
_FORM_OOO = struct.Struct(">???")


@message
class MetadataRequestTopic:
    """Part of a request."""

    name: str
    """The topic name."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        if version >= 9:
            reader.skip_tags()
        return cls(
            name=name,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        if version >= 9:
            writer.no_tags()


@message
class MetadataRequest:
    """A request."""

    API_KEY: ClassVar[int] = 3
    VERSIONS: ClassVar[range] = range(1, 10)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 9
    FLEXIBLE_SINCE: ClassVar[int] = 9

    version: int
    topics: tuple[MetadataRequestTopic, ...] | None
    """The topics to fetch metadata for."""
    allow_auto_topic_creation: bool = True
    """If this is true, the broker may auto-create topics that we requested which do not already
    exist, if it is configured to do so."""
    include_cluster_authorized_operations: bool = False
    """Whether to include cluster authorized operations."""
    include_topic_authorized_operations: bool = False
    """Whether to include topic authorized operations."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topics = reader.nullable_structs(MetadataRequestTopic.read, version)
        if version >= 8:
            (
                allow_auto_topic_creation,
                include_cluster_authorized_operations,
                include_topic_authorized_operations,
            ) = reader.unpack(_FORM_OOO)
        elif version >= 4:
            (allow_auto_topic_creation,) = reader.unpack(_FORM_O)
            include_cluster_authorized_operations = False
            include_topic_authorized_operations = False
        else:
            allow_auto_topic_creation = True
            include_cluster_authorized_operations = False
            include_topic_authorized_operations = False
        if version >= 9:
            reader.skip_tags()
        return cls(
            version=version,
            topics=topics,
            allow_auto_topic_creation=allow_auto_topic_creation,
            include_cluster_authorized_operations=include_cluster_authorized_operations,
            include_topic_authorized_operations=include_topic_authorized_operations,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.structs(self.topics, version)
        if version >= 8:
            writer.put(
                _FORM_OOO.pack(
                    self.allow_auto_topic_creation,
                    self.include_cluster_authorized_operations,
                    self.include_topic_authorized_operations,
                )
            )
        elif version >= 4:
            writer.put(_FORM_O.pack(self.allow_auto_topic_creation))
        if version >= 9:
            writer.no_tags()

    @staticmethod
    def response() -> type["MetadataResponse"]:
        """The class of what is answered."""
        return MetadataResponse


@message
class MetadataResponseBroker:
    """Part of a response."""

    node_id: BrokerId
    """The broker ID."""
    host: str
    """The broker hostname."""
    port: int
    """The broker port."""
    rack: str | None = None
    """The rack of the broker, or null if it has not been assigned to a rack."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (node_id,) = reader.unpack(_FORM_I)
        host = reader.string()
        (port,) = reader.unpack(_FORM_I)
        rack = reader.nullable_string()
        if version >= 9:
            reader.skip_tags()
        return cls(
            node_id=node_id,
            host=host,
            port=port,
            rack=rack,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.node_id))
        writer.string(self.host)
        writer.put(_FORM_I.pack(self.port))
        writer.string(self.rack)
        if version >= 9:
            writer.no_tags()


@message
class MetadataResponsePartition:
    """Part of a response."""

    error_code: ErrorCode
    """The partition error, or 0 if there was no error."""
    partition_index: int
    """The partition index."""
    leader_id: BrokerId
    """The ID of the leader broker."""
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The leader epoch of this partition."""
    replica_nodes: tuple[BrokerId, ...] = ()
    """The set of all nodes that host this partition."""
    isr_nodes: tuple[BrokerId, ...] = ()
    """The set of nodes that are in sync with the leader for this partition."""
    offline_replicas: tuple[BrokerId, ...] = ()
    """The set of offline replicas of this partition."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 7:
            (error_code, partition_index, leader_id, leader_epoch) = reader.unpack(_FORM_HIII)
        else:
            (error_code, partition_index, leader_id) = reader.unpack(_FORM_HII)
            leader_epoch = LeaderEpoch(-1)
        replica_nodes = reader.int32s()
        isr_nodes = reader.int32s()
        if version >= 5:
            offline_replicas = reader.int32s()
        else:
            offline_replicas = ()
        if version >= 9:
            reader.skip_tags()
        return cls(
            error_code=error(error_code),
            partition_index=partition_index,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
            replica_nodes=replica_nodes,
            isr_nodes=isr_nodes,
            offline_replicas=offline_replicas,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 7:
            writer.put(
                _FORM_HIII.pack(
                    self.error_code, self.partition_index, self.leader_id, self.leader_epoch
                )
            )
        else:
            writer.put(_FORM_HII.pack(self.error_code, self.partition_index, self.leader_id))
        writer.int32s(self.replica_nodes)
        writer.int32s(self.isr_nodes)
        if version >= 5:
            writer.int32s(self.offline_replicas)
        if version >= 9:
            writer.no_tags()


@message
class MetadataResponseTopic:
    """Part of a response."""

    error_code: ErrorCode
    """The topic error, or 0 if there was no error."""
    name: str
    """The topic name. Null for non-existing topics queried by ID. This is never null when
    ErrorCode is zero. One of Name and TopicId is always populated."""
    is_internal: bool = False
    """True if the topic is internal."""
    partitions: tuple[MetadataResponsePartition, ...]
    """Each partition in the topic."""
    topic_authorized_operations: int = -2147483648
    """32-bit bitfield to represent authorized operations for this topic."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        name = reader.string()
        (is_internal,) = reader.unpack(_FORM_O)
        partitions = reader.structs(MetadataResponsePartition.read, version)
        if version >= 8:
            (topic_authorized_operations,) = reader.unpack(_FORM_I)
        else:
            topic_authorized_operations = -2147483648
        if version >= 9:
            reader.skip_tags()
        return cls(
            error_code=error(error_code),
            name=name,
            is_internal=is_internal,
            partitions=partitions,
            topic_authorized_operations=topic_authorized_operations,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.string(self.name)
        writer.put(_FORM_O.pack(self.is_internal))
        writer.structs(self.partitions, version)
        if version >= 8:
            writer.put(_FORM_I.pack(self.topic_authorized_operations))
        if version >= 9:
            writer.no_tags()


@message
class MetadataResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 9
    FLEXIBLE_SINCE: ClassVar[int] = 9

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    brokers: tuple[MetadataResponseBroker, ...]
    """A list of brokers present in the cluster."""
    cluster_id: str | None = None
    """The cluster ID that responding broker belongs to."""
    controller_id: BrokerId = BrokerId(-1)
    """The ID of the controller broker."""
    topics: tuple[MetadataResponseTopic, ...]
    """Each topic in the response."""
    cluster_authorized_operations: int = -2147483648
    """32-bit bitfield to represent authorized operations for this cluster."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 3:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
        else:
            throttle_time_ms = 0
        brokers = reader.structs(MetadataResponseBroker.read, version)
        if version >= 2:
            cluster_id = reader.nullable_string()
        else:
            cluster_id = None
        (controller_id,) = reader.unpack(_FORM_I)
        topics = reader.structs(MetadataResponseTopic.read, version)
        if version >= 8:
            (cluster_authorized_operations,) = reader.unpack(_FORM_I)
        else:
            cluster_authorized_operations = -2147483648
        if version >= 9:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            brokers=brokers,
            cluster_id=cluster_id,
            controller_id=controller_id,
            topics=topics,
            cluster_authorized_operations=cluster_authorized_operations,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 3:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.brokers, version)
        if version >= 2:
            writer.string(self.cluster_id)
        writer.put(_FORM_I.pack(self.controller_id))
        writer.structs(self.topics, version)
        if version >= 8:
            writer.put(_FORM_I.pack(self.cluster_authorized_operations))
        if version >= 9:
            writer.no_tags()
