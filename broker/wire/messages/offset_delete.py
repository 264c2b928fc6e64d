"""OffsetDelete (api 47), version 0.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import NEVER, message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_HI = struct.Struct(">hi")
_FORM_I = struct.Struct(">i")
_FORM_IH = struct.Struct(">ih")


@message
class OffsetDeleteRequestPartition:
    """Part of a request."""

    partition_index: int
    """The partition index."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index,) = reader.unpack(_FORM_I)
        return cls(
            partition_index=partition_index,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.partition_index))


@message
class OffsetDeleteRequestTopic:
    """Part of a request."""

    name: str
    """The topic name."""
    partitions: tuple[OffsetDeleteRequestPartition, ...]
    """Each partition to delete offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(OffsetDeleteRequestPartition.read, version)
        return cls(
            name=name,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partitions, version)


@message
class OffsetDeleteRequest:
    """A request."""

    API_KEY: ClassVar[int] = 47
    VERSIONS: ClassVar[range] = range(1)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = NEVER
    FLEXIBLE_SINCE: ClassVar[int] = NEVER

    version: int = 0
    group_id: str
    """The unique group identifier."""
    topics: tuple[OffsetDeleteRequestTopic, ...]
    """The topics to delete offsets for."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        group_id = reader.string()
        topics = reader.structs(OffsetDeleteRequestTopic.read, version)
        return cls(
            version=version,
            group_id=group_id,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.group_id)
        writer.structs(self.topics, version)

    @staticmethod
    def response() -> type["OffsetDeleteResponse"]:
        """The class of what is answered."""
        return OffsetDeleteResponse


@message
class OffsetDeleteResponsePartition:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, error_code) = reader.unpack(_FORM_IH)
        return cls(
            partition_index=partition_index,
            error_code=error(error_code),
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.partition_index, self.error_code))


@message
class OffsetDeleteResponseTopic:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[OffsetDeleteResponsePartition, ...]
    """The responses for each partition in the topic."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(OffsetDeleteResponsePartition.read, version)
        return cls(
            name=name,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partitions, version)


@message
class OffsetDeleteResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = NEVER
    FLEXIBLE_SINCE: ClassVar[int] = NEVER

    error_code: ErrorCode
    """The top-level error code, or 0 if there was no error."""
    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    topics: tuple[OffsetDeleteResponseTopic, ...]
    """The responses for each topic."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (error_code, throttle_time_ms) = reader.unpack(_FORM_HI)
        topics = reader.structs(OffsetDeleteResponseTopic.read, version)
        return cls(
            error_code=error(error_code),
            throttle_time_ms=throttle_time_ms,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_HI.pack(self.error_code, self.throttle_time_ms))
        writer.structs(self.topics, version)
