"""Brokers' raw logs, as the step ``collect`` copied them: the batches of their segments, the
records in these, and the producer sessions that wrote them. No code of a broker is used."""

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, TypeAlias

import pyarrow as pa
from crc32c import crc32c

from ackproof.history.payload import Identity, decode, identifying
from ackproof.history.storage import AnyPath, matching

MAGIC = 2
_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qiib")
"""The beginning of a batch up to the byte with the format version. It is at the same place in all
formats."""
_BEFORE_LENGTH_COUNTS = 12
_CHECKED_FROM = 21
"""The first byte that the CRC covers. It covers the attributes and everything after them, but not
the base offset and the leader epoch."""
_BATCH_BYTES_MAX = 100 << 20
"""The limit on a batch, ``socket.request.max.bytes``, because no larger one could have been sent.
Without it, a damaged length could make the reader load a gigabyte."""

_NO_END = 1 << 62
"""An offset beyond the end of any log."""

_TORN = "the file ends within a batch"


class OtherFormat(Exception):
    """A log in message format v0 or v1."""


@dataclass(frozen=True, slots=True)
class RawBatch:
    """One record batch.

    Attributes:
        base_offset, last_offset: The offsets of its first and last record.
        leader_epoch: The leader epoch in which it was appended.
        crc: The CRC as it is stored.
        attributes, base_timestamp, producer_id, producer_epoch, count: As in the message format.
        base_sequence: The sequence number that its producer gave the first record.
        data: All of its bytes.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    data: bytes

    @property
    def intact(self) -> bool:
        """Whether its bytes match its CRC."""
        return bool(crc32c(memoryview(self.data)[_CHECKED_FROM:]) == self.crc)

    @property
    def payload(self) -> memoryview:
        """Its records, compressed or not."""
        return memoryview(self.data)[_HEADER.size :]


@dataclass(slots=True)
class RawLog:
    """The log in a partition's directory.

    Attributes:
        directory: The directory.
        damage: The parts that could not be read so far, a sentence each.
        unread: The ranges of offsets in these parts: the first offset, and the one after the last.
        reached: The offset after the last batch read so far.
    """

    directory: AnyPath
    damage: list[str] = field(default_factory=list)
    unread: list[tuple[int, int]] = field(default_factory=list)
    reached: int = 0

    @property
    def start(self) -> int | None:
        """The offset of its first segment, or None if there is none."""
        return next((int(path.stem) for path in self._segments()), None)

    def batches(self, start: int, end: int) -> Iterator[RawBatch]:
        """Yield the batches with an offset from ``start`` to ``end`` (exclusive), in their order.

        Raises:
            OtherFormat: The log is not in format v2.
            OSError: A file cannot be read.
        """
        after = -1
        segments = self._segments()
        for number, path in enumerate(segments):
            if int(path.stem) >= end:
                return
            following = int(segments[number + 1].stem) if number + 1 < len(segments) else _NO_END
            if following <= start:
                continue
            damaged = len(self.damage)
            with path.open("rb") as file:
                for batch in self._segment(file, path.name, after, start):
                    after = batch.last_offset
                    self.reached = after + 1
                    if batch.base_offset >= end:
                        return
                    if batch.last_offset >= start:
                        yield batch
                    if after >= end - 1:
                        return  # what follows may be in the middle of a write
            if len(self.damage) > damaged:
                self.unread.append((max(after + 1, int(path.stem)), following))

    def _segments(self) -> list[AnyPath]:
        """Return the segments by base offset. Other files in the directory have other names:
        ``.index``, ``.log.deleted``."""
        return [path for path in matching(self.directory, "*.log") if path.stem.isdecimal()]

    def _segment(self, file: BinaryIO, name: str, after: int, start: int) -> Iterator[RawBatch]:
        """Yield the batches of a segment. Those that end below ``start`` are without their
        records, which are not read."""
        size = file.seek(0, 2)
        position = file.seek(0)
        while position < size:
            header = file.read(_HEADER.size)
            why = _misfit(header, size - position, after)
            if why:
                self.damage.append(f"cannot be read from byte {position} of {name} onwards: {why}")
                return
            base, length, epoch, _, crc, attributes, last_delta, first, *others = _HEADER.unpack(
                header
            )
            _, producer_id, producer_epoch, base_sequence, count = others
            position += _BEFORE_LENGTH_COUNTS + length
            after = base + last_delta
            rest = b""
            if after < start:
                file.seek(position)
            else:
                rest = file.read(_BEFORE_LENGTH_COUNTS + length - _HEADER.size)
            yield RawBatch(
                base_offset=base,
                last_offset=after,
                leader_epoch=epoch,
                crc=crc,
                attributes=attributes,
                base_timestamp=first,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                count=count,
                data=header + rest,
            )


def _misfit(header: bytes, left: int, after: int) -> str | None:
    """Return why these bytes are no header of a batch, or None if they are one. ``left`` is the
    number of bytes to the end of the file, including the header. ``after`` is the last offset so
    far.

    Raises OtherFormat.
    """
    if len(header) < _PREFIX.size:
        return _TORN
    base, length, _, magic = _PREFIX.unpack_from(header)
    # A file system returns zeros for lost blocks. They must not be taken for message format v0.
    if length <= 0 or _BEFORE_LENGTH_COUNTS + length > _BATCH_BYTES_MAX:
        return f"a batch length of {length} bytes is not possible"
    if magic in (0, 1):
        raise OtherFormat(f"message format v{magic}")
    if magic != MAGIC:
        return f"message format v{magic} does not exist"
    if len(header) < _HEADER.size or _BEFORE_LENGTH_COUNTS + length > left:
        return _TORN
    last = base + _HEADER.unpack(header)[6]
    if _BEFORE_LENGTH_COUNTS + length < _HEADER.size or not after < base <= last:
        return (
            f"a batch with offsets {base} to {last} and {length} bytes cannot follow offset {after}"
        )
    return None


# --- kio records ----------------------------------------------------------------------------------
#
# kio's reader of records, imported as if hypothesis were not installed.
#
# If hypothesis is installed, kio imports it, and hypothesis then computes a table of Unicode in
# ``.hypothesis`` of the working directory. That takes seconds and leaves files wherever a check
# runs.


_HIDDEN = "hypothesis" not in sys.modules
if _HIDDEN:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
try:
    from kio.records.readers import read_record
    from kio.serial.errors import SerialError
    from kio.static.primitive import i64
finally:
    if _HIDDEN:
        del sys.modules["hypothesis"]

__all__ = ["SerialError", "i64", "read_record"]


# --- records --------------------------------------------------------------------------------------
#
# The records of a batch, decompressed by Arrow and parsed by kio.
#
# Only batches that differ are decoded, to find the records that differ. The formats of compressed
# payloads are those of KIP-98. Snappy is raw from librdkafka, and framed by xerial's snappy-java
# (*SnappyOutputStream*) from Java.


_CODEC = 0x07
_CONTROL = 0x20
_SNAPPY = 2
_STREAMS = {1: "gzip", 3: "lz4", 4: "zstd"}
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_LENGTH = struct.Struct(">i")


class Undecodable(Exception):
    """A batch whose CRC is wrong, or whose payload cannot be parsed or has an unknown codec. The
    message says which."""


_UNDECODABLE = (SerialError, ValueError, IndexError, OverflowError, OSError, struct.error)
"""The exceptions that kio and Arrow raise; Arrow's own errors are among these."""


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a record, independent of its place. ``timestamp`` is in seconds, as kio
    returns it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes | None, bytes | None], ...]
    timestamp: float

    @property
    def identity(self) -> Identity | None:
        """The identity of the record, or None if no client wrote it."""
        named = ((key.decode(errors="replace"), text) for key, text in self.headers if key)
        return decode(identifying(self.value, named))


