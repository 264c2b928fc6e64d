"""Sparse indexes beside a segment: the position of an offset, and the offset of a timestamp.

Both are sorted pairs in a file of fixed-size, big-endian entries, mirrored in memory:

* ``<base offset>.index``: offset relative to the segment's base (4 bytes), position in the log file
  (4). The entry of a batch holds the batch's *last* offset and its first byte.
* ``<base offset>.timeindex``: timestamp in ms (8), relative offset (4). No record up to that offset
  is younger than that timestamp, and the batch that ends with that offset holds it. For batches
  without timestamps there is one entry, -1 and 0.

Indexes are hints, and the log is the truth. They are not synced with every append, and are rebuilt
after a crash. Kafka allocates them in full and trims them when a segment is closed. Here they only
ever hold their entries, which Kafka reads as well.
"""

import logging
import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple, Self

from ackproof.broker.log.disk.files import Directory

logger = logging.getLogger(__name__)


class CorruptIndex(Exception):
    """An index file that cannot belong to its segment."""


class Entry(NamedTuple):
    """A pair of an index; see :class:`OffsetIndex` and :class:`TimeIndex` for its meaning."""

    key: int
    value: int


class _SortedPairs:
    """Pairs in ascending order of both parts, on disk and in memory. The owner closes it."""

    _entry: struct.Struct

    def __init__(self, directory: Directory, name: str) -> None:
        """Open the file, or create it empty.

        Raises:
            CorruptIndex: the file does not consist of whole entries in ascending order.
        """
        self.name = name
        self._keys = array("q")
        self._values = array("q")
        self._file = directory.open(name)
        try:
            self._load()
        except CorruptIndex:
            self.close()
            raise

    @classmethod
    def opened(cls, directory: Directory, name: str) -> Self:
        """Open the file, and replace a file that is no index by an empty one."""
        try:
            return cls(directory, name)
        except CorruptIndex as error:
            logger.warning("%s/%s: rebuilt", directory.path, error)
            directory.remove(name)
            return cls(directory, name)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def size(self) -> int:
        """The number of bytes on disk."""
        return len(self) * self._entry.size

    @property
    def last(self) -> Entry | None:
        """The greatest entry, or None."""
        return self._at(len(self) - 1)

    def append(self, key: int, value: int) -> None:
        """Append a pair, which must be greater than the last one."""
        self._file.append(self._entry.pack(key, value))
        self._keys.append(key)
        self._values.append(value)

    def floor(self, key: int) -> Entry | None:
        """Return the entry with the greatest key that is not above ``key``, or None."""
        return self._at(bisect_right(self._keys, key) - 1)

    def floor_by_value(self, value: int) -> Entry | None:
        """Return the entry with the greatest value that is not above ``value``, or None."""
        return self._at(bisect_right(self._values, value) - 1)

    def clear(self) -> None:
        """Remove all entries."""
        self._keep(0)

    def duplicate(self) -> int:
        """Return a descriptor of the file, which the caller must close."""
        return self._file.duplicate()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _load(self) -> None:
        data = self._file.read_at(self._file.size, 0)
        if len(data) % self._entry.size:
            raise CorruptIndex(f"{self.name}: {len(data)} bytes, entries have {self._entry.size}")
        for key, value in self._entry.iter_unpack(data):
            if self._keys and (key <= self._keys[-1] or value < self._values[-1]):
                raise CorruptIndex(f"{self.name}: ({key}, {value}) is out of order")
            self._keys.append(key)
            self._values.append(value)

    def _at(self, number: int) -> Entry | None:
        return Entry(self._keys[number], self._values[number]) if number >= 0 else None

    def _keep(self, count: int) -> None:
        self._file.truncate(count * self._entry.size)
        del self._keys[count:]
        del self._values[count:]


class OffsetIndex(_SortedPairs):
    """The offset index: relative last offset of a batch (key), position of its first byte
    (value)."""

    _entry = struct.Struct(">iI")

    def truncate_to(self, relative_offset: int) -> None:
        """Remove the entries of batches that hold this offset or a greater one."""
        self._keep(bisect_left(self._keys, relative_offset))


class TimeIndex(_SortedPairs):
    """The time index: timestamp in ms (key), relative last offset of the batch that has it
    (value)."""

    _entry = struct.Struct(">qi")

    def truncate_to(self, relative_offset: int) -> None:
        """Remove the entries that point at this offset or a greater one."""
        self._keep(bisect_left(self._values, relative_offset))
