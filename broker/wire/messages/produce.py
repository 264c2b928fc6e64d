"""Produce (api 0), versions 3 to 9.

Made by ``python -m protocol``; do not edit.
"""

import struct
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import Offset
from ackproof.broker.wire.framing import BytesLike
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import Reader, error
from ackproof.broker.wire.writer import Writer

_FORM_HI = struct.Struct(">hi")
_FORM_I = struct.Struct(">i")
_FORM_IHQQ = struct.Struct(">ihqq")
_FORM_IHQQQ = struct.Struct(">ihqqq")


@message
class PartitionProduceData:
    """Part of a request."""

    index: int
    """The partition index."""
    records: BytesLike | None
    """The record data to be produced."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (index,) = reader.unpack(_FORM_I)
        records = reader.nullable_records()
        if version >= 9:
            reader.skip_tags()
        return cls(
            index=index,
            records=records,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.index))
        writer.blob(self.records)
        if version >= 9:
            writer.no_tags()


@message
class TopicProduceData:
    """Part of a request."""

    name: str
    """The topic name."""
    partition_data: tuple[PartitionProduceData, ...]
    """Each partition to produce to."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partition_data = reader.structs(PartitionProduceData.read, version)
        if version >= 9:
            reader.skip_tags()
        return cls(
            name=name,
            partition_data=partition_data,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partition_data, version)
        if version >= 9:
            writer.no_tags()


@message
class ProduceRequest:
    """A request."""

    API_KEY: ClassVar[int] = 0
    VERSIONS: ClassVar[range] = range(3, 10)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 9
    FLEXIBLE_SINCE: ClassVar[int] = 9

    version: int
    transactional_id: str | None = None
    """The transactional ID, or null if the producer is not transactional."""
    acks: int
    """The number of acknowledgments the producer requires the leader to have received before
    considering a request complete. Allowed values: 0 for no acknowledgments, 1 for only the
    leader and -1 for the full ISR."""
    timeout_ms: int
    """The timeout to await a response in milliseconds."""
    topic_data: tuple[TopicProduceData, ...]
    """Each topic to produce to."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        transactional_id = reader.nullable_string()
        (acks, timeout_ms) = reader.unpack(_FORM_HI)
        topic_data = reader.structs(TopicProduceData.read, version)
        if version >= 9:
            reader.skip_tags()
        return cls(
            version=version,
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=topic_data,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.transactional_id)
        writer.put(_FORM_HI.pack(self.acks, self.timeout_ms))
        writer.structs(self.topic_data, version)
        if version >= 9:
            writer.no_tags()

    @staticmethod
    def response() -> type["ProduceResponse"]:
        """The class of what is answered."""
        return ProduceResponse


@message
class BatchIndexAndErrorMessage:
    """Part of a response."""

    batch_index: int
    """The batch index of the record that caused the batch to be dropped."""
    batch_index_error_message: str | None = None
    """The error message of the record that caused the batch to be dropped."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (batch_index,) = reader.unpack(_FORM_I)
        batch_index_error_message = reader.nullable_string()
        if version >= 9:
            reader.skip_tags()
        return cls(
            batch_index=batch_index,
            batch_index_error_message=batch_index_error_message,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_I.pack(self.batch_index))
        writer.string(self.batch_index_error_message)
        if version >= 9:
            writer.no_tags()


@message
class PartitionProduceResponse:
    """Part of a response."""

    index: int
    """The partition index."""
    error_code: ErrorCode
    """The error code, or 0 if there was no error."""
    base_offset: Offset
    """The base offset."""
    log_append_time_ms: int = -1
    """The timestamp returned by broker after appending the messages. If CreateTime is used for
    the topic, the timestamp will be -1. If LogAppendTime is used for the topic, the timestamp
    will be the broker local time when the messages are appended."""
    log_start_offset: Offset = Offset(-1)
    """The log start offset."""
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    """The batch indices of records that caused the batch to be dropped."""
    error_message: str | None = None
    """The global error message summarizing the common root cause of the records that caused the
    batch to be dropped."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 5:
            (index, error_code, base_offset, log_append_time_ms, log_start_offset) = reader.unpack(
                _FORM_IHQQQ
            )
        else:
            (index, error_code, base_offset, log_append_time_ms) = reader.unpack(_FORM_IHQQ)
            log_start_offset = Offset(-1)
        if version >= 8:
            record_errors = reader.structs(BatchIndexAndErrorMessage.read, version)
            error_message = reader.nullable_string()
        else:
            record_errors = ()
            error_message = None
        if version >= 9:
            reader.skip_tags()
        return cls(
            index=index,
            error_code=error(error_code),
            base_offset=base_offset,
            log_append_time_ms=log_append_time_ms,
            log_start_offset=log_start_offset,
            record_errors=record_errors,
            error_message=error_message,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 5:
            writer.put(
                _FORM_IHQQQ.pack(
                    self.index,
                    self.error_code,
                    self.base_offset,
                    self.log_append_time_ms,
                    self.log_start_offset,
                )
            )
        else:
            writer.put(
                _FORM_IHQQ.pack(
                    self.index, self.error_code, self.base_offset, self.log_append_time_ms
                )
            )
        if version >= 8:
            writer.structs(self.record_errors, version)
            writer.string(self.error_message)
        if version >= 9:
            writer.no_tags()


@message
class TopicProduceResponse:
    """Part of a response."""

    name: str
    """The topic name."""
    partition_responses: tuple[PartitionProduceResponse, ...]
    """Each partition that we produced to within the topic."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        name = reader.string()
        partition_responses = reader.structs(PartitionProduceResponse.read, version)
        if version >= 9:
            reader.skip_tags()
        return cls(
            name=name,
            partition_responses=partition_responses,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.string(self.name)
        writer.structs(self.partition_responses, version)
        if version >= 9:
            writer.no_tags()


@message
class ProduceResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 9
    FLEXIBLE_SINCE: ClassVar[int] = 9

    responses: tuple[TopicProduceResponse, ...]
    """Each produce response."""
    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        responses = reader.structs(TopicProduceResponse.read, version)
        (throttle_time_ms,) = reader.unpack(_FORM_I)
        if version >= 9:
            reader.skip_tags()
        return cls(
            responses=responses,
            throttle_time_ms=throttle_time_ms,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.structs(self.responses, version)
        writer.put(_FORM_I.pack(self.throttle_time_ms))
        if version >= 9:
            writer.no_tags()
