"""CreatePartitions (api 37), versions 0 to 3.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_IO = struct.Struct(">i?")


@message
class CreatePartitionsAssignment:
    """Part of a request."""

    broker_ids: tuple[BrokerId, ...] = ()
    """The assigned broker IDs."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        broker_ids = reader.int32s()
        if version >= 2:
            reader.skip_tags()
        return cls(
            broker_ids=broker_ids,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.int32s(self.broker_ids)
        if version >= 2:
            writer.no_tags()


@message
class CreatePartitionsTopic:
    """Part of a request."""

    name: str
    """The topic name."""
    count: int
    """The new partition count."""
    assignments: tuple[CreatePartitionsAssignment, ...] | None
    """The new partition assignments."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        (count,) = reader.unpack(_FORM_I)
        assignments = reader.nullable_structs(CreatePartitionsAssignment.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            name=name,
            count=count,
            assignments=assignments,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.put(_FORM_I.pack(self.count))
        writer.structs(self.assignments, version)
        if version >= 2:
            writer.no_tags()


@message
class CreatePartitionsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 37
    VERSIONS: ClassVar[range] = range(4)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    version: int
    topics: tuple[CreatePartitionsTopic, ...]
    """Each topic that we want to create new partitions inside."""
    timeout_ms: int
    """The time in ms to wait for the partitions to be created."""
    validate_only: bool
    """If true, then validate the request, but don't actually increase the number of partitions."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topics = reader.structs(CreatePartitionsTopic.read, version)
        (timeout_ms, validate_only) = reader.unpack(_FORM_IO)
        if version >= 2:
            reader.skip_tags()
        return cls(
            version=version,
            topics=topics,
            timeout_ms=timeout_ms,
            validate_only=validate_only,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.structs(self.topics, version)
        writer.put(_FORM_IO.pack(self.timeout_ms, self.validate_only))
        if version >= 2:
            writer.no_tags()

    @staticmethod
    def response() -> type["CreatePartitionsResponse"]:
        """The class of what is answered."""
        return CreatePartitionsResponse


@message
class CreatePartitionsTopicResult:
    """Part of a response."""

    name: str
    """The topic name."""
    error_code: ErrorCode
    """The result error, or zero if there was no error."""
    error_message: str | None = None
    """The result message, or null if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        (error_code,) = reader.unpack(_FORM_H)
        error_message = reader.nullable_string()
        if version >= 2:
            reader.skip_tags()
        return cls(
            name=name,
            error_code=error(error_code),
            error_message=error_message,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.put(_FORM_H.pack(self.error_code))
        writer.string(self.error_message)
        if version >= 2:
            writer.no_tags()


@message
class CreatePartitionsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    results: tuple[CreatePartitionsTopicResult, ...]
    """The partition creation results for each topic."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        results = reader.structs(CreatePartitionsTopicResult.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            results=results,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.results, version)
        if version >= 2:
            writer.no_tags()
