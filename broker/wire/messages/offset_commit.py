"""OffsetCommit (api 8), versions 2 to 8.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import LeaderEpoch, Offset
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_I = struct.Struct(">i")
_FORM_IH = struct.Struct(">ih")
_FORM_IQ = struct.Struct(">iq")
_FORM_IQI = struct.Struct(">iqi")
_FORM_Q = struct.Struct(">q")


@message
class OffsetCommitRequestPartition:
    """Part of a request."""

    partition_index: int
    """The partition index."""
    committed_offset: Offset
    """The message offset to be committed."""
    committed_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The leader epoch of this partition."""
    committed_metadata: str | None
    """Any associated metadata the client wants to keep."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 6:
            (partition_index, committed_offset, committed_leader_epoch) = reader.unpack(_FORM_IQI)
        else:
            (partition_index, committed_offset) = reader.unpack(_FORM_IQ)
            committed_leader_epoch = LeaderEpoch(-1)
        committed_metadata = reader.nullable_string()
        if version >= 8:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            committed_offset=committed_offset,
            committed_leader_epoch=committed_leader_epoch,
            committed_metadata=committed_metadata,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 6:
            writer.put(
                _FORM_IQI.pack(
                    self.partition_index, self.committed_offset, self.committed_leader_epoch
                )
            )
        else:
            writer.put(_FORM_IQ.pack(self.partition_index, self.committed_offset))
        writer.string(self.committed_metadata)
        if version >= 8:
            writer.no_tags()


@message
class OffsetCommitRequestTopic:
    """Part of a request."""

    name: str
    """The topic name."""
    partitions: tuple[OffsetCommitRequestPartition, ...]
    """Each partition to commit offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(OffsetCommitRequestPartition.read, version)
        if version >= 8:
            reader.skip_tags()
        return cls(
            name=name,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partitions, version)
        if version >= 8:
            writer.no_tags()


@message
class OffsetCommitRequest:
    """A request."""

    API_KEY: ClassVar[int] = 8
    VERSIONS: ClassVar[range] = range(2, 9)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 8
    FLEXIBLE_SINCE: ClassVar[int] = 8

    version: int
    group_id: str
    """The unique group identifier."""
    generation_id_or_member_epoch: int = -1
    """The generation of the group if using the classic group protocol or the member epoch if
    using the consumer protocol."""
    member_id: str
    """The member ID assigned by the group coordinator."""
    group_instance_id: str | None = None
    """The unique identifier of the consumer instance provided by end user."""
    retention_time_ms: int = -1
    """The time period in ms to retain the offset."""
    topics: tuple[OffsetCommitRequestTopic, ...]
    """The topics to commit offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        (generation_id_or_member_epoch,) = reader.unpack(_FORM_I)
        member_id = reader.string()
        if version >= 7:
            group_instance_id = reader.nullable_string()
        else:
            group_instance_id = None
        if version >= 5:
            retention_time_ms = -1
        else:
            (retention_time_ms,) = reader.unpack(_FORM_Q)
        topics = reader.structs(OffsetCommitRequestTopic.read, version)
        if version >= 8:
            reader.skip_tags()
        return cls(
            version=version,
            group_id=group_id,
            generation_id_or_member_epoch=generation_id_or_member_epoch,
            member_id=member_id,
            group_instance_id=group_instance_id,
            retention_time_ms=retention_time_ms,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        writer.put(_FORM_I.pack(self.generation_id_or_member_epoch))
        writer.string(self.member_id)
        if version >= 7:
            writer.string(self.group_instance_id)
        if version >= 5:
            pass
        else:
            writer.put(_FORM_Q.pack(self.retention_time_ms))
        writer.structs(self.topics, version)
        if version >= 8:
            writer.no_tags()

    @staticmethod
    def response() -> type["OffsetCommitResponse"]:
        """The class of what is answered."""
        return OffsetCommitResponse


@message
class OffsetCommitResponsePartition:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, error_code) = reader.unpack(_FORM_IH)
        if version >= 8:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.partition_index, self.error_code))
        if version >= 8:
            writer.no_tags()


@message
class OffsetCommitResponseTopic:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[OffsetCommitResponsePartition, ...]
    """The responses for each partition in the topic."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(OffsetCommitResponsePartition.read, version)
        if version >= 8:
            reader.skip_tags()
        return cls(
            name=name,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partitions, version)
        if version >= 8:
            writer.no_tags()


@message
class OffsetCommitResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 8
    FLEXIBLE_SINCE: ClassVar[int] = 8

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    topics: tuple[OffsetCommitResponseTopic, ...]
    """The responses for each topic."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 3:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
        else:
            throttle_time_ms = 0
        topics = reader.structs(OffsetCommitResponseTopic.read, version)
        if version >= 8:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 3:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.topics, version)
        if version >= 8:
            writer.no_tags()
