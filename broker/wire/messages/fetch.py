"""Fetch (api 1), versions 4 to 13.

Made by ``python -m protocol``; do not edit.
"""

import struct
import uuid
from typing import ClassVar, Self

from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, LeaderEpoch, Offset, ProducerId
from ackproof.broker.wire.framing import BytesLike
from ackproof.broker.wire.message import message
from ackproof.broker.wire.reader import NIL, Reader, error, uuid_of
from ackproof.broker.wire.writer import Writer, uuid_bytes

_FORM_I = struct.Struct(">i")
_FORM_IHI = struct.Struct(">ihi")
_FORM_IHQQ = struct.Struct(">ihqq")
_FORM_IHQQQ = struct.Struct(">ihqqq")
_FORM_IIIIB = struct.Struct(">iiiib")
_FORM_IIIIBII = struct.Struct(">iiiibii")
_FORM_IIQIQI = struct.Struct(">iiqiqi")
_FORM_IIQQI = struct.Struct(">iiqqi")
_FORM_IQI = struct.Struct(">iqi")
_FORM_IQQI = struct.Struct(">iqqi")
_FORM_QQ = struct.Struct(">qq")
_FORM_U = struct.Struct(">16s")


@message
class FetchPartition:
    """Part of a request."""

    partition: int
    """The partition index."""
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    """The current leader epoch of the partition."""
    fetch_offset: Offset
    """The message offset."""
    last_fetched_epoch: int = -1
    """The epoch of the last fetched record or -1 if there is none."""
    log_start_offset: Offset = Offset(-1)
    """The earliest available offset of the follower replica. The field is only used when the
    request is sent by the follower."""
    partition_max_bytes: int
    """The maximum bytes to fetch from this partition. See KIP-74 for cases where this limit may
    not be honored."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 12:
            (
                partition,
                current_leader_epoch,
                fetch_offset,
                last_fetched_epoch,
                log_start_offset,
                partition_max_bytes,
            ) = reader.unpack(_FORM_IIQIQI)
        elif version >= 9:
            (
                partition,
                current_leader_epoch,
                fetch_offset,
                log_start_offset,
                partition_max_bytes,
            ) = reader.unpack(_FORM_IIQQI)
            last_fetched_epoch = -1
        elif version >= 5:
            (partition, fetch_offset, log_start_offset, partition_max_bytes) = reader.unpack(
                _FORM_IQQI
            )
            current_leader_epoch = LeaderEpoch(-1)
            last_fetched_epoch = -1
        else:
            (partition, fetch_offset, partition_max_bytes) = reader.unpack(_FORM_IQI)
            current_leader_epoch = LeaderEpoch(-1)
            last_fetched_epoch = -1
            log_start_offset = Offset(-1)
        if version >= 12:
            reader.skip_tags()
        return cls(
            partition=partition,
            current_leader_epoch=current_leader_epoch,
            fetch_offset=fetch_offset,
            last_fetched_epoch=last_fetched_epoch,
            log_start_offset=log_start_offset,
            partition_max_bytes=partition_max_bytes,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 12:
            writer.put(
                _FORM_IIQIQI.pack(
                    self.partition,
                    self.current_leader_epoch,
                    self.fetch_offset,
                    self.last_fetched_epoch,
                    self.log_start_offset,
                    self.partition_max_bytes,
                )
            )
        elif version >= 9:
            writer.put(
                _FORM_IIQQI.pack(
                    self.partition,
                    self.current_leader_epoch,
                    self.fetch_offset,
                    self.log_start_offset,
                    self.partition_max_bytes,
                )
            )
        elif version >= 5:
            writer.put(
                _FORM_IQQI.pack(
                    self.partition,
                    self.fetch_offset,
                    self.log_start_offset,
                    self.partition_max_bytes,
                )
            )
        else:
            writer.put(_FORM_IQI.pack(self.partition, self.fetch_offset, self.partition_max_bytes))
        if version >= 12:
            writer.no_tags()


@message
class FetchTopic:
    """Part of a request."""

    topic_id: uuid.UUID | None = None
    """The unique topic ID."""
    topic: str = ""
    """The name of the topic to fetch."""
    partitions: tuple[FetchPartition, ...]
    """The partitions to fetch."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 13:
            (topic_id,) = reader.unpack(_FORM_U)
        else:
            topic_id = NIL
        if version <= 12:
            topic = reader.string()
        else:
            topic = ""
        partitions = reader.structs(FetchPartition.read, version)
        if version >= 12:
            reader.skip_tags()
        return cls(
            topic_id=uuid_of(topic_id),
            topic=topic,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 13:
            writer.put(_FORM_U.pack(uuid_bytes(self.topic_id)))
        if version <= 12:
            writer.string(self.topic)
        writer.structs(self.partitions, version)
        if version >= 12:
            writer.no_tags()


@message
class ForgottenTopic:
    """Part of a request."""

    topic_id: uuid.UUID | None = None
    """The unique topic ID."""
    topic: str = ""
    """The topic name."""
    partitions: tuple[int, ...] = ()
    """The partitions indexes to forget."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 13:
            (topic_id,) = reader.unpack(_FORM_U)
        else:
            topic_id = NIL
        if version <= 12:
            topic = reader.string()
        else:
            topic = ""
        partitions = reader.int32s()
        if version >= 12:
            reader.skip_tags()
        return cls(
            topic_id=uuid_of(topic_id),
            topic=topic,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 13:
            writer.put(_FORM_U.pack(uuid_bytes(self.topic_id)))
        if version <= 12:
            writer.string(self.topic)
        writer.int32s(self.partitions)
        if version >= 12:
            writer.no_tags()


@message
class FetchRequest:
    """A request."""

    API_KEY: ClassVar[int] = 1
    VERSIONS: ClassVar[range] = range(4, 14)
    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 12
    FLEXIBLE_SINCE: ClassVar[int] = 12

    version: int
    replica_id: BrokerId = BrokerId(-1)
    """The broker ID of the follower, of -1 if this request is from a consumer."""
    max_wait_ms: int
    """The maximum time in milliseconds to wait for the response."""
    min_bytes: int
    """The minimum bytes to accumulate in the response."""
    max_bytes: int = 2147483647
    """The maximum bytes to fetch. See KIP-74 for cases where this limit may not be honored."""
    isolation_level: int = 0
    """This setting controls the visibility of transactional records. Using READ_UNCOMMITTED
    (isolation_level = 0) makes all records visible. With READ_COMMITTED (isolation_level = 1),
    non-transactional and COMMITTED transactional records are visible. To be more concrete,
    READ_COMMITTED returns all data from offsets smaller than the current LSO (last stable
    offset), and enables the inclusion of the list of aborted transactions in the result, which
    allows consumers to discard ABORTED transactional records."""
    session_id: int = 0
    """The fetch session ID."""
    session_epoch: int = -1
    """The fetch session epoch, which is used for ordering requests in a session."""
    topics: tuple[FetchTopic, ...]
    """The topics to fetch."""
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()
    """In an incremental fetch request, the partitions to remove."""
    rack_id: str = ""
    """Rack ID of the consumer making this request."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 7:
            (
                replica_id,
                max_wait_ms,
                min_bytes,
                max_bytes,
                isolation_level,
                session_id,
                session_epoch,
            ) = reader.unpack(_FORM_IIIIBII)
        else:
            (replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level) = reader.unpack(
                _FORM_IIIIB
            )
            session_id = 0
            session_epoch = -1
        topics = reader.structs(FetchTopic.read, version)
        if version >= 7:
            forgotten_topics_data = reader.structs(ForgottenTopic.read, version)
        else:
            forgotten_topics_data = ()
        if version >= 11:
            rack_id = reader.string()
        else:
            rack_id = ""
        if version >= 12:
            reader.skip_tags()
        return cls(
            version=version,
            replica_id=replica_id,
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation_level,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=topics,
            forgotten_topics_data=forgotten_topics_data,
            rack_id=rack_id,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 7:
            writer.put(
                _FORM_IIIIBII.pack(
                    self.replica_id,
                    self.max_wait_ms,
                    self.min_bytes,
                    self.max_bytes,
                    self.isolation_level,
                    self.session_id,
                    self.session_epoch,
                )
            )
        else:
            writer.put(
                _FORM_IIIIB.pack(
                    self.replica_id,
                    self.max_wait_ms,
                    self.min_bytes,
                    self.max_bytes,
                    self.isolation_level,
                )
            )
        writer.structs(self.topics, version)
        if version >= 7:
            writer.structs(self.forgotten_topics_data, version)
        if version >= 11:
            writer.string(self.rack_id)
        if version >= 12:
            writer.no_tags()

    @staticmethod
    def response() -> type["FetchResponse"]:
        """The class of what is answered."""
        return FetchResponse


@message
class AbortedTransaction:
    """Part of a response."""

    producer_id: ProducerId
    """The producer id associated with the aborted transaction."""
    first_offset: int
    """The first offset in the aborted transaction."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        (producer_id, first_offset) = reader.unpack(_FORM_QQ)
        if version >= 12:
            reader.skip_tags()
        return cls(
            producer_id=producer_id,
            first_offset=first_offset,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        writer.put(_FORM_QQ.pack(self.producer_id, self.first_offset))
        if version >= 12:
            writer.no_tags()


@message
class PartitionData:
    """Part of a response."""

    partition_index: int
    """The partition index."""
    error_code: ErrorCode
    """The error code, or 0 if there was no fetch error."""
    high_watermark: Offset
    """The current high water mark."""
    last_stable_offset: Offset = Offset(-1)
    """The last stable offset (or LSO) of the partition. This is the last offset such that the
    state of all transactional records prior to this offset have been decided (ABORTED or
    COMMITTED)."""
    log_start_offset: Offset = Offset(-1)
    """The current log start offset."""
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    """The aborted transactions."""
    preferred_read_replica: BrokerId = BrokerId(-1)
    """The preferred read replica for the consumer to use on its next fetch request."""
    records: BytesLike | None
    """The record data."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 5:
            (partition_index, error_code, high_watermark, last_stable_offset, log_start_offset) = (
                reader.unpack(_FORM_IHQQQ)
            )
        else:
            (partition_index, error_code, high_watermark, last_stable_offset) = reader.unpack(
                _FORM_IHQQ
            )
            log_start_offset = Offset(-1)
        aborted_transactions = reader.nullable_structs(AbortedTransaction.read, version)
        if version >= 11:
            (preferred_read_replica,) = reader.unpack(_FORM_I)
        else:
            preferred_read_replica = BrokerId(-1)
        records = reader.nullable_records()
        if version >= 12:
            reader.skip_tags()
        return cls(
            partition_index=partition_index,
            error_code=error(error_code),
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log_start_offset,
            aborted_transactions=aborted_transactions,
            preferred_read_replica=preferred_read_replica,
            records=records,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 5:
            writer.put(
                _FORM_IHQQQ.pack(
                    self.partition_index,
                    self.error_code,
                    self.high_watermark,
                    self.last_stable_offset,
                    self.log_start_offset,
                )
            )
        else:
            writer.put(
                _FORM_IHQQ.pack(
                    self.partition_index,
                    self.error_code,
                    self.high_watermark,
                    self.last_stable_offset,
                )
            )
        writer.structs(self.aborted_transactions, version)
        if version >= 11:
            writer.put(_FORM_I.pack(self.preferred_read_replica))
        writer.blob(self.records)
        if version >= 12:
            writer.no_tags()


@message
class FetchableTopicResponse:
    """Part of a response."""

    topic_id: uuid.UUID | None = None
    """The unique topic ID."""
    topic: str = ""
    """The topic name."""
    partitions: tuple[PartitionData, ...]
    """The topic partitions."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 13:
            (topic_id,) = reader.unpack(_FORM_U)
        else:
            topic_id = NIL
        if version <= 12:
            topic = reader.string()
        else:
            topic = ""
        partitions = reader.structs(PartitionData.read, version)
        if version >= 12:
            reader.skip_tags()
        return cls(
            topic_id=uuid_of(topic_id),
            topic=topic,
            partitions=partitions,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 13:
            writer.put(_FORM_U.pack(uuid_bytes(self.topic_id)))
        if version <= 12:
            writer.string(self.topic)
        writer.structs(self.partitions, version)
        if version >= 12:
            writer.no_tags()


@message
class FetchResponse:
    """A response."""

    HEADER_FLEXIBLE_SINCE: ClassVar[int] = 12
    FLEXIBLE_SINCE: ClassVar[int] = 12

    throttle_time_ms: int = 0
    """The duration in milliseconds for which the request was throttled due to a quota violation,
    or zero if the request did not violate any quota."""
    error_code: ErrorCode = ErrorCode.none
    """The top level response error code."""
    session_id: int = 0
    """The fetch session ID, or 0 if this is not part of a fetch session."""
    responses: tuple[FetchableTopicResponse, ...]
    """The response topics."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read the fields of that version. Raise what :mod:`broker.wire.reader` raises."""
        if version >= 7:
            (throttle_time_ms, error_code, session_id) = reader.unpack(_FORM_IHI)
        else:
            (throttle_time_ms,) = reader.unpack(_FORM_I)
            error_code = 0
            session_id = 0
        responses = reader.structs(FetchableTopicResponse.read, version)
        if version >= 12:
            reader.skip_tags()
        return cls(
            throttle_time_ms=throttle_time_ms,
            error_code=error(error_code),
            session_id=session_id,
            responses=responses,
        )

    def write(self, writer: Writer, version: int) -> None:
        """Append all fields of that version."""
        if version >= 7:
            writer.put(_FORM_IHI.pack(self.throttle_time_ms, self.error_code, self.session_id))
        else:
            writer.put(_FORM_I.pack(self.throttle_time_ms))
        writer.structs(self.responses, version)
        if version >= 12:
            writer.no_tags()