# The two batches at an offset are needed again for each of their records that differ. The cache
# also saves computing the CRC again.
@lru_cache(maxsize=2)
def contents(batch: RawBatch) -> Mapping[int, Content]:
    """Return the records of a batch by offset. Raises Undecodable."""
    if not batch.intact:
        raise Undecodable("a batch whose CRC does not match")
    try:
        return dict(_contents(batch))
    except _UNDECODABLE as error:
        raise Undecodable("a batch that cannot be decoded") from error


def holds(batch: RawBatch, offset: int) -> tuple[str, Identity | None]:
    """Return a description of what a replica holds at an offset of this batch, and the identity of
    the record."""
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
        return f"a record that no client sent {where}", None
    return f"cell {whose.cell} producer {whose.producer} sequence {whose.sequence} {where}", whose


def _contents(batch: RawBatch) -> Iterator[tuple[int, Content]]:
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


def _decompressed(batch: RawBatch) -> bytes:
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
    """Decompress a raw block, which begins with its decompressed length as a varint."""
    length = 0
    for number, byte in enumerate(block[:5]):
        length |= (byte & 0x7F) << (7 * number)
        if not byte & 0x80:
            return bytes(pa.decompress(block, length, codec="snappy", asbytes=True))
    raise ValueError("a block of no length")


