"""DeleteRecords (api 21), versions 0 to 2.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import Offset
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_I = struct.Struct(">i")
_FORM_IQ = struct.Struct(">iq")
_FORM_IQH = struct.Struct(">iqh")


@message
class DeleteRecordsPartition:
    """Part of a request."""

    partition_index: int
    """The partition index."""
    offset: Offset
    """The deletion offset. -1 means that records should be truncated to the high watermark."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, offset) = reader.unpack(_FORM_IQ)
        if version >= 2:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            offset=offset,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IQ.pack(self.partition_index, self.offset))
        if version >= 2:
            writer.no_tags()


@message
class DeleteRecordsTopic:
    """Part of a request."""

    name: str
    """The topic name."""
    partitions: tuple[DeleteRecordsPartition, ...]
    """Each partition that we want to delete records from."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(DeleteRecordsPartition.read, version)
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
class DeleteRecordsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 21
    VERSIONS: ClassVar[range] = range(3)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    version: int
    topics: tuple[DeleteRecordsTopic, ...]
    """Each topic that we want to delete records from."""
    timeout_ms: int
    """How long to wait for the deletion to complete, in milliseconds."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topics = reader.structs(DeleteRecordsTopic.read, version)
        (timeout_ms,) = reader.unpack(_FORM_I)
        if version >= 2:
            reader.skip_tags()
        return cls(
            version=version,
            topics=topics,
            timeout_ms=timeout_ms,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.structs(self.topics, version)
        writer.put(_FORM_I.pack(self.timeout_ms))
        if version >= 2:
            writer.no_tags()

    @staticmethod
    def response() -> type["DeleteRecordsResponse"]:
        """The class of what is answered."""
        return DeleteRecordsResponse


@message
class DeleteRecordsPartitionResult:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    low_watermark: Offset
    """The partition low water mark."""
    error_code: ErrorCode
    """The deletion error code, or 0 if the deletion succeeded."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, low_watermark, error_code) = reader.unpack(_FORM_IQH)
        if version >= 2:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            low_watermark=low_watermark,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IQH.pack(self.partition_index, self.low_watermark, self.error_code))
        if version >= 2:
            writer.no_tags()


@message
class DeleteRecordsTopicResult:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[DeleteRecordsPartitionResult, ...]
    """Each partition that we wanted to delete records from."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(DeleteRecordsPartitionResult.read, version)
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
class DeleteRecordsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    topics: tuple[DeleteRecordsTopicResult, ...]
    """Each topic that we wanted to delete records from."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        topics = reader.structs(DeleteRecordsTopicResult.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.topics, version)
        if version >= 2:
            writer.no_tags()
