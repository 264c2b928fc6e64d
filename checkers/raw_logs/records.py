"""The records within a batch: decompressed by Arrow, taken apart by kio.

Only batches that differ are opened, to tell which of their records do. The formats of compressed
payloads are those of KIP-98; snappy comes raw from librdkafka, and from Java in the frames of
xerial's snappy-java (*SnappyOutputStream*).
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from ackproof.checkers.raw_logs.kio_records import SerialError, i64, read_record
from ackproof.checkers.raw_logs.segments import Batch
from ackproof.history.payload import Identity, decode

_CODEC = 0x07
_CONTROL = 0x20
_SNAPPY = 2
_STREAMS = {1: "gzip", 3: "lz4", 4: "zstd"}
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LENGTH = struct.Struct(">i")


class Undecodable(Exception):
    """A batch whose CRC does not fit, or whose payload is none, or of an unknown codec; in words,
    what it is."""


_UNDECODABLE = (SerialError, ValueError, IndexError, OverflowError, OSError, struct.error)
"""What kio and Arrow raise; Arrow's own errors are some of these."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a record says, wherever it stands. ``timestamp``: seconds, as kio gives it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes | None, bytes | None], ...]
    timestamp: float

    @property
    def identity(self) -> Identity | None:
        """Whose it is; None for what is no client's of ours."""
        return decode(self.value)


# A batch of each log is asked again for each of its records that differ: its CRC is made once, too.
@lru_cache(maxsize=2)
def contents(batch: Batch) -> Mapping[int, Content]:
    """The records of a batch, by offset. Raises Undecodable."""
    if not batch.intact:
        raise Undecodable("a batch that its CRC does not fit")
    try:
        return dict(_contents(batch))
    except _UNDECODABLE as error:
        raise Undecodable("a batch that cannot be decoded") from error


def holds(batch: Batch, offset: int) -> tuple[str, Identity | None]:
    """What a replica holds at an offset of this batch, in words; and whose that is."""
    where = f"(leader epoch {batch.leader_epoch}, CRC {batch.crc:#010x})"
    try:
        content = contents(batch).get(offset)
    except Undecodable as error:
        return f"{error} {where}", None
    if content is None:
        return f"no record in a batch around it {where}", None
    if batch.attributes & _CONTROL:
        return f"a control record {where}", None
    whose = content.identity
    if whose is None:
        return f"a record of no client {where}", None
    return f"cell {whose.cell} producer {whose.producer} sequence {whose.sequence} {where}", whose


def _contents(batch: Batch) -> Iterator[tuple[int, Content]]:
    payload = _decompressed(batch)
    position = 0
    for _ in range(batch.count):
        record, size = read_record(
            payload, i64(batch.base_timestamp), i64(batch.base_offset), position
        )
        position += size
        yield (
            record.offset,
            Content(
                key=record.key,
                value=record.value,
                headers=tuple((header.key, header.value) for header in record.headers),
                timestamp=record.timestamp.timestamp(),
            ),
        )


def _decompressed(batch: Batch) -> bytes:
    codec = batch.attributes & _CODEC
    payload = bytes(batch.payload)
    if codec == 0:
        return payload
    if codec == _SNAPPY:
        return b"".join(map(_unsnapped, _snappy_blocks(payload)))
    if codec not in _STREAMS:
        raise ValueError(f"codec {codec}")
    with pa.CompressedInputStream(pa.BufferReader(payload), _STREAMS[codec]) as stream:
        return bytes(stream.read())


def _snappy_blocks(payload: bytes) -> Iterator[bytes]:
    if not payload.startswith(_XERIAL):
        yield payload
        return
    position = _XERIAL_HEADER_BYTES
    while position < len(payload):
        (size,) = _LENGTH.unpack_from(payload, position)
        position += _LENGTH.size
        if size <= 0:
            raise ValueError(f"a block of {size} bytes")
        yield payload[position : position + size]
        position += size


def _unsnapped(block: bytes) -> bytes:
    """A raw block says first, as a varint, how long it becomes."""
    length = 0
    for number, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << (7 * number)
        if not byte & 0x80:
            return bytes(pa.decompress(block, length, codec="snappy", asbytes=True))
    raise ValueError("a block of no length")
