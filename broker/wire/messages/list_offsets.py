"""ListOffsets (api 2), versions 1 to 9.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, LeaderEpoch, Offset
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_I = struct.Struct(">i")
_FORM_IB = struct.Struct(">ib")
_FORM_IHQQ = struct.Struct(">ihqq")
_FORM_IHQQI = struct.Struct(">ihqqi")
_FORM_IIQ = struct.Struct(">iiq")
_FORM_IQ = struct.Struct(">iq")


@message
class ListOffsetsPartition:
    """Part of a request."""

    partition_index: int
    """The partition index."""
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The current leader epoch."""
    timestamp: int
    """The current timestamp."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 4:
            (partition_index, current_leader_epoch, timestamp) = reader.unpack(_FORM_IIQ)
        else:
            (partition_index, timestamp) = reader.unpack(_FORM_IQ)
            current_leader_epoch = LeaderEpoch(-1)
        if version >= 6:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            current_leader_epoch=current_leader_epoch,
            timestamp=timestamp,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 4:
            writer.put(
                _FORM_IIQ.pack(self.partition_index, self.current_leader_epoch, self.timestamp)
            )
        else:
            writer.put(_FORM_IQ.pack(self.partition_index, self.timestamp))
        if version >= 6:
            writer.no_tags()


@message
class ListOffsetsTopic:
    """Part of a request."""

    name: str
    """The topic name."""
    partitions: tuple[ListOffsetsPartition, ...]
    """Each partition in the request."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(ListOffsetsPartition.read, version)
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
class ListOffsetsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 2
    VERSIONS: ClassVar[range] = range(1, 10)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 6

    version: int
    replica_id: BrokerId
    """The broker ID of the requester, or -1 if this request is being made by a normal consumer."""
    isolation_level: int = 0
    """This setting controls the visibility of transactional records. Using READ_UNCOMMITTED
    (isolation_level = 0) makes all records visible. With READ_COMMITTED (isolation_level = 1),
    non-transactional and COMMITTED transactional records are visible. To be more concrete,
    READ_COMMITTED returns all data from offsets smaller than the current LSO (last stable
    offset), and enables the inclusion of the list of aborted transactions in the result, which
    allows consumers to discard ABORTED transactional records."""
    topics: tuple[ListOffsetsTopic, ...]
    """Each topic in the request."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 2:
            (replica_id, isolation_level) = reader.unpack(_FORM_IB)
        else:
            (replica_id,) = reader.unpack(_FORM_I)
            isolation_level = 0
        topics = reader.structs(ListOffsetsTopic.read, version)
        if version >= 6:
            reader.skip_tags()
        return cls(
            version=version,
            replica_id=replica_id,
            isolation_level=isolation_level,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 2:
            writer.put(_FORM_IB.pack(self.replica_id, self.isolation_level))
        else:
            writer.put(_FORM_I.pack(self.replica_id))
        writer.structs(self.topics, version)
        if version >= 6:
            writer.no_tags()

    @staticmethod
    def response() -> type["ListOffsetsResponse"]:
        """The class of what is answered."""
        return ListOffsetsResponse


@message
class ListOffsetsPartitionResponse:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    error_code: ErrorCode
    """The partition error code, or 0 if there was no error."""
    timestamp: int = -1
    """The timestamp associated with the returned offset."""
    offset: Offset = Offset(-1)
    """The returned offset."""
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The leader epoch associated with the returned offset."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 4:
            (partition_index, error_code, timestamp, offset, leader_epoch) = reader.unpack(
                _FORM_IHQQI
            )
        else:
            (partition_index, error_code, timestamp, offset) = reader.unpack(_FORM_IHQQ)
            leader_epoch = LeaderEpoch(-1)
        if version >= 6:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            error_code=error(error_code),
            timestamp=timestamp,
            offset=offset,
            leader_epoch=leader_epoch,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 4:
            writer.put(
                _FORM_IHQQI.pack(
                    self.partition_index,
                    self.error_code,
                    self.timestamp,
                    self.offset,
                    self.leader_epoch,
                )
            )
        else:
            writer.put(
                _FORM_IHQQ.pack(self.partition_index, self.error_code, self.timestamp, self.offset)
            )
        if version >= 6:
            writer.no_tags()


@message
class ListOffsetsTopicResponse:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[ListOffsetsPartitionResponse, ...]
    """Each partition in the response."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(ListOffsetsPartitionResponse.read, version)
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
class ListOffsetsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 6
    FLEXIBLE_SINCE: ClassVar[int] = 6

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    topics: tuple[ListOffsetsTopicResponse, ...]
    """Each topic in the response."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 2:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
        else:
            throttle_time_ms = 0
        topics = reader.structs(ListOffsetsTopicResponse.read, version)
        if version >= 6:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 2:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.topics, version)
        if version >= 6:
            writer.no_tags()
