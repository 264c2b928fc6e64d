"""ElectLeaders (api 43), versions 1 to 2.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_B = struct.Struct(">b")
_FORM_I = struct.Struct(">i")
_FORM_IH = struct.Struct(">ih")


@message
class TopicPartitions:
    """Part of a request."""

    topic: str
    """The name of a topic."""
    partitions: tuple[int, ...] = ()
    """The partitions of this topic whose leader should be elected."""

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
class ElectLeadersRequest:
    """A request."""

    API_KEY: ClassVar[int] = 43
    VERSIONS: ClassVar[range] = range(1, 3)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    version: int
    election_type: int
    """Type of elections to conduct for the partition. A value of '0' elects the preferred
    replica. A value of '1' elects the first live replica if there are no in-sync replica."""
    topic_partitions: tuple[TopicPartitions, ...] | None
    """The topic partitions to elect leaders."""
    timeout_ms: int = 60000
    """The time in ms to wait for the election to complete."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (election_type,) = reader.unpack(_FORM_B)
        topic_partitions = reader.nullable_structs(TopicPartitions.read, version)
        (timeout_ms,) = reader.unpack(_FORM_I)
        if version >= 2:
            reader.skip_tags()
        return cls(
            version=version,
            election_type=election_type,
            topic_partitions=topic_partitions,
            timeout_ms=timeout_ms,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_B.pack(self.election_type))
        writer.structs(self.topic_partitions, version)
        writer.put(_FORM_I.pack(self.timeout_ms))
        if version >= 2:
            writer.no_tags()

    @staticmethod
    def response() -> type["ElectLeadersResponse"]:
        """The class of what is answered."""
        return ElectLeadersResponse


@message
class PartitionResult:
    """Part of a response."""

    partition_id: int
    """The partition id."""
    error_code: ErrorCode
    """The result error, or zero if there was no error."""
    error_message: str | None
    """The result message, or null if there was no error."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (partition_id, error_code) = reader.unpack(_FORM_IH)
        error_message = reader.nullable_string()
        if version >= 2:
            reader.skip_tags()
        return cls(
            partition_id=partition_id,
            error_code=error(error_code),
            error_message=error_message,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.partition_id, self.error_code))
        writer.string(self.error_message)
        if version >= 2:
            writer.no_tags()


@message
class ReplicaElectionResult:
    """Part of a response."""

    topic: str
    """The topic name."""
    partition_result: tuple[PartitionResult, ...]
    """The results for each partition."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        topic = reader.string()
        partition_result = reader.structs(PartitionResult.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            topic=topic,
            partition_result=partition_result,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.topic)
        writer.structs(self.partition_result, version)
        if version >= 2:
            writer.no_tags()


@message
class ElectLeadersResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 2
    FLEXIBLE_SINCE: ClassVar[int] = 2

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode
    """The top level response error code."""
    replica_election_results: tuple[ReplicaElectionResult, ...]
    """The election results, or an empty array if the requester did not have permission and the
    request asks for all partitions."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (throttle_time_ms, error_code) = reader.unpack(_FORM_IH)
        replica_election_results = reader.structs(ReplicaElectionResult.read, version)
        if version >= 2:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            replica_election_results=replica_election_results,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_IH.pack(self.throttle_time_ms, self.error_code))
        writer.structs(self.replica_election_results, version)
        if version >= 2:
            writer.no_tags()
