"""ListPartitionReassignments (api 46), version 0.

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
class ListPartitionReassignmentsTopics:
    """Part of a request."""

    name: str
    """The topic name."""
    partition_indexes: tuple[int, ...] = ()
    """The partitions to list partition reassignments for."""

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
class ListPartitionReassignmentsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 46
    VERSIONS: ClassVar[range] = range(1)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 0
    FLEXIBLE_SINCE: ClassVar[int] = 0

    version: int = 0
    timeout_ms: int = 60000
    """The time in ms to wait for the request to complete."""
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None
    """The topics to list partition reassignments for, or null to list everything."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (timeout_ms,) = reader.unpack(_FORM_I)
        topics = reader.nullable_structs(ListPartitionReassignmentsTopics.read, version)
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
    def response() -> type["ListPartitionReassignmentsResponse"]:
        """The class of what is answered."""
        return ListPartitionReassignmentsResponse


@message
class OngoingPartitionReassignment:
    """Part of a response."""

    partition_index: int
    """The index of the partition."""
    replicas: tuple[BrokerId, ...] = ()
    """The current replica set."""
    adding_replicas: tuple[BrokerId, ...] = ()
    """The set of replicas we are currently adding."""
    removing_replicas: tuple[BrokerId, ...] = ()
    """The set of replicas we are currently removing."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index,) = reader.unpack(_FORM_I)
        replicas = reader.int32s()
        adding_replicas = reader.int32s()
        removing_replicas = reader.int32s()
        reader.skip_tags()
        return cls(
            partition_index=partition_index,
            replicas=replicas,
            adding_replicas=adding_replicas,
            removing_replicas=removing_replicas,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.partition_index))
        writer.int32s(self.replicas)
        writer.int32s(self.adding_replicas)
        writer.int32s(self.removing_replicas)
        writer.no_tags()


@message
class OngoingTopicReassignment:
    """Part of a response."""

    name: str
    """The topic name."""
    partitions: tuple[OngoingPartitionReassignment, ...]
    """The ongoing reassignments for each partition."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partitions = reader.structs(OngoingPartitionReassignment.read, version)
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
class ListPartitionReassignmentsResponse:
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
    topics: tuple[OngoingTopicReassignment, ...]
    """The ongoing reassignments for each topic."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms, error_code) = reader.unpack(_FORM_IH)
        error_message = reader.nullable_string()
        topics = reader.structs(OngoingTopicReassignment.read, version)
        reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            error_message=error_message,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.throttle_time_ms, self.error_code))
        writer.string(self.error_message)
        writer.structs(self.topics, version)
        writer.no_tags()
