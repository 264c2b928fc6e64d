"""The records inside a batch, for the few callers that need them: look-up of offsets by timestamp,
and readers of the broker's own internal topics. Produce and fetch never do.

kio decodes records too, but not compressed ones, and it drops the milliseconds of timestamps.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from kio.serial.errors import SerialError
from kio.serial.readers import read_signed_varint, read_signed_varlong, read_unsigned_varint

from ackproof.broker.wire.batch import (
    HEADER_BYTES,
    Compression,
    CorruptBatch,
    RecordBatch,
    TimestampType,
)

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
