"""StopReplica (api 5), version 3.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_IH = struct.Struct(">ih")
_FORM_IIO = struct.Struct(">ii?")
_FORM_IIQ = struct.Struct(">iiq")


@message
class StopReplicaPartitionState:
    """One partition to stop."""

    partition_index: int
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The leader epoch; -1 if unknown, -2 if the topic is being deleted (KIP-570)."""
    delete_partition: bool
    """Whether the log must be deleted, too."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, leader_epoch, delete_partition) = reader.unpack(_FORM_IIO)
        reader.skip_tags()
        return cls(
            partition_index=partition_index,
            leader_epoch=leader_epoch,
            delete_partition=delete_partition,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IIO.pack(self.partition_index, self.leader_epoch, self.delete_partition))
        writer.no_tags()


@message
class StopReplicaTopicState:
    """The partitions of one topic."""

    topic_name: str
    partition_states: tuple[StopReplicaPartitionState, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic_name = reader.string()
        partition_states = reader.structs(StopReplicaPartitionState.read, version)
        reader.skip_tags()
        return cls(
            topic_name=topic_name,
            partition_states=partition_states,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.topic_name)
        writer.structs(self.partition_states, version)
        writer.no_tags()


@message
class StopReplicaRequest:
    """A request of the controller that tells a broker to stop replicas, and possibly to delete
    them."""

    API_KEY: ClassVar[int] = 5
    VERSIONS: ClassVar[range] = range(3, 4)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    version: int = 3
    controller_id: BrokerId
    controller_epoch: ControllerEpoch
    broker_epoch: int = -1
    topic_states: tuple[StopReplicaTopicState, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (controller_id, controller_epoch, broker_epoch) = reader.unpack(_FORM_IIQ)
        topic_states = reader.structs(StopReplicaTopicState.read, version)
        reader.skip_tags()
        return cls(
            version=version,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=topic_states,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IIQ.pack(self.controller_id, self.controller_epoch, self.broker_epoch))
        writer.structs(self.topic_states, version)
        writer.no_tags()

    @staticmethod
    def response() -> type["StopReplicaResponse"]:
        """The class of what is answered."""
        return StopReplicaResponse


@message
class StopReplicaPartitionError:
    """The broker's answer for one partition."""

    topic_name: str
    partition_index: int
    error_code: ErrorCode

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic_name = reader.string()
        (partition_index, error_code) = reader.unpack(_FORM_IH)
        reader.skip_tags()
        return cls(
            topic_name=topic_name,
            partition_index=partition_index,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.topic_name)
        writer.put(_FORM_IH.pack(self.partition_index, self.error_code))
        writer.no_tags()


@message
class StopReplicaResponse:
    """The broker's answer. ``error_code`` is about the request as a whole."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 3
    FLEXIBLE_SINCE: ClassVar[int] = 3

    error_code: ErrorCode
    partition_errors: tuple[StopReplicaPartitionError, ...]

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        partition_errors = reader.structs(StopReplicaPartitionError.read, version)
        reader.skip_tags()
        return cls(
            error_code=error(error_code),
            partition_errors=partition_errors,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.structs(self.partition_errors, version)
        writer.no_tags()
