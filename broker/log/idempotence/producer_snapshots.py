"""``<offset>.snapshot``: the producers of a log as they were just below ``offset``, on disk.

Kafka's format (``ProducerStateManager``), big-endian::

    0  int16   version                  1
    2  uint32  CRC-32C of everything from byte 6 on
    6  int32   count of entries, each of 42 bytes:
               int64 producer id, int16 epoch, int32 last sequence, int64 last offset,
               int32 offset delta, int64 timestamp, int32 coordinator epoch (-1),
               int64 first offset of the current transaction (-1)

Kafka writes one entry per producer, its last batch, and so no longer recognises the four before
it once it has started from a snapshot. Here a producer has up to five entries, oldest first;
Kafka, which keeps the last entry it meets of each producer, reads that as well.
"""

import struct
from collections.abc import Callable, Iterator

from crc32c import crc32c

from ackproof.broker.log.disk.files import Directory
from ackproof.broker.log.disk.steps import Steps
from ackproof.broker.log.idempotence.producer_state import SEQUENCES, Appended, ProducerState
from ackproof.broker.types import Offset, ProducerId

SNAPSHOT_SUFFIX = ".snapshot"

_VERSION = 1
_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_NO_TRANSACTION = (-1, -1)


class CorruptSnapshot(Exception):
    """A file that is no snapshot."""


def encode(state: ProducerState) -> bytes:
    """The content of a snapshot file."""
    entries = [
        _ENTRY.pack(
            producer,
            known.epoch,
            sent.last_sequence,
            sent.last_offset,
            sent.last_offset - sent.base_offset,
            sent.timestamp,
            *_NO_TRANSACTION,
        )
        for producer, known in state.producers.items()
        for sent in known.batches
    ]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> ProducerState:
    """The producers in a snapshot file; those that only ever had transaction markers are left out.

    Raises:
        CorruptSnapshot: wrong version, CRC or length.
    """
    try:
        version, crc = _HEADER.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEADER.size)
    except struct.error as error:
        raise CorruptSnapshot(f"{len(data)} bytes are too few") from error
    body = memoryview(data)[_HEADER.size :]
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version}, expected {_VERSION}")
    if crc32c(body) != crc:
        raise CorruptSnapshot(f"CRC-32C is not {crc:#010x}")
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes do not hold {count} entries")
    state = ProducerState()
    for producer, epoch, sent in _entries(body[_COUNT.size :]):
        state.restore(producer, epoch, [sent])
    return state


def _entries(body: memoryview) -> Iterator[tuple[ProducerId, int, Appended]]:
    for producer, epoch, sequence, offset, delta, timestamp, *_ in _ENTRY.iter_unpack(body):
        if offset >= 0:
            sent = Appended(
                base_sequence=(sequence - delta) % SEQUENCES,
                last_sequence=sequence,
                base_offset=Offset(offset - delta),
                last_offset=Offset(offset),
                timestamp=timestamp,
            )
            yield ProducerId(producer), epoch, sent


class Snapshots:
    """The snapshot files in a partition's directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._under_way: set[int] = set()

    @property
    def offsets(self) -> tuple[int, ...]:
        """Of every snapshot there is, ascending."""
        return tuple(sorted(map(int, self._directory.stems(SNAPSHOT_SUFFIX))))

    def write_steps(self, offset: int, content: bytes) -> Steps:
        """Writes ``<offset>.snapshot``, durably, unless it becomes unwanted meanwhile."""
        self._under_way.add(offset)
        try:
            yield from self._directory.replace_steps(_name(offset), content)
        finally:
            self._under_way.discard(offset)

    def read(self, offset: int) -> ProducerState:
        """What ``<offset>.snapshot`` holds; raises CorruptSnapshot."""
        return decode(self._directory.read(_name(offset)))

    def remove(self, unwanted: Callable[[int], bool]) -> None:
        """Removes, durably, the snapshots whose offset is ``unwanted``."""
        for offset in filter(unwanted, tuple(self._under_way)):
            self._directory.abandon(_name(offset))
        doomed = [offset for offset in self.offsets if unwanted(offset)]
        for offset in doomed:
            self._directory.remove(_name(offset))
        if doomed:
            self._directory.sync()


def _name(offset: int) -> str:
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"
