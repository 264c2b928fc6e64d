"""What a producer may send as one partition's records (Kafka's ``ProduceRequest.validateRecords``
and ``LogValidator.validateBatch``).

One batch of magic 2 whose header is consistent in itself. The records inside are not looked at,
which Kafka does: a batch whose records are garbage under a right CRC is stored, and it is for its
readers to find out. Whether an uncompressed batch can hold as many records as it says is checked,
since offsets are given out by that number.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.wire.batch import (
    HEADER_BYTES,
    MAGIC,
    Compression,
    CorruptBatch,
    RecordBatch,
    parse_batches,
)
from ackproof.broker.wire.framing import BytesLike

MAGIC_AT = 16
"""Where a batch, like the older formats' messages, has its magic."""

ZSTD_SINCE = 7
"""Version of Produce (KIP-110)."""

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, key length, value length, count of headers: a byte each."""


def validated(
    records: BytesLike | None, version: int, max_message_bytes: int
) -> tuple[RecordBatch, ...] | ErrorCode:
    """The one batch, or what is wrong with it.

    Args:
        version: of the Produce request.
        max_message_bytes: ``max.message.bytes`` of the topic.
    """
    data = records or b""
    if len(data) > MAGIC_AT and data[MAGIC_AT] != MAGIC:
        return ErrorCode.invalid_record
    try:
        batches = parse_batches(data)
    except CorruptBatch:
        return ErrorCode.corrupt_message
    if len(batches) != 1:
        return ErrorCode.invalid_record
    error = _error_in(batches[0], version, max_message_bytes)
    return batches if error is ErrorCode.none else error


def _error_in(batch: RecordBatch, version: int, max_message_bytes: int) -> ErrorCode:
    if batch.size > max_message_bytes:
        return ErrorCode.message_too_large
    if batch.compression is Compression.ZSTD and version < ZSTD_SINCE:
        return ErrorCode.unsupported_compression_type
    if not _is_consistent(batch) or batch.base_offset != 0 or batch.is_control:
        return ErrorCode.invalid_record
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        return ErrorCode.invalid_record
    return ErrorCode.none


def _is_consistent(batch: RecordBatch) -> bool:
    """As many records as offsets, and room for them."""
    fits = batch.count * RECORD_BYTES_MIN <= batch.size - HEADER_BYTES
    return batch.is_dense and (fits or batch.compression is not Compression.NONE)
