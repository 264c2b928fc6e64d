"""AlterPartitionReassignments (api 45), version 0.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_I = struct.Struct(">i")
_FORM_IH = struct.Struct(">ih")


@message
class ReassignablePartition:
    """Part of a request."""

    partition_index: int
    """The partition index."""
    replicas: tuple[BrokerId, ...] | None = None
    """The replicas to place the partitions on, or null to cancel a pending reassignment for this
    partition."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index,) = reader.unpack(_FORM_I)
        replicas = reader.nullable_int32s()
        reader.skip_tags()
        return cls(
            partition_index=partition_index,
            replicas=replicas,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.partition_index))
        writer.int32s(self.replicas)
        writer.no_tags()


@message
class ReassignableTopic:
    """Part of a request."""

    name: str
    """The topic name."""
    partitions: tuple[ReassignablePartition, ...]
    """The partitions to reassign."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(ReassignablePartition.read, version)
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
class AlterPartitionReassignmentsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 45
    VERSIONS: ClassVar[range] = range(1)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    version: int = 0
    timeout_ms: int = 60000
    """The time in ms to wait for the request to complete."""
    topics: tuple[ReassignableTopic, ...]
    """The topics to reassign."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (timeout_ms,) = reader.unpack(_FORM_I)
        topics = reader.structs(ReassignableTopic.read, version)
        reader.skip_tags()
        return cls(
            version=version,
            timeout_ms=timeout_ms,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.timeout_ms))
        writer.structs(self.topics, version)
        writer.no_tags()

    @staticmethod
    def response() -> type["AlterPartitionReassignmentsResponse"]:
        """The class of what is answered."""
        return AlterPartitionReassignmentsResponse


@message
class ReassignablePartitionResponse:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    error_code: ErrorCode
    """The error code for this partition, or 0 if there was no error."""
    error_message: str | None
    """The error message for this partition, or null if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index, error_code) = reader.unpack(_FORM_IH)
        error_message = reader.nullable_string()
        reader.skip_tags()
        return cls(
            partition_index=partition_index,
            error_code=error(error_code),
            error_message=error_message,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.partition_index, self.error_code))
        writer.string(self.error_message)
        writer.no_tags()


@message
class ReassignableTopicResponse:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[ReassignablePartitionResponse, ...]
    """The responses to partitions to reassign."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(ReassignablePartitionResponse.read, version)
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
class AlterPartitionReassignmentsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode
    """The top-level error code, or 0 if there was no error."""
    error_message: str | None
    """The top-level error message, or null if there was no error."""
    responses: tuple[ReassignableTopicResponse, ...]
    """The responses to topics to reassign."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms, error_code) = reader.unpack(_FORM_IH)
        error_message = reader.nullable_string()
        responses = reader.structs(ReassignableTopicResponse.read, version)
        reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            error_message=error_message,
            responses=responses,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.throttle_time_ms, self.error_code))
        writer.string(self.error_message)
        writer.structs(self.responses, version)
        writer.no_tags()
