"""UpdateMetadata (api 6), version 7.

Made by ``python -m protocol``; do not edit.
"""

import struct
import uuid
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error, uuid_of
from ackproof.broker.wire.writer import Writer, uuid_bytes

_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_IIII = struct.Struct(">iiii")
_FORM_IIQ = struct.Struct(">iiq")
_FORM_U = struct.Struct(">16s")


@message
class UpdateMetadataPartitionState:
    """One partition, as clients must see it."""

    partition_index: int
    controller_epoch: ControllerEpoch
    leader: BrokerId
    """The leader; -1 if there is none, -2 if the topic is being deleted
    (``LeaderAndIsr.LeaderDuringDelete``)."""
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: ZkVersion
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, controller_epoch, leader, leader_epoch) = reader.unpack(_FORM_IIII)
        isr = reader.int32s()
        (zk_version,) = reader.unpack(_FORM_I)
        replicas = reader.int32s()
        offline_replicas = reader.int32s()
        reader.skip_tags()
        return cls(
            partition_index=partition_index,
            controller_epoch=controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=isr,
            zk_version=zk_version,
            replicas=replicas,
            offline_replicas=offline_replicas,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(
            _FORM_IIII.pack(
                self.partition_index, self.controller_epoch, self.leader, self.leader_epoch
            )
        )
        writer.int32s(self.isr)
        writer.put(_FORM_I.pack(self.zk_version))
        writer.int32s(self.replicas)
        writer.int32s(self.offline_replicas)
        writer.no_tags()


@message
class UpdateMetadataTopicState:
    """The partitions of one topic."""

    topic_name: str
    topic_id: uuid.UUID | None
    partition_states: tuple[UpdateMetadataPartitionState, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic_name = reader.string()
        (topic_id,) = reader.unpack(_FORM_U)
        partition_states = reader.structs(UpdateMetadataPartitionState.read, version)
        reader.skip_tags()
        return cls(
            topic_name=topic_name,
            topic_id=uuid_of(topic_id),
            partition_states=partition_states,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.topic_name)
        writer.put(_FORM_U.pack(uuid_bytes(self.topic_id)))
        writer.structs(self.partition_states, version)
        writer.no_tags()


@message
class UpdateMetadataEndpoint:
    """One listener of a broker."""

    port: int
    host: str
    listener: str
    security_protocol: int
    """0 stands for PLAINTEXT."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (port,) = reader.unpack(_FORM_I)
        host = reader.string()
        listener = reader.string()
        (security_protocol,) = reader.unpack(_FORM_H)
        reader.skip_tags()
        return cls(
            port=port,
            host=host,
            listener=listener,
            security_protocol=security_protocol,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.port))
        writer.string(self.host)
        writer.string(self.listener)
        writer.put(_FORM_H.pack(self.security_protocol))
        writer.no_tags()


@message
class UpdateMetadataBroker:
    """One live broker."""

    id: BrokerId
    endpoints: tuple[UpdateMetadataEndpoint, ...]
    rack: str | None

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (id,) = reader.unpack(_FORM_I)
        endpoints = reader.structs(UpdateMetadataEndpoint.read, version)
        rack = reader.nullable_string()
        reader.skip_tags()
        return cls(
            id=id,
            endpoints=endpoints,
            rack=rack,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.id))
        writer.structs(self.endpoints, version)
        writer.string(self.rack)
        writer.no_tags()


@message
class UpdateMetadataRequest:
    """A request of the controller with the content of a broker's Metadata responses.
    ``live_brokers`` replaces the broker's former list. ``topic_states`` adds to it."""

    API_KEY: ClassVar[int] = 6
    VERSIONS: ClassVar[range] = range(7, 8)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 7
    FLEXIBLE_SINCE: ClassVar[int] = 7

    version: int = 7
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: int = -1
    topic_states: tuple[UpdateMetadataTopicState, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (controller_id, controller_epoch, broker_epoch) = reader.unpack(_FORM_IIQ)
        topic_states = reader.structs(UpdateMetadataTopicState.read, version)
        live_brokers = reader.structs(UpdateMetadataBroker.read, version)
        reader.skip_tags()
        return cls(
            version=version,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=topic_states,
            live_brokers=live_brokers,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IIQ.pack(self.controller_id, self.controller_epoch, self.broker_epoch))
        writer.structs(self.topic_states, version)
        writer.structs(self.live_brokers, version)
        writer.no_tags()

    @staticmethod
    def response() -> type["UpdateMetadataResponse"]:
        """The class of what is answered."""
        return UpdateMetadataResponse


@message
class UpdateMetadataResponse:
    """The broker's answer."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 7
    FLEXIBLE_SINCE: ClassVar[int] = 7

    error_code: ErrorCode

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        reader.skip_tags()
        return cls(
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.no_tags()
