"""Reading a replica's raw log: its segment files, batch by batch, in Kafka's message format v2.

Written from Kafka's documentation (*Message Format*, KIP-98), and with nothing of the broker's: a
mistake in the broker's own reader would be in both and cancel out. Only one batch is in memory.

A log is copied while its broker runs, so that its end may be the half of a batch; and a disk may
have damaged any of it. Neither raises: what cannot be read is told (:attr:`RawLog.damage`), and
reading goes on with the next segment. A batch whose CRC is wrong still has its length, and is given
as it is. Formats v0 and v1 are told apart and not read: whoever has them has another reader's log.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from crc32c import crc32c

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
