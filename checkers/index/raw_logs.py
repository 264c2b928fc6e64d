"""Brokers' raw logs, as ``collect`` has fetched them: batches of their segments, the records in
these, and in which sessions of producers they were written. Nothing of a broker's code."""

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import BinaryIO, NamedTuple, TypeAlias

import pyarrow as pa
from crc32c import crc32c

from ackproof.history.payload import Identity, decode
from ackproof.history.storage import AnyPath, matching

MAGIC = 2
_HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qiib")
"""As far as the byte that tells the format: all formats have it at the same place."""
_BEFORE_LENGTH_COUNTS = 12
_CHECKED_FROM = 21
"""The CRC covers all from the attributes on: neither base offset nor leader epoch."""
_BATCH_BYTES_MAX = 100 << 20
"""``socket.request.max.bytes``: no request could have brought more. By a damaged length a gigabyte
would be read into memory."""

_NO_END = 1 << 62
"""No log gets as far as that offset."""

_TORN = "the file ends within a batch"


class OtherFormat(Exception):
    """A log of message format v0 or v1."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One record batch. ``crc``: as it is written there; ``base_sequence``: the number that its
    producer gave the first record; ``data``: all of its bytes."""

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
        """Whether its bytes are those that its CRC was made of."""
        return bool(crc32c(memoryview(self.data)[_CHECKED_FROM:]) == self.crc)

    @property
    def payload(self) -> memoryview:
        """Its records, compressed or not."""
        return memoryview(self.data)[_HEADER.size :]


@dataclass(slots=True)
class RawLog:
    """The log in a partition's directory.

    Attributes:
        damage: What of it could not be read so far, a sentence each.
        unread: The offsets that lie there: from one on, and before another one.
        reached: The offset behind the last batch so far.
    """

    directory: AnyPath
    damage: list[str] = field(default_factory=list)
    unread: list[tuple[int, int]] = field(default_factory=list)
    reached: int = 0

    @property
    def start(self) -> int | None:
        """Where its first segment starts; None where there is none."""
        return next((int(path.stem) for path in self._segments()), None)

    def batches(self, start: int, end: int) -> Iterator[Batch]:
        """The batches with an offset from ``start`` on and before ``end``, in their order.

        Raises:
            OtherFormat: It is not of format v2.
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
                for batch in self._segment(file, path.name, after):
                    after = batch.last_offset
                    self.reached = after + 1
                    if batch.base_offset >= end:
                        return
                    if batch.last_offset >= start:
                        yield batch
                    if after >= end - 1:
                        return  # what follows is being written, for all anybody knows
            if len(self.damage) > damaged:
                self.unread.append((max(after + 1, int(path.stem)), following))

    def _segments(self) -> list[AnyPath]:
        """By base offset. Files beside them have other names: ``.index``, ``.log.deleted``."""
        return [path for path in matching(self.directory, "*.log") if path.stem.isdecimal()]

    def _segment(self, file: BinaryIO, name: str, after: int) -> Iterator[Batch]:
        size = file.seek(0, 2)
        position = file.seek(0)
        while position < size:
            header = file.read(_HEADER.size)
            why = _misfit(header, size - position, after)
            if why:
                self.damage.append(f"cannot be read from byte {position} of {name} on: {why}")
                return
            base, length, epoch, _, crc, attributes, last_delta, first, *others = _HEADER.unpack(
                header
            )
            _, producer_id, producer_epoch, base_sequence, count = others
            rest = file.read(_BEFORE_LENGTH_COUNTS + length - _HEADER.size)
            position += _BEFORE_LENGTH_COUNTS + length
            after = base + last_delta
            yield Batch(
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
    """Why a header is none; None where it is one. ``left``: bytes to the end of the file, the
    header's among them; ``after``: the last offset so far.

    Raises OtherFormat.
    """
    if len(header) < _PREFIX.size:
        return _TORN
    base, length, _, magic = _PREFIX.unpack_from(header)
    # Zeros, which a file system gives back for blocks that it lost, are no message of format v0.
    if length <= 0 or _BEFORE_LENGTH_COUNTS + length > _BATCH_BYTES_MAX:
        return f"no batch is {length} bytes long"
    if magic in (0, 1):
        raise OtherFormat(f"message format v{magic}")
    if magic != MAGIC:
        return f"there is no message format v{magic}"
    if len(header) < _HEADER.size or _BEFORE_LENGTH_COUNTS + length > left:
        return _TORN
    last = base + _HEADER.unpack(header)[6]
    if _BEFORE_LENGTH_COUNTS + length < _HEADER.size or not after < base <= last:
        return f"no batch has offsets {base} to {last} and {length} bytes behind offset {after}"
    return None


# --- kio records ----------------------------------------------------------------------------------
#
# kio's reader of records, imported as if hypothesis were not there.
#
# Where that library for tests is installed, kio imports it, and it makes itself a table of Unicode
# in ``.hypothesis`` of the working directory: seconds of computing, left where somebody runs a
# check.


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
# The records within a batch: decompressed by Arrow, taken apart by kio.
#
# Only batches that differ are opened, to tell which of their records do. The formats of compressed
# payloads are those of KIP-98; snappy comes raw from librdkafka, and from Java in the frames of
# xerial's snappy-java (*SnappyOutputStream*).


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


# --- sessions -------------------------------------------------------------------------------------
#
# Which session of its producer wrote a record, as the raw logs tell and consumers are not told.
#
# Idempotence holds within one session, that is one producer id and epoch (KIP-98). A client may
# begin another by itself (KIP-360), and sends again what it has no answer of: librdkafka 2.16 does
# whenever a request is refused because one before it failed (confluentinc/librdkafka#4953).


_UNKNOWN = -1
_SEQUENCES = 2**31
"""From 0 on again behind the highest int32, as Kafka's *DefaultRecordBatch* counts."""

Session: TypeAlias = tuple[int, int]
"""Producer id and producer epoch."""


class Written(NamedTuple):
    """What a batch says of one of its records: in which session it was written, and which number it
    has there. All of a producer that is not idempotent are -1."""

    producer_id: int
    producer_epoch: int
    sequence: int

    @property
    def session(self) -> Session:
        """In which session."""
        return self.producer_id, self.producer_epoch


UNTOLD: Mapping[int, Written] = MappingProxyType({})


def written(copies: Sequence[AnyPath], epochs: Mapping[int, int]) -> Mapping[int, Written]:
    """By offset, as far as the first of a partition's raw logs tells that has all of them;
    :data:`UNTOLD` where none has. ``epochs``: by offset, the leader epoch of what is asked for
    there, -1 where nobody knows: a batch of another epoch is another one."""
    for directory in copies if epochs else ():
        try:
            found = _of(RawLog(directory), epochs)
        except (OtherFormat, OSError):
            continue
        if len(found) == len(epochs):
            return found
    return UNTOLD


def _of(log: RawLog, epochs: Mapping[int, int]) -> Mapping[int, Written]:
    found: dict[int, Written] = {}
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


def _written(batch: Batch, offset: int) -> Written:
    sequence = _UNKNOWN
    if batch.base_sequence >= 0:
        sequence = (batch.base_sequence + offset - batch.base_offset) % _SEQUENCES
    return Written(batch.producer_id, batch.producer_epoch, sequence)
