"""One segment of a log: a file of record batches, and two indexes into it.

The three files are named after the segment's base offset. The log file is the truth. What this
object knows besides (end, greatest timestamp, indexes) can always be restored from it by
``recover``. The segment holds three open descriptors until ``close`` or ``delete``.
"""

import logging
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple, Self

from ackproof.broker.log.disk import Directory
from ackproof.broker.wire.batch import (
    HEADER_BYTES,
    CorruptBatch,
    Extent,
    Record,
    RecordBatch,
    batch_size,
    extent,
    parse_batch,
    records,
    whole_batches_below,
)

# --- indexes --------------------------------------------------------------------------------------
#
# Sparse indexes beside a segment: the position of an offset, and the offset of a timestamp.
#
# Both are sorted pairs in a file of fixed-size, big-endian entries, mirrored in memory:
#
# * ``<base offset>.index``: offset relative to the segment's base (4 bytes), position in the log
# file (4). The entry of a batch holds the batch's *last* offset and its first byte. * ``<base
# offset>.timeindex``: timestamp in ms (8), relative offset (4). No record up to that offset is
# younger than that timestamp, and the batch that ends with that offset holds it. For batches
# without timestamps there is one entry, -1 and 0.
#
# Indexes are hints, and the log is the truth. They are not synced with every append, and are
# rebuilt after a crash. Kafka allocates them in full and trims them when a segment is closed. Here
# they only ever hold their entries, which Kafka reads as well.


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


# --- segment --------------------------------------------------------------------------------------


LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"

TAIL_BYTES_MAX = 2**12
"""The size limit for a last batch that is kept in memory. A consumer or follower that keeps up
requests it at once. A broker may have thousands of logs."""

_NO_TIMESTAMP = -1
_RELATIVE_OFFSET_MAX = 2**31 - 1


