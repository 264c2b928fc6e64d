"""OffsetFetch (api 9), versions 1 to 8.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import LeaderEpoch, Offset
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_IQ = struct.Struct(">iq")
_FORM_IQI = struct.Struct(">iqi")
_FORM_O = struct.Struct(">?")


@message
class OffsetFetchRequestTopics:
    """Part of a request."""

    name: str
    """The topic name."""
    partition_indexes: tuple[int, ...] = ()
    """The partition indexes we would like to fetch offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partition_indexes = reader.int32s()
        reader.skip_tags()
        return cls(
            name=name,
            partition_indexes=partition_indexes,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.int32s(self.partition_indexes)
        writer.no_tags()


@message
class OffsetFetchRequestGroup:
    """Part of a request."""

    group_id: str
    """The group ID."""
    topics: tuple[OffsetFetchRequestTopics, ...] | None
    """Each topic we would like to fetch offsets for, or null to fetch offsets for all topics."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        topics = reader.nullable_structs(OffsetFetchRequestTopics.read, version)
        reader.skip_tags()
        return cls(
            group_id=group_id,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        writer.structs(self.topics, version)
        writer.no_tags()


@message
class OffsetFetchRequestTopic:
    """Part of a request."""

    name: str
    """The topic name."""
    partition_indexes: tuple[int, ...] = ()
    """The partition indexes we would like to fetch offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partition_indexes = reader.int32s()
        if version >= 6:
            reader.skip_tags()
        return cls(
            name=name,
            partition_indexes=partition_indexes,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.int32s(self.partition_indexes)
        if version >= 6:
            writer.no_tags()


@message
class OffsetFetchRequest:
    """A request."""

    API_KEY: ClassVar[int] = 9
    VERSIONS: ClassVar[range] = range(1, 9)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 6

    version: int
    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    """Each group we would like to fetch offsets for."""
    group_id: str = ""
    """The group to fetch offsets for."""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()
    """Each topic we would like to fetch offsets for, or null to fetch offsets for all topics."""
    require_stable: bool = False
    """Whether broker should hold on returning unstable offsets but set a retriable error code for
    the partitions."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 8:
            groups = reader.structs(OffsetFetchRequestGroup.read, version)
        else:
            groups = ()
        if version <= 7:
            group_id = reader.string()
            topics = (
                reader.nullable_structs(OffsetFetchRequestTopic.read, version)
                if version >= 2
                else reader.structs(OffsetFetchRequestTopic.read, version)
            )
        else:
            group_id = ""
            topics = ()
        if version >= 7:
            (require_stable,) = reader.unpack(_FORM_O)
        else:
            require_stable = False
        if version >= 6:
            reader.skip_tags()
        return cls(
            version=version,
            groups=groups,
            group_id=group_id,
            topics=topics,
            require_stable=require_stable,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 8:
            writer.structs(self.groups, version)
        if version <= 7:
            writer.string(self.group_id)
            writer.structs(self.topics, version)
        if version >= 7:
            writer.put(_FORM_O.pack(self.require_stable))
        if version >= 6:
            writer.no_tags()

    @staticmethod
    def response() -> type["OffsetFetchResponse"]:
        """The class of what is answered."""
        return OffsetFetchResponse


@message
class OffsetFetchResponsePartitions:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    committed_offset: Offset
    """The committed message offset."""
    committed_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The leader epoch."""
    metadata: str | None
    """The partition metadata."""
    error_code: ErrorCode
    """The partition-level error code, or 0 if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, committed_offset, committed_leader_epoch) = reader.unpack(_FORM_IQI)
        metadata = reader.nullable_string()
        (error_code,) = reader.unpack(_FORM_H)
        reader.skip_tags()
        return cls(
            partition_index=partition_index,
            committed_offset=committed_offset,
            committed_leader_epoch=committed_leader_epoch,
            metadata=metadata,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(
            _FORM_IQI.pack(self.partition_index, self.committed_offset, self.committed_leader_epoch)
        )
        writer.string(self.metadata)
        writer.put(_FORM_H.pack(self.error_code))
        writer.no_tags()


@message
class OffsetFetchResponseTopics:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[OffsetFetchResponsePartitions, ...]
    """The responses per partition."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(OffsetFetchResponsePartitions.read, version)
        reader.skip_tags()
        return cls(
            name=name,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partitions, version)
        writer.no_tags()


@message
class OffsetFetchResponseGroup:
    """Part of a response."""

    group_id: str
    """The group ID."""
    topics: tuple[OffsetFetchResponseTopics, ...]
    """The responses per topic."""
    error_code: ErrorCode = ErrorCode.none
    """The group-level error code, or 0 if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        topics = reader.structs(OffsetFetchResponseTopics.read, version)
        (error_code,) = reader.unpack(_FORM_H)
        reader.skip_tags()
        return cls(
            group_id=group_id,
            topics=topics,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        writer.structs(self.topics, version)
        writer.put(_FORM_H.pack(self.error_code))
        writer.no_tags()


@message
class OffsetFetchResponsePartition:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    committed_offset: Offset
    """The committed message offset."""
    committed_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The leader epoch."""
    metadata: str | None
    """The partition metadata."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 5:
            (partition_index, committed_offset, committed_leader_epoch) = reader.unpack(_FORM_IQI)
        else:
            (partition_index, committed_offset) = reader.unpack(_FORM_IQ)
            committed_leader_epoch = LeaderEpoch(-1)
        metadata = reader.nullable_string()
        (error_code,) = reader.unpack(_FORM_H)
        if version >= 6:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            committed_offset=committed_offset,
            committed_leader_epoch=committed_leader_epoch,
            metadata=metadata,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 5:
            writer.put(
                _FORM_IQI.pack(
                    self.partition_index, self.committed_offset, self.committed_leader_epoch
                )
            )
        else:
            writer.put(_FORM_IQ.pack(self.partition_index, self.committed_offset))
        writer.string(self.metadata)
        writer.put(_FORM_H.pack(self.error_code))
        if version >= 6:
            writer.no_tags()


@message
class OffsetFetchResponseTopic:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[OffsetFetchResponsePartition, ...]
    """The responses per partition."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(OffsetFetchResponsePartition.read, version)
        if version >= 6:
            reader.skip_tags()
        return cls(
            name=name,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partitions, version)
        if version >= 6:
            writer.no_tags()


@message
class OffsetFetchResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 6

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    groups: tuple[OffsetFetchResponseGroup, ...] = ()
    """The responses per group id."""
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    """The responses per topic."""
    error_code: ErrorCode = ErrorCode.none
    """The top-level error code, or 0 if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 3:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
        else:
            throttle_time_ms = 0
        if version >= 8:
            groups = reader.structs(OffsetFetchResponseGroup.read, version)
        else:
            groups = ()
        if version <= 7:
            topics = reader.structs(OffsetFetchResponseTopic.read, version)
        else:
            topics = ()
        if version >= 8:
            error_code = 0
        elif version >= 2:
            (error_code,) = reader.unpack(_FORM_H)
        else:
            error_code = 0
        if version >= 6:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            groups=groups,
            topics=topics,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 3:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        if version >= 8:
            writer.structs(self.groups, version)
        if version <= 7:
            writer.structs(self.topics, version)
        if version >= 8:
            pass
        elif version >= 2:
            writer.put(_FORM_H.pack(self.error_code))
        if version >= 6:
            writer.no_tags()
