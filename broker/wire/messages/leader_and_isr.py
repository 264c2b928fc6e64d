"""LeaderAndIsr (api 4), version 5.

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
_FORM_IH = struct.Struct(">ih")
_FORM_IIII = struct.Struct(">iiii")
_FORM_IIQB = struct.Struct(">iiqb")
_FORM_O = struct.Struct(">?")
_FORM_U = struct.Struct(">16s")


@message
class LeaderAndIsrPartitionState:
    """The leader of one partition, its epoch and its ISR."""

    partition_index: int
    controller_epoch: ControllerEpoch
    """The epoch of the controller that wrote this state, which may differ from that of the
    sender."""
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    zk_version: ZkVersion
    """The version of the partition state znode. The leader's ISR writes are conditional on it."""
    replicas: tuple[BrokerId, ...]
    """All assigned replicas, the preferred one first."""
    adding_replicas: tuple[BrokerId, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    is_new: bool = False
    """Whether this replica is new on the broker, so that no log is expected there."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, controller_epoch, leader, leader_epoch) = reader.unpack(_FORM_IIII)
        isr = reader.int32s()
        (zk_version,) = reader.unpack(_FORM_I)
        replicas = reader.int32s()
        adding_replicas = reader.int32s()
        removing_replicas = reader.int32s()
        (is_new,) = reader.unpack(_FORM_O)
        reader.skip_tags()
        return cls(
            partition_index=partition_index,
            controller_epoch=controller_epoch,
            leader=leader,
            leader_epoch=leader_epoch,
            isr=isr,
            zk_version=zk_version,
            replicas=replicas,
            adding_replicas=adding_replicas,
            removing_replicas=removing_replicas,
            is_new=is_new,
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
        writer.int32s(self.adding_replicas)
        writer.int32s(self.removing_replicas)
        writer.put(_FORM_O.pack(self.is_new))
        writer.no_tags()


@message
class LeaderAndIsrTopicState:
    """The partitions of one topic."""

    topic_name: str
    topic_id: uuid.UUID | None
    partition_states: tuple[LeaderAndIsrPartitionState, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic_name = reader.string()
        (topic_id,) = reader.unpack(_FORM_U)
        partition_states = reader.structs(LeaderAndIsrPartitionState.read, version)
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
class LeaderAndIsrLiveLeader:
    """The address of a leader named in the request."""

    broker_id: BrokerId
    host_name: str
    port: int

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (broker_id,) = reader.unpack(_FORM_I)
        host_name = reader.string()
        (port,) = reader.unpack(_FORM_I)
        reader.skip_tags()
        return cls(
            broker_id=broker_id,
            host_name=host_name,
            port=port,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.broker_id))
        writer.string(self.host_name)
        writer.put(_FORM_I.pack(self.port))
        writer.no_tags()


@message
class LeaderAndIsrRequest:
    """A request of the controller that tells a broker which partitions to lead and which to
    follow."""

    API_KEY: ClassVar[int] = 4
    VERSIONS: ClassVar[range] = range(5, 6)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 5

    version: int = 5
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: int = -1
    """The czxid of the broker's registration. The broker refuses a request with another one."""
    type_: int = 0
    """0 if unknown, otherwise ``LEADER_AND_ISR_INCREMENTAL`` or ``LEADER_AND_ISR_FULL``."""
    topic_states: tuple[LeaderAndIsrTopicState, ...]
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (controller_id, controller_epoch, broker_epoch, type_) = reader.unpack(_FORM_IIQB)
        topic_states = reader.structs(LeaderAndIsrTopicState.read, version)
        live_leaders = reader.structs(LeaderAndIsrLiveLeader.read, version)
        reader.skip_tags()
        return cls(
            version=version,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            type_=type_,
            topic_states=topic_states,
            live_leaders=live_leaders,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(
            _FORM_IIQB.pack(
                self.controller_id, self.controller_epoch, self.broker_epoch, self.type_
            )
        )
        writer.structs(self.topic_states, version)
        writer.structs(self.live_leaders, version)
        writer.no_tags()

    @staticmethod
    def response() -> type["LeaderAndIsrResponse"]:
        """The class of what is answered."""
        return LeaderAndIsrResponse


@message
class LeaderAndIsrPartitionError:
    """The broker's answer for one partition."""

    partition_index: int
    error_code: ErrorCode

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, error_code) = reader.unpack(_FORM_IH)
        reader.skip_tags()
        return cls(
            partition_index=partition_index,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.partition_index, self.error_code))
        writer.no_tags()


@message
class LeaderAndIsrTopicError:
    """The broker's answer for one topic's partitions."""

    topic_id: uuid.UUID | None
    partition_errors: tuple[LeaderAndIsrPartitionError, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (topic_id,) = reader.unpack(_FORM_U)
        partition_errors = reader.structs(LeaderAndIsrPartitionError.read, version)
        reader.skip_tags()
        return cls(
            topic_id=uuid_of(topic_id),
            partition_errors=partition_errors,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_U.pack(uuid_bytes(self.topic_id)))
        writer.structs(self.partition_errors, version)
        writer.no_tags()


@message
class LeaderAndIsrResponse:
    """The broker's answer. ``error_code`` is about the request as a whole."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 5
    FLEXIBLE_SINCE: ClassVar[int] = 5

    error_code: ErrorCode
    topics: tuple[LeaderAndIsrTopicError, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        topics = reader.structs(LeaderAndIsrTopicError.read, version)
        reader.skip_tags()
        return cls(
            error_code=error(error_code),
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.structs(self.topics, version)
        writer.no_tags()
