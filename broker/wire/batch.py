"""Record batches of message format v2.

A batch is 61 bytes of header and then records, which most callers never look at::

    0   int64   base offset             set by the leader, outside the CRC
    8   int32   batch length            counted from byte 12
    12  int32   partition leader epoch  set by the leader, outside the CRC
    16  int8    magic                   2
    17  uint32  CRC-32C of everything from byte 21 on
    21  int16   attributes              codec 0-2, timestamp type 3, transactional 4, control 5
    23  int32   last offset delta
    27  int64   base timestamp
    35  int64   max timestamp
    43  int64   producer id
    51  int16   producer epoch
    53  int32   base sequence
    57  int32   count of records

(Apache Kafka documentation, "Record Batch"; KIP-98 and KIP-101 for the epochs.) Base offset and
leader epoch lie outside the CRC so that a leader can set them without a second pass over the
data. Older formats (magic 0 and 1) are refused, as Kafka 4 refuses them (KIP-724).
"""

import datetime
import gzip
import io
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from crc32c import crc32c
from kio.records.schema import NewRecordBatch
from kio.records.schema import Record as NewRecord
from kio.records.writers import write_batch
from kio.serial.errors import SerialError
from kio.serial.readers import read_signed_varint, read_signed_varlong, read_unsigned_varint
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from ackproof.broker.types import value
from ackproof.broker.wire.framing import BytesLike

HEADER_BYTES = 61
MAGIC = 2

_HEADER = struct.Struct(">qiibIhiqqqhii")
_LENGTH = struct.Struct(">i")
_LENGTH_AT = 8
_LENGTH_FROM = 12
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12
_CRC = struct.Struct(">I")
_CRC_AT = 17
_CRC_FROM = 21
_ATTRIBUTES = struct.Struct(">h")
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35
_BASE_OFFSET = struct.Struct(">q")
_EXTENT = struct.Struct(">qi11xi")
"""The base offset, batch length and last offset delta."""

_CODEC_BITS = 0x07
_LOG_APPEND_TIME_BIT = 0x08
_TRANSACTIONAL_BIT = 0x10
_CONTROL_BIT = 0x20


class CorruptBatch(ValueError):
    """Bytes that are not an intact batch of magic 2. The text says where and what is wrong."""


class Compression(IntEnum):
    """The codec of a batch's records, as in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """The origin of the timestamps: the client, or the broker at the append (KIP-32)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


