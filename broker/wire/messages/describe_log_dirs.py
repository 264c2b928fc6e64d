"""DescribeLogDirs (api 35), versions 1 to 4.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_IH = struct.Struct(">ih")
_FORM_IQQO = struct.Struct(">iqq?")
_FORM_QQ = struct.Struct(">qq")


@message
class DescribableLogDirTopic:
    """Part of a request."""

    topic: str
    """The topic name."""
    partitions: tuple[int, ...] = ()
    """The partition indexes."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic = reader.string()
        partitions = reader.int32s()
        if version >= 2:
            reader.skip_tags()
        return cls(
            topic=topic,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.topic)
        writer.int32s(self.partitions)
        if version >= 2:
            writer.no_tags()


@message
class DescribeLogDirsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 35
    VERSIONS: ClassVar[range] = range(1, 5)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    version: int
    topics: tuple[DescribableLogDirTopic, ...] | None
    """Each topic that we want to describe log directories for, or null for all topics."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topics = reader.nullable_structs(DescribableLogDirTopic.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            version=version,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.structs(self.topics, version)
        if version >= 2:
            writer.no_tags()

    @staticmethod
    def response() -> type["DescribeLogDirsResponse"]:
        """The class of what is answered."""
        return DescribeLogDirsResponse


@message
class DescribeLogDirsPartition:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    partition_size: int
    """The size of the log segments in this partition in bytes."""
    offset_lag: int
    """The lag of the log's LEO w.r.t. partition's HW (if it is the current log for the partition)
    or current replica's LEO (if it is the future log for the partition)."""
    is_future_key: bool
    """True if this log is created by AlterReplicaLogDirsRequest and will replace the current log
    of the replica in the future."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, partition_size, offset_lag, is_future_key) = reader.unpack(_FORM_IQQO)
        if version >= 2:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            partition_size=partition_size,
            offset_lag=offset_lag,
            is_future_key=is_future_key,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(
            _FORM_IQQO.pack(
                self.partition_index, self.partition_size, self.offset_lag, self.is_future_key
            )
        )
        if version >= 2:
            writer.no_tags()


@message
class DescribeLogDirsTopic:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[DescribeLogDirsPartition, ...]
    """The partitions."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(DescribeLogDirsPartition.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            name=name,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partitions, version)
        if version >= 2:
            writer.no_tags()


@message
class DescribeLogDirsResult:
    """Part of a response."""

    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    log_dir: str
    """The absolute log directory path."""
    topics: tuple[DescribeLogDirsTopic, ...]
    """The topics."""
    total_bytes: int = -1
    """The total size in bytes of the volume the log directory is in. This value does not include
    the size of data stored in remote storage."""
    usable_bytes: int = -1
    """The usable size in bytes of the volume the log directory is in. This value does not include
    the size of data stored in remote storage."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code,) = reader.unpack(_FORM_H)
        log_dir = reader.string()
        topics = reader.structs(DescribeLogDirsTopic.read, version)
        if version >= 4:
            (total_bytes, usable_bytes) = reader.unpack(_FORM_QQ)
        else:
            total_bytes = -1
            usable_bytes = -1
        if version >= 2:
            reader.skip_tags()
        return cls(
            error_code=error(error_code),
            log_dir=log_dir,
            topics=topics,
            total_bytes=total_bytes,
            usable_bytes=usable_bytes,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_H.pack(self.error_code))
        writer.string(self.log_dir)
        writer.structs(self.topics, version)
        if version >= 4:
            writer.put(_FORM_QQ.pack(self.total_bytes, self.usable_bytes))
        if version >= 2:
            writer.no_tags()


@message
class DescribeLogDirsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode = ErrorCode.none
    """The error code, or 0 if there was no error."""
    results: tuple[DescribeLogDirsResult, ...]
    """The log directories."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 3:
            (throttle_time_ms, error_code) = reader.unpack(_FORM_IH)
        else:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
            error_code = 0
        results = reader.structs(DescribeLogDirsResult.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            results=results,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 3:
            writer.put(_FORM_IH.pack(self.throttle_time_ms, self.error_code))
        else:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.results, version)
        if version >= 2:
            writer.no_tags()
