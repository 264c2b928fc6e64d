"""CreateTopics (api 19), versions 2 to 4.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId
from ackproof.broker.wire.message import NEVER, message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_H = struct.Struct(">h")
_FORM_I = struct.Struct(">i")
_FORM_IH = struct.Struct(">ih")
_FORM_IO = struct.Struct(">i?")


@message
class CreatableReplicaAssignment:
    """Part of a request."""

    partition_index: int
    """The partition index."""
    broker_ids: tuple[BrokerId, ...] = ()
    """The brokers to place the partition on."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_index,) = reader.unpack(_FORM_I)
        broker_ids = reader.int32s()
        return cls(
            partition_index=partition_index,
            broker_ids=broker_ids,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.partition_index))
        writer.int32s(self.broker_ids)


@message
class CreatableTopicConfig:
    """Part of a request."""

    name: str
    """The configuration name."""
    value: str | None
    """The configuration value."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        value = reader.nullable_string()
        return cls(
            name=name,
            value=value,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.string(self.value)


@message
class CreatableTopic:
    """Part of a request."""

    name: str
    """The topic name."""
    num_partitions: int
    """The number of partitions to create in the topic, or -1 if we are either specifying a manual
    partition assignment or using the default partitions."""
    replication_factor: int
    """The number of replicas to create for each partition in the topic, or -1 if we are either
    specifying a manual partition assignment or using the default replication factor."""
    assignments: tuple[CreatableReplicaAssignment, ...]
    """The manual partition assignment, or the empty array if we are using automatic assignment."""
    configs: tuple[CreatableTopicConfig, ...]
    """The custom topic configurations to set."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        (num_partitions, replication_factor) = reader.unpack(_FORM_IH)
        assignments = reader.structs(CreatableReplicaAssignment.read, version)
        configs = reader.structs(CreatableTopicConfig.read, version)
        return cls(
            name=name,
            num_partitions=num_partitions,
            replication_factor=replication_factor,
            assignments=assignments,
            configs=configs,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.put(_FORM_IH.pack(self.num_partitions, self.replication_factor))
        writer.structs(self.assignments, version)
        writer.structs(self.configs, version)


@message
class CreateTopicsRequest:
    """A request."""

    API_KEY: ClassVar[int] = 19
    VERSIONS: ClassVar[range] = range(2, 5)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = NEVER
    FLEXIBLE_SINCE: ClassVar[int] = NEVER

    version: int
    topics: tuple[CreatableTopic, ...]
    """The topics to create."""
    timeout_ms: int = 60000
    """How long to wait in milliseconds before timing out the request."""
    validate_only: bool = False
    """If true, check that the topics can be created as specified, but don't create anything."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topics = reader.structs(CreatableTopic.read, version)
        (timeout_ms, validate_only) = reader.unpack(_FORM_IO)
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

    @staticmethod
    def response() -> type["CreateTopicsResponse"]:
        """The class of what is answered."""
        return CreateTopicsResponse


@message
class CreatableTopicResult:
    """Part of a response."""

    name: str
    """The topic name."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    error_message: str | None
    """The error message, or null if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        (error_code,) = reader.unpack(_FORM_H)
        error_message = reader.nullable_string()
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


@message
class CreateTopicsResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = NEVER
    FLEXIBLE_SINCE: ClassVar[int] = NEVER

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    topics: tuple[CreatableTopicResult, ...]
    """Results for each topic we tried to create."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        topics = reader.structs(CreatableTopicResult.read, version)
        return cls(
            throttle_time_ms=throttle_time_ms,
            topics=topics,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.topics, version)