class Segment:
    """A segment, opened and checked by ``load`` or ``recover``; see
    :class:`~broker.log.partition_log.PartitionLog`.

    Attributes:
        base_offset: no record has a smaller offset.
        next_offset: the offset after the last record; ``base_offset`` when empty.
        size: bytes of the log file.
        first_timestamp: max timestamp in ms of the first batch, -1 when empty.
        max_timestamp: greatest timestamp in ms of all batches, -1 when empty.
    """

    def __init__(self, directory: Directory, base_offset: int, index_interval_bytes: int) -> None:
        """Open the files, created empty if absent. Call ``load`` or ``recover`` next."""
        stem = f"{base_offset:020d}"
        self.base_offset = base_offset
        self.path = directory.path / (stem + LOG_SUFFIX)
        self._directory = directory
        self._index_interval_bytes = index_interval_bytes
        self._log = directory.open(self.path.name)
        self.size = self._log.size
        self._tail: RecordBatch | None = None
        self._offsets = OffsetIndex.opened(directory, stem + OFFSET_INDEX_SUFFIX)
        self._times = TimeIndex.opened(directory, stem + TIME_INDEX_SUFFIX)
        self._forget()

    def load(self, *, is_last: bool = True) -> None:
        """Trust the indexes, and read only what they do not cover.

        Args:
            is_last: whether this segment must tell where the log ends. In an earlier segment, a
                misplaced batch costs only the reads of that batch, not everything after it.

        Raises:
            CorruptIndex, CorruptBatch: they do not fit the log file, and ``recover`` is needed.
        """
        self._forget()
        indexed = self._offsets.last
        latest = self._times.last
        if indexed is not None and (indexed.value >= self.size or latest is None):
            raise CorruptIndex(f"{self.path}: the indexes do not fit the log")
        if latest is not None:
            self.max_timestamp = latest.key
            self._max_timestamp_offset = self.base_offset + latest.value
        for position, batch in self._walk(indexed.value if indexed else 0):
            if indexed and position == indexed.value:
                if self._relative(batch) != indexed.key:
                    raise CorruptIndex(f"{self.path}: nothing at {position} ends {indexed.key}")
            elif is_last:
                self._check_place(position, batch, self.next_offset)
            self._note(batch, position)
        if latest is not None and not self._is_true(*latest):
            raise CorruptIndex(f"{self.path}: no batch is where the time index has it: {latest}")
        if self.size:
            self.first_timestamp = self._batch_at(0).max_timestamp

    def recover(self, noticed: Callable[[RecordBatch], None]) -> int:
        """Read all batches, check their CRC, and truncate the log at the first that is not intact.

        Both indexes are rebuilt. The batches are read from the disk, not from the page cache. After
        a failed sync, Linux drops the data that it could not write, and shows it until the page is
        evicted. Read from the page cache, the batch is intact and the next sync succeeds. A power
        failure then leaves zeros below the recovery point ("Can Applications Recover from fsync
        Failures?", USENIX ATC 2020).

        Args:
            noticed: called with every intact batch.

        Returns:
            The number of bytes removed.
        """
        self._forget()
        self._offsets.clear()
        self._times.clear()
        self._log.drop_cached_pages()
        intact = 0
        try:
            for position, batch in self._walk(0, verify_crc=True):
                self._check_place(position, batch, self.next_offset)
                if not self._in_reach(batch):
                    raise CorruptBatch(f"offset {batch.base_offset} after {self.next_offset - 1}")
                noticed(batch)
                self._note(batch, position)
                intact = position + batch.size
        except CorruptBatch as error:
            logger.warning("%s: cut at byte %d: %s", self.path, intact, error)
        cut = self.size - intact
        if cut:
            self._log.truncate(intact)
            self.size = intact
        return cut

    def append(self, batch: RecordBatch) -> None:
        """Append a batch whose offsets are above all others and fit (``has_room_for``).

        Raises:
            OSError: the disk is full or broken. The log file is as it was before.
        """
        self._tail = None
        self._log.append(batch.raw)
        self._note(batch, self.size)
        self.size += batch.size
        if memoryview(batch.raw.obj).nbytes <= TAIL_BYTES_MAX:  # it may be part of a large frame
            self._tail = batch

    def has_room_for(self, batch: RecordBatch, segment_bytes: int, index_bytes: int) -> bool:
        """Return whether ``batch`` may be appended to this segment, whatever its age."""
        return (
            self._in_reach(batch)
            and (self.size == 0 or self.size + batch.size <= segment_bytes)
            and (self.size == 0 or max(self._offsets.size, self._times.size) < index_bytes)
        )

    def read(
        self, offset: int, max_bytes: int, bound: int, at_least_one: bool
    ) -> bytes | memoryview:
        """Return whole batches from the one that holds ``offset`` on; see ``PartitionLog.read``."""
        tail = self._tail
        if tail is not None and tail.base_offset <= offset < tail.next_offset <= bound:
            return tail.raw if at_least_one or tail.size <= max_bytes else b""
        found = self._locate(offset)
        if found is None:
            return b""
        position, first = found
        if first.next_offset > bound:
            return b""
        if first.size > max_bytes:
            return self._log.read_at(first.size, position) if at_least_one else b""
        data = self._log.read_at(min(max_bytes, self.size - position), position)
        known = self._last_indexed(position, position + len(data), bound)
        return memoryview(data)[: whole_batches_below(data, bound, known - position)]

    def batches_from(self, offset: int) -> Iterator[RecordBatch]:
        """Yield every batch from the one that holds ``offset`` on."""
        if offset < self.next_offset:
            for _, batch in self._walk(self._nearest_indexed(offset)[0]):
                if batch.next_offset > offset:
                    yield batch

    def max_timestamp_from(self, start_offset: int) -> int:
        """Return the greatest timestamp of all records from ``start_offset`` on, -1 if there are
        none.

        They are read only if the youngest of all records lies below.

        Raises:
            CorruptBatch: the batch that holds ``start_offset`` cannot be decoded.
        """
        if start_offset <= self.base_offset:
            return self.max_timestamp
        greatest = _NO_TIMESTAMP
        for batch in self.batches_from(start_offset):
            if batch.base_offset < start_offset:
                there = (each.timestamp for each in records(batch) if each.offset >= start_offset)
                greatest = max(there, default=_NO_TIMESTAMP)
            elif batch.last_offset <= self._max_timestamp_offset:
                return self.max_timestamp
            else:
                greatest = max(greatest, batch.max_timestamp)
        return greatest

    def offset_for_timestamp(self, timestamp: int, start_offset: int) -> Record | None:
        """Return the first record, from ``start_offset`` on, that is as young as ``timestamp``."""
        if self.max_timestamp < timestamp:
            return None
        older = self._times.floor(timestamp)
        while older is not None and not self._is_true(*older):
            older = self._times.floor(older.key - 1)
        offset = self.base_offset + (older.value if older else 0)
        for _, batch in self._walk(self._nearest_indexed(offset)[0]):
            if batch.max_timestamp < timestamp or batch.next_offset <= start_offset:
                continue
            for record in records(batch):
                if record.timestamp >= timestamp and record.offset >= start_offset:
                    return record
        return None

    def truncate_to(self, offset: int) -> int:
        """Remove every batch that holds ``offset`` or a greater one.

        A damaged batch found on the way is removed with everything after it. A follower fetches it
        again. A follower that could not truncate its log would not start any more.

        Returns:
            The new end of the log: ``offset``, or less if it lay inside a batch.
        """
        try:
            found = self._locate(offset)
        except CorruptBatch as error:
            logger.warning("%s: recovering: %s", self.path, error)
            self.recover(lambda _: None)
            found = self._locate(offset)
        if found is None:
            return min(offset, self.next_offset)
        position, first = found
        end = min(offset, first.base_offset)
        self._log.truncate(position)
        self.size = position
        self._offsets.truncate_to(end - self.base_offset)
        self._times.truncate_to(end - self.base_offset)
        try:
            self.load()
        except (CorruptBatch, CorruptIndex) as error:  # an entry that is the last one only now
            logger.warning("%s: recovering: %s", self.path, error)
            if self.recover(lambda _: None):
                return self.next_offset
        return end

    def duplicates(self) -> tuple[int, ...]:
        """Return descriptors of the log and its indexes to sync. The caller must close them."""
        return self._log.duplicate(), self._offsets.duplicate(), self._times.duplicate()

    def finish(self) -> None:
        """Write the greatest timestamp to the time index, because the segment is full or will be
        closed."""
        self._tail = None
        if self.size:
            self._index_timestamp()

    def close(self) -> None:
        """Close the files, without a flush."""
        self._log.close()
        self._offsets.close()
        self._times.close()

    def delete(self) -> None:
        """Close and remove the files, durably.

        With several segments the order matters: of 10, 20 and 30 a crash could leave 10 and 30.
        """
        self.close()
        for name in (self.path.name, self._offsets.name, self._times.name):
            self._directory.remove(name)
        self._directory.sync()

    def _forget(self) -> None:
        self._tail = None
        self.next_offset = self.base_offset
        self.first_timestamp = _NO_TIMESTAMP
        self.max_timestamp = _NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        self._bytes_since_index = 0

    def _note(self, batch: RecordBatch, position: int) -> None:
        if position == 0:
            self.first_timestamp = batch.max_timestamp
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self._max_timestamp_offset = batch.last_offset
        if self._bytes_since_index > self._index_interval_bytes:
            self._offsets.append(self._relative(batch), position)
            self._index_timestamp()
            self._bytes_since_index = 0
        self._bytes_since_index += batch.size
        self.next_offset = batch.next_offset

    def _index_timestamp(self) -> None:
        """Write the greatest timestamp to the time index.

        For batches without timestamps -1 is written, once. Kafka writes nothing then. To find the
        greatest timestamp it reads the whole segment when it is opened or truncated
        (``LogSegment.loadLargestTimestamp``). Here an offset index beside an empty time index means
        a lost file.
        """
        latest = self._times.last
        if latest is None or self.max_timestamp > latest.key:
            self._times.append(self.max_timestamp, self._max_timestamp_offset - self.base_offset)

    def _is_true(self, timestamp: int, relative_offset: int) -> bool:
        """Return whether an entry of the time index is true: the batch that ends there has that
        timestamp.

        The last entry of a full segment is written after the last flush of its batches
        (``finish``). A power failure may leave it garbled, and recovery does not read this segment
        once the next one exists. Records of the year 169,930,742 would never get too old.
        """
        if timestamp == _NO_TIMESTAMP:
            return relative_offset == 0
        offset = self.base_offset + relative_offset
        said = next(self.batches_from(offset), None)
        return said is not None and (said.last_offset, said.max_timestamp) == (offset, timestamp)

    def _relative(self, batch: RecordBatch) -> int:
        return batch.last_offset - self.base_offset

    def _in_reach(self, batch: RecordBatch) -> bool:
        return self._relative(batch) <= _RELATIVE_OFFSET_MAX

    def _locate(self, offset: int) -> tuple[int, Extent] | None:
        """Return the position of the first batch that holds ``offset`` or a greater one.

        Raises:
            CorruptBatch: a batch on the way is not where the log has it. No CRC covers the base
                offset. Suppose the disk has turned 5, 6, 7 into 2, 6, 7: a read of 5 would return
                6. With 9, 6, 7, a read of 6 would return the former 5, as 9.
        """
        if offset >= self.next_offset or not self.size:
            return None
        position, end, batch = self._nearest_indexed(offset)
        while batch is not None:
            if batch.base_offset != end:
                self._check_place(position, batch, end)
            end = batch.next_offset
            if end > offset:
                if end > self.next_offset:
                    break
                return position, batch
            position += batch.size
            batch = extent(self._log.read_at(HEADER_BYTES, position))
        raise CorruptBatch(f"{self.path}: there is no batch at offset {offset}")

    def _nearest_indexed(self, offset: int) -> tuple[int, int, Extent | None]:
        """Return the batch from which to search: its position, its expected offset, and its extent.

        An entry that fits no batch is skipped. If the batch is damaged, the search will reach it
        again.
        """
        entry = self._offsets.floor(offset - self.base_offset)
        while entry is not None:
            batch = self._extent_if_sound(entry.value)
            if batch is not None and batch.next_offset == self.base_offset + entry.key + 1:
                return entry.value, batch.base_offset, batch
            entry = self._offsets.floor(entry.key - 1)
        return 0, self.base_offset, extent(self._log.read_at(HEADER_BYTES, 0))

    def _check_place(self, position: int, batch: Extent | RecordBatch, end: int) -> None:
        """Check that a batch begins at the ``end`` of the previous one, or after it, because
        followers may be sent gaps. In the latter case the next batch must not overlap it.

        Raises:
            CorruptBatch: the batch is misplaced.
        """
        if batch.base_offset == end:
            return
        behind = self._extent_if_sound(position + batch.size)
        if batch.base_offset < end or (behind and behind.base_offset < batch.next_offset):
            raise CorruptBatch(
                f"{self.path}: offset {batch.base_offset} at byte {position}, expected {end}"
            )

    def _extent_if_sound(self, position: int) -> Extent | None:
        try:
            return extent(self._log.read_at(HEADER_BYTES, position))
        except CorruptBatch:
            return None

    def _last_indexed(self, position: int, end: int, bound: int) -> int:
        """Return the greatest indexed position of a batch that begins before ``end`` and has only
        offsets below ``bound``, or ``position`` if none is greater.

        Only entries that fit a batch count. If an entry said byte 851 for 850, the data would end
        within a batch, at every fetch of a follower. If an entry said offset 268 for 300, a
        consumer would read records above the high watermark.
        """
        before = self._offsets.floor_by_value(end - 1)
        if before is None or before.value <= position:
            return position
        known, _, _ = self._nearest_indexed(min(bound - 1, self.base_offset + before.key))
        return max(known, position)

    def _walk(self, position: int, verify_crc: bool = False) -> Iterator[tuple[int, RecordBatch]]:
        while position < self.size:
            batch = self._batch_at(position, verify_crc)
            yield position, batch
            position += batch.size

    def _batch_at(self, position: int, verify_crc: bool = False) -> RecordBatch:
        size = batch_size(self._log.read_at(HEADER_BYTES, position))
        if size is None or position + size > self.size:
            raise CorruptBatch(f"{self.path}: torn at byte {position}")
        return parse_batch(self._log.read_at(size, position), verify_crc=verify_crc)