@value()
class RecordBatch:
    """One batch: its decoded header, and its bytes.

    It satisfies :class:`broker.replication.events.Batch`. Timestamps are milliseconds since 1970.
    ``producer_id``, ``producer_epoch`` and ``base_sequence`` are -1 without idempotence.
    """

    raw: memoryview
    base_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def size(self) -> int:
        """The number of bytes of the whole batch, with its header."""
        return len(self.raw)

    @property
    def last_offset(self) -> int:
        """The offset of the batch's last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the batch's last record."""
        return self.base_offset + self.last_offset_delta + 1

    def holds(self, offset: int) -> bool:
        """Return whether ``offset`` is in this batch."""
        return self.base_offset <= offset < self.next_offset

    @property
    def is_dense(self) -> bool:
        """Whether no offset is left out. Kafka requires it of clients' batches. A compacted batch
        has gaps."""
        return self.count == self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """The codec of the records."""
        return Compression(self.attributes & _CODEC_BITS)

    @property
    def timestamp_type(self) -> TimestampType:
        """The origin of the timestamps."""
        return TimestampType(bool(self.attributes & _LOG_APPEND_TIME_BIT))

    @property
    def is_transactional(self) -> bool:
        """Whether it is part of a transaction (KIP-98)."""
        return bool(self.attributes & _TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Whether it is a transaction marker, which consumers never see (KIP-98)."""
        return bool(self.attributes & _CONTROL_BIT)


def batch_size(header: BytesLike) -> int | None:
    """Return the bytes of the batch that begins with ``header``, or None if there are too few to
    tell.

    Raises:
        CorruptBatch: no batch has such a length.
    """
    if len(header) < _LENGTH_FROM:
        return None
    (length,) = _LENGTH.unpack_from(header, _LENGTH_AT)
    if length < HEADER_BYTES - _LENGTH_FROM:
        raise CorruptBatch(f"batch length {length} is below that of a header")
    return int(length) + _LENGTH_FROM


def parse_batch(raw: BytesLike, *, verify_crc: bool = True) -> RecordBatch:
    """Return the batch in ``raw``, from its first byte to its last.

    Raises:
        CorruptBatch: wrong size, magic, codec, count or CRC-32C.
    """
    view = memoryview(raw)
    size = batch_size(view)
    if size != len(view):
        raise CorruptBatch(f"{len(view)} bytes, but the batch says it has {size}")
    base_offset, _, leader_epoch, magic, crc, *fields = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise CorruptBatch(f"magic {magic}, expected {MAGIC}")
    batch = RecordBatch(view, base_offset, leader_epoch, crc, *fields)
    if batch.last_offset_delta < 0 or batch.count < 0 or base_offset < 0:
        raise CorruptBatch(
            f"base offset {base_offset}, last offset delta {batch.last_offset_delta}, "
            f"count {batch.count}: none may be negative"
        )
    if batch.attributes & _CODEC_BITS > Compression.ZSTD:
        raise CorruptBatch(f"unknown codec {batch.attributes & _CODEC_BITS}")
    if verify_crc and crc32c(view[_CRC_FROM:]) != crc:
        raise CorruptBatch(f"CRC-32C of the batch at offset {base_offset} is not {crc:#010x}")
    return batch


def parse_batches(
    data: BytesLike,
    *,
    verify_crc: bool = True,
    partial_tail: bool = False,
    from_offset: int | None = None,
) -> tuple[RecordBatch, ...]:
    """Return the batches in ``data``, as views on it.

    Args:
        partial_tail: drop an incomplete last batch. A fetch response may end in one, because it is
            limited by size. A produce request may not.
        from_offset: the requested offset in a log: the first batch must hold it, and each of the
            others must begin where the previous one ends. No CRC covers the base offset.

    Raises:
        CorruptBatch: anything except whole, intact batches.
    """
    view = memoryview(data)
    batches = []
    start = 0
    while start < len(view):
        size = batch_size(view[start:])
        if size is None or start + size > len(view):
            if partial_tail:
                break
            raise CorruptBatch(f"the batch at byte {start} is torn")
        batches.append(parse_batch(view[start : start + size], verify_crc=verify_crc))
        start += size
    if from_offset is not None:
        _check_places(batches, from_offset)
    return tuple(batches)


def _check_places(batches: Sequence[RecordBatch], offset: int) -> None:
    """Check the offsets. The first batch may begin before ``offset``, because batches are not
    split."""
    if batches and batches[0].holds(offset):
        offset = batches[0].base_offset
    for batch in batches:
        if batch.base_offset != offset:
            raise CorruptBatch(f"a batch at offset {batch.base_offset}, expected {offset}")
        offset = batch.next_offset


def stamped(batch: RecordBatch, base_offset: int, leader_epoch: int) -> RecordBatch:
    """Return a copy of ``batch`` as the leader of ``leader_epoch`` stores it at ``base_offset``."""
    raw = bytearray(batch.raw)
    _BASE_OFFSET.pack_into(raw, 0, base_offset)
    _EPOCH.pack_into(raw, _EPOCH_AT, leader_epoch)
    return RecordBatch(
        memoryview(raw),
        base_offset,
        leader_epoch,
        batch.crc,
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )


def with_append_time(batch: RecordBatch, moment_ms: int) -> RecordBatch:
    """Return a copy of ``batch`` for ``message.timestamp.type=LogAppendTime``.

    The moment becomes the max timestamp, which then counts for every record (KIP-32). It lies
    inside the CRC, which is computed again.
    """
    raw = bytearray(batch.raw)
    _ATTRIBUTES.pack_into(raw, _ATTRIBUTES_AT, batch.attributes | _LOG_APPEND_TIME_BIT)
    _MAX_TIMESTAMP.pack_into(raw, _MAX_TIMESTAMP_AT, moment_ms)
    _CRC.pack_into(raw, _CRC_AT, crc32c(memoryview(raw)[_CRC_FROM:]))
    return parse_batch(raw, verify_crc=False)


class Extent(NamedTuple):
    """The offsets and the size of a batch: all that is needed to find one."""

    base_offset: int
    next_offset: int
    size: int


def extent(data: BytesLike, start: int = 0) -> Extent | None:
    """Return the extent of the batch that begins at ``start``, or None if there are too few bytes.

    ``data`` comes from a log, whose batches were intact when they were appended.

    Raises:
        CorruptBatch: no batch has such a length, so that the start of the next one is unknown.
    """
    if start + _EXTENT.size > len(data):
        return None
    base_offset, length, last_offset_delta = _EXTENT.unpack_from(data, start)
    # If a bit has flipped on the disk, a reader that continues by a length of -12 would never end.
    if length < HEADER_BYTES - _LENGTH_FROM:
        raise CorruptBatch(f"batch length {length} is below that of a header")
    return Extent(base_offset, base_offset + last_offset_delta + 1, _LENGTH_FROM + length)


def whole_batches_below(data: BytesLike, bound: int, start: int = 0) -> int:
    """Return how many leading bytes of ``data`` are whole batches with no offset at or above
    ``bound``.

    ``data`` begins with a batch and comes from a log, see :func:`extent`.

    Args:
        start: the start of a batch; everything before it is known to be below ``bound``.

    Raises:
        CorruptBatch: the first batch is damaged, see :func:`extent`.
    """
    try:
        while (batch := extent(data, start)) is not None:
            if batch.next_offset > bound or start + batch.size > len(data):
                break
            start += batch.size
    except CorruptBatch:
        if start == 0:  # a later read of the following batch raises otherwise
            raise
    return start


# --- batches of the broker ------------------------------------------------------------------------
#
# Batches that the broker itself writes, for its internal topics.


RECORDS_MAX: Final = 500
"""The limit of records in one batch, because kio is slow for each."""

RECORD_BYTES_MAX: Final = 32
"""The largest size of a record beside its key and value: lengths, deltas, attributes, headers."""


class KeyValue(NamedTuple):
    """A record to write. A null value is a tombstone."""

    key: bytes
    value: bytes | None


def new_batch(records: Sequence[KeyValue], timestamp_ms: int) -> RecordBatch:
    """Return one uncompressed batch of at least one record, from no producer.

    Args:
        timestamp_ms: of every record, in ms since 1970; kio rounds it to within a millisecond.
    """
    moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    timestamp = TZAwareMicros.parse(moment)
    with io.BytesIO() as buffer:
        write_batch(
            buffer,
            NewRecordBatch(
                producer_id=i64(-1),
                producer_epoch=i16(-1),
                base_sequence=i32(-1),
                attributes=i16(0),
                records=tuple(
                    NewRecord(
                        attributes=i8(0),
                        timestamp=timestamp,
                        offset=i64(number),
                        key=key,
                        value=value,
                        headers=(),
                    )
                    for number, (key, value) in enumerate(records)
                ),
            ),
        )
        return parse_batch(buffer.getvalue(), verify_crc=False)


def split(records: Sequence[KeyValue], max_bytes: int) -> Iterator[Sequence[KeyValue]]:
    """Yield the records in order, in parts whose batches have no more than ``max_bytes`` each. A
    record that alone is larger gets a part of its own."""
    part: list[KeyValue] = []
    size = HEADER_BYTES
    for record in records:
        more = len(record.key) + len(record.value or b"") + RECORD_BYTES_MAX
        if part and (size + more > max_bytes or len(part) == RECORDS_MAX):
            yield part
            part, size = [], HEADER_BYTES
        part.append(record)
        size += more
    if part:
        yield part


# --- records --------------------------------------------------------------------------------------
#
# The records inside a batch are read by few callers: look-up of offsets by timestamp, and readers
# of the broker's own internal topics. Produce and fetch never do.
#
# kio decodes records too, but not compressed ones, and it drops the milliseconds of timestamps.


DECOMPRESSED_BYTES_MAX = 100 * 2**20
"""The limit of a decompressed batch, equal to the default of ``socket.request.max.bytes``. A
megabyte of zeros compressed with zstd would otherwise become gigabytes."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16


class Record(NamedTuple):
    """One record. ``timestamp`` is in ms since 1970. Headers are not decoded."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def records(batch: RecordBatch, max_bytes: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """Yield the batch's records in the order of their offsets.

    Args:
        max_bytes: the limit of their decompressed size.

    Raises:
        CorruptBatch: they cannot be decompressed or decoded.
    """
    try:
        payload = _DECOMPRESS[batch.compression](bytes(batch.raw[HEADER_BYTES:]), max_bytes)
        at = 0
        for _ in range(batch.count):
            length, size = read_signed_varint(payload, at)
            at += size
            if length < 0:
                raise ValueError(f"a record of {length} bytes")
            yield _record(batch, payload, at)
            at += length
    except (SerialError, ValueError, OSError, EOFError, zlib.error) as error:
        raise CorruptBatch(
            f"records of the batch at offset {batch.base_offset}: {error}"
        ) from error


def _record(batch: RecordBatch, payload: bytes, at: int) -> Record:
    at += 1  # attributes, unused in v2
    timestamp_delta, size = read_signed_varlong(payload, at)
    at += size
    offset_delta, size = read_signed_varint(payload, at)
    at += size
    key, at = _nullable_bytes(payload, at)
    value, _ = _nullable_bytes(payload, at)
    stamped_on_append = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return Record(
        offset=batch.base_offset + offset_delta,
        timestamp=batch.max_timestamp
        if stamped_on_append
        else batch.base_timestamp + timestamp_delta,
        key=key,
        value=value,
    )


def _nullable_bytes(payload: bytes, at: int) -> tuple[bytes | None, int]:
    length, size = read_signed_varint(payload, at)
    at += size
    if length < 0:
        return None, at
    if at + length > len(payload):
        raise ValueError("a record ends before its key or value does")
    return payload[at : at + length], at + length


Decompressed = TypeVar("Decompressed", bytes, bytearray)


def _bounded(data: Decompressed, max_bytes: int) -> Decompressed:
    if len(data) > max_bytes:
        raise ValueError(f"more than {max_bytes} bytes when decompressed")
    return data


def _as_it_is(data: bytes, _max_bytes: int) -> bytes:
    return data


def _gzip(data: bytes, max_bytes: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        return _bounded(stream.read(max_bytes + 1), max_bytes)


def _arrow(codec: str) -> Callable[[bytes, int], bytes]:
    def decompress(data: bytes, max_bytes: int) -> bytes:
        import pyarrow as pa  # late: most brokers never need it, and it takes long to load

        stream = pa.input_stream(pa.py_buffer(data), compression=codec)
        return _bounded(bytes(stream.read(max_bytes + 1)), max_bytes)

    return decompress


def _snappy(data: bytes, max_bytes: int) -> bytes:
    """Decompress data. Java clients divide it into blocks in xerial's frame, and librdkafka sends
    one bare block."""
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, max_bytes)
    blocks = bytearray()
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        blocks += _snappy_block(data[at + 4 : at + 4 + size], max_bytes)
        _bounded(blocks, max_bytes)
        at += 4 + size
    return bytes(blocks)


def _snappy_block(block: bytes, max_bytes: int) -> bytes:
    import pyarrow as pa  # late, as above

    size, _ = read_unsigned_varint(block, 0)
    if size > max_bytes:
        raise ValueError(f"a block that claims to hold {size} bytes")
    return bytes(pa.decompress(block, decompressed_size=size, codec="snappy"))


_DECOMPRESS: dict[Compression, Callable[[bytes, int], bytes]] = {
    Compression.NONE: _as_it_is,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _arrow("lz4"),
    Compression.ZSTD: _arrow("zstd"),
}