# --- sessions -------------------------------------------------------------------------------------
#
# The producer session that wrote a record. The raw logs have it, but consumers do not receive it.
#
# Idempotence holds within one session, that is, one producer id and epoch (KIP-98). A client may
# begin another session by itself (KIP-360) and send its unanswered records again. librdkafka 2.16
# does so whenever a request is refused because an earlier one failed
# (confluentinc/librdkafka#4953).


_UNKNOWN = -1
_SEQUENCES = 2**31
"""The number of sequence numbers. After the highest int32 they begin again at 0, as in Kafka's
*DefaultRecordBatch*."""

Session: TypeAlias = tuple[int, int]
"""The producer id and producer epoch."""


class ProducerPosition(NamedTuple):
    """The session of a record, and its sequence number in it, as its batch has them. All of them
    are -1 for a producer that is not idempotent."""

    producer_id: int
    producer_epoch: int
    sequence: int

    @property
    def session(self) -> Session:
        """The producer session."""
        return self.producer_id, self.producer_epoch


NO_POSITIONS: Mapping[int, ProducerPosition] = MappingProxyType({})


def written(copies: Sequence[AnyPath], epochs: Mapping[int, int]) -> Mapping[int, ProducerPosition]:
    """Return the sessions by offset, from the first raw log of a partition that has all of the
    offsets, or :data:`NO_POSITIONS` if none has. ``epochs`` has the leader epoch expected at each
    offset, or -1 if it is unknown. A batch with another epoch is another batch."""
    for directory in copies if epochs else ():
        try:
            found = _of(RawLog(directory), epochs)
        except (OtherFormat, OSError):
            continue
        if len(found) == len(epochs):
            return found
    return NO_POSITIONS


def _of(log: RawLog, epochs: Mapping[int, int]) -> Mapping[int, ProducerPosition]:
    found: dict[int, ProducerPosition] = {}
    offsets = sorted(epochs)
    wanted = iter(offsets)
    offset = next(wanted, None)
    for batch in log.batches(offsets[0], offsets[-1] + 1):
        while offset is not None and offset <= batch.last_offset:
            same = epochs[offset] in (_UNKNOWN, batch.leader_epoch)
            if offset >= batch.base_offset and same and batch.intact:
                found[offset] = _written(batch, offset)
            offset = next(wanted, None)
    return found


def _written(batch: RawBatch, offset: int) -> ProducerPosition:
    sequence = _UNKNOWN
    if batch.base_sequence >= 0:
        sequence = (batch.base_sequence + offset - batch.base_offset) % _SEQUENCES
    return ProducerPosition(batch.producer_id, batch.producer_epoch, sequence)
