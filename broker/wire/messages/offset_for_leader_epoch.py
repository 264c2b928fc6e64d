"""OffsetForLeaderEpoch (api 23), versions 2 to 4.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, LeaderEpoch, Offset
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_HIIQ = struct.Struct(">hiiq")
_FORM_I = struct.Struct(">i")
_FORM_III = struct.Struct(">iii")


@message
class OffsetForLeaderPartition:
    """Part of a request."""

    partition: int
    """The partition index."""
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """An epoch used to fence consumers/replicas with old metadata. If the epoch provided by the
    client is larger than the current epoch known to the broker, then the UNKNOWN_LEADER_EPOCH
    error code will be returned. If the provided epoch is smaller, then the FENCED_LEADER_EPOCH
    error code will be returned."""
    leader_epoch: LeaderEpoch
    """The epoch to look up an offset for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition, current_leader_epoch, leader_epoch) = reader.unpack(_FORM_III)
        if version >= 4:
            reader.skip_tags()
        return cls(
            partition=partition,
            current_leader_epoch=current_leader_epoch,
            leader_epoch=leader_epoch,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_III.pack(self.partition, self.current_leader_epoch, self.leader_epoch))
        if version >= 4:
            writer.no_tags()


@message
class OffsetForLeaderTopic:
    """Part of a request."""

    topic: str
    """The topic name."""
    partitions: tuple[OffsetForLeaderPartition, ...]
    """Each partition to get offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic = reader.string()
        partitions = reader.structs(OffsetForLeaderPartition.read, version)
        if version >= 4:
            reader.skip_tags()
        return cls(
            topic=topic,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.topic)
        writer.structs(self.partitions, version)
        if version >= 4:
            writer.no_tags()


@message
class OffsetForLeaderEpochRequest:
    """A request."""

    API_KEY: ClassVar[int] = 23
    VERSIONS: ClassVar[range] = range(2, 5)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    version: int
    replica_id: BrokerId = BrokerId(-2)
    """The broker ID of the follower, of -1 if this request is from a consumer."""
    topics: tuple[OffsetForLeaderTopic, ...]
    """Each topic to get offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 3:
            (replica_id,) = reader.unpack(_FORM_I)
        else:
            replica_id = BrokerId(-2)
        topics = reader.structs(OffsetForLeaderTopic.read, version)
        if version >= 4:
            reader.skip_tags()
        return cls(
            version=version,
            replica_id=replica_id,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 3:
            writer.put(_FORM_I.pack(self.replica_id))
        writer.structs(self.topics, version)
        if version >= 4:
            writer.no_tags()

    @staticmethod
    def response() -> type["OffsetForLeaderEpochResponse"]:
        """The class of what is answered."""
        return OffsetForLeaderEpochResponse


@message
class EpochEndOffset:
    """Part of a response."""

    error_code: ErrorCode
    """The error code 0, or if there was no error."""
    partition: int
    """The partition index."""
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The leader epoch of the partition."""
    end_offset: Offset = Offset(-1)
    """The end offset of the epoch."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code, partition, leader_epoch, end_offset) = reader.unpack(_FORM_HIIQ)
        if version >= 4:
            reader.skip_tags()
        return cls(
            error_code=error(error_code),
            partition=partition,
            leader_epoch=leader_epoch,
            end_offset=end_offset,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(
            _FORM_HIIQ.pack(self.error_code, self.partition, self.leader_epoch, self.end_offset)
        )
        if version >= 4:
            writer.no_tags()


@message
class OffsetForLeaderTopicResult:
    """Part of a response."""

    topic: str
    """The topic name."""
    partitions: tuple[EpochEndOffset, ...]
    """Each partition in the topic we fetched offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic = reader.string()
        partitions = reader.structs(EpochEndOffset.read, version)
        if version >= 4:
            reader.skip_tags()
        return cls(
            topic=topic,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.topic)
        writer.structs(self.partitions, version)
        if version >= 4:
            writer.no_tags()


@message
class OffsetForLeaderEpochResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 4
    FLEXIBLE_SINCE: ClassVar[int] = 4

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    topics: tuple[OffsetForLeaderTopicResult, ...]
    """Each topic we fetched offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        topics = reader.structs(OffsetForLeaderTopicResult.read, version)
        if version >= 4:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.topics, version)
        if version >= 4:
            writer.no_tags()
