"""The log of one partition: segments on disk, and the leader epochs beside them.

The log knows neither leadership nor high watermark. Its owner says what to append and where to
truncate. It is used by one thread at a time. An append is in the operating system's hands when it
returns, so a killed process loses nothing. A power failure may lose everything above
``recovery_point``, which ``flush`` moves. Kafka's default never flushes by time or count, and
neither does ours. Durability then comes from replication.

After the disk has refused an operation, the log accepts nothing more until it is opened again. The
effect of the refused operation is unknown, and the next one would build on it.

Not handled: compaction, transactions, message formats before v2, reads in parallel with writes.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path

from ackproof.broker.invariants import require
from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import REAL, TEMPORARY_SUFFIX, Directory, FileSystem, Later, carry_out
from ackproof.broker.log.epochs import LeaderEpochCache
from ackproof.broker.log.flushing import Flushing, last_if_it_fails
from ackproof.broker.log.partition_metadata import PartitionMetadataFile
from ackproof.broker.log.producer_state import LogProducers
from ackproof.broker.log.segment import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    CorruptIndex,
    Segment,
)
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.types import Offset
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, stamped

logger = logging.getLogger(__name__)


class OffsetOutOfRange(Exception):
    """An offset below the log's start or above its end."""


class OffsetsOutOfOrder(ValueError):
    """An append below the log's end, by a caller that has lost track of the log."""


class PartitionLog:
    """A log, created by ``open``.

    Attributes:
        config: the topic's settings. They may be replaced at any time, and count from then on.
        metadata: the id of the log's topic, once it is known.
        epochs: the start of each leader epoch, updated by appends, ``start_epoch`` and truncation.
        producers: the idempotent producers, updated by appends and truncation.
        flushing: which part of the log is durable.
    """

    def __init__(self, directory: Directory, config: LogConfig, later: Later, probe: Probe) -> None:
        """Create the parts. Call ``open`` instead."""
        self.config = config
        self.metadata = PartitionMetadataFile(directory)
        self.epochs = LeaderEpochCache(directory)
        self.producers = LogProducers(directory)
        self.flushing = Flushing(directory, self.epochs, self.producers, self._segments_from, later)
        self._probe = probe
        self._directory = directory
        self._segments: list[Segment] = []
        self._start = Offset(0)
        self._end = Offset(0)

    @classmethod
    def open(
        cls,
        directory: Path,
        config: LogConfig,
        *,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        files: FileSystem = REAL,
        later: Later = carry_out,
        probe: Probe = NO_PROBE,
    ) -> "PartitionLog":
        """Open a partition's directory, or create a new, empty log in it.

        Args:
            clean: the log was closed cleanly. If not, the segments that reach above
                ``recovery_point`` are read, and the log is truncated at the first batch that is
                torn or damaged.
            recovery_point: the checkpointed offset below which everything was fsynced.
            log_start_offset: the checkpointed offset below which records are not served.
            later: flushes full segments.
            probe: the observer of the log.

        Raises:
            CorruptCheckpoint: the file of the leader epochs or of the topic id is damaged.
            OSError: the disk refuses an operation.
        """
        here = Directory(directory, files)
        here.make(durably=False)
        log = cls(here, config, later, probe)
        walked = [recovery_point]

        def walking_from(offset: int) -> None:
            log.epochs.truncate_from_end(offset)
            walked.append(offset)

        log._segments = load_segments(
            here,
            config.index_interval_bytes,
            None if clean else recovery_point,
            walking_from,
            log._notice,
        )
        log._begin(log_start_offset)
        # Suppose the log was checkpointed at 30, truncated to 10, grew to 40, and was killed. The
        # checkpoint still says 30, and from 10 on everything is in the system's hands. But it is in
        # one segment: see Flushing.roll.
        durable = log._end if clean else min(*walked, log._end)
        log.flushing.begin(durable, vouched_for=max(durable, recovery_point), clean=clean)
        return log

    @property
    def directory(self) -> Path:
        """The directory of the log."""
        return self._directory.path

    @property
    def recovery_point(self) -> Offset:
        """The offset below which everything is durable."""
        return self.flushing.recovery_point

    @property
    def log_start_offset(self) -> Offset:
        """The smallest offset that is served."""
        return self._start

    @property
    def log_end_offset(self) -> Offset:
        """The offset that the next record gets (LEO)."""
        return self._end

    @property
    def size(self) -> int:
        """The number of bytes of all batches on disk."""
        return sum(segment.size for segment in self._segments)

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp in ms of all records from the log's start on, -1 if there are
        none."""
        return max(segment.max_timestamp_from(self._start) for segment in self._segments)

    @property
    def segment_base_offsets(self) -> tuple[Offset, ...]:
        """The base offsets of the segments, ascending."""
        return tuple(Offset(segment.base_offset) for segment in self._segments)

    def check(self) -> None:
        """Assert what must hold after every operation. Raise BrokenInvariant otherwise.

        Segments follow each other without overlap. The log starts in the first segment and ends
        with the last. Nothing above its end counts as durable, and no epoch begins there.
        """
        name, segments = self._directory.name, self._segments
        overlaps = [b.base_offset for a, b in pairwise(segments) if a.next_offset > b.base_offset]
        require(not overlaps, f"segments at {overlaps} begin below the end of the last", of=name)
        first, last = segments[0].base_offset, segments[-1].next_offset
        require(
            first <= self._start <= self._end == last,
            f"it is {self._start} to {self._end}, and its segments are {first} to {last}",
            of=name,
        )
        require(
            self.recovery_point <= self._end,
            f"it ends at {self._end}, and {self.recovery_point} counts as durable",
            of=name,
        )
        require(
            all(begin <= self._end for _, begin in self.epochs.entries),
            f"it ends at {self._end}, and its epochs are {self.epochs.entries}",
            of=name,
        )

    def append(
        self,
        batches: Sequence[RecordBatch],
        base_offset: int,
        leader_epoch: int | None,
        now_ms: int,
    ) -> None:
        """Append batches, and flush if ``flush.messages`` requires it.

        Args:
            base_offset: of the first batch, when ``leader_epoch`` is given.
            leader_epoch: on a leader, the epoch that is written into the batches, with their
                offsets. On a follower None: the batches are stored as they came.
            now_ms: of a clock that only goes forward, for ``flush.ms``.

        Raises:
            OffsetsOutOfOrder: a batch would begin below the log's end. It and later batches were
                not appended.
            OSError: the disk is full or broken, with the same effect.
        """
        self.flushing.refuse_if_failed()
        begin = self._end
        try:
            for batch in batches:
                if leader_epoch is not None:
                    batch = stamped(batch, base_offset, leader_epoch)
                    base_offset = batch.next_offset
                self._append(batch)
        except OSError:
            self.flushing.fail()
            raise
        self.flushing.appended(now_ms)
        if self._end - self.flushing.recovery_point >= self.config.flush_messages:
            self.flush()  # at once, because the next answer says that it is durable
        self._probe.log_appended(self, begin, batches, now_ms)

    def start_epoch(self, epoch: int, offset: int) -> None:
        """Note that leader epoch ``epoch`` begins at ``offset``. It is durable with the next flush,
        and until then restored from its batches. An epoch without batches is not known after a
        start."""
        self.epochs.assign(epoch, offset)

    def read(
        self, offset: int, max_bytes: int, bound: int, at_least_one: bool = True
    ) -> bytes | memoryview:
        """Return whole batches of one segment, beginning with the one that holds ``offset``.

        Offsets below ``offset`` may come first, because batches are not split.

        Args:
            max_bytes: the size limit, except for ``at_least_one``.
            bound: the offset above the last one to return; no batch that holds it or a greater one.
            at_least_one: return a first batch even if it is above ``max_bytes``.

        Raises:
            OffsetOutOfRange: ``offset`` is not between the log's start and end.
            CorruptBatch: there is no intact batch at ``offset``.
        """
        if not self._start <= offset <= self._end:
            raise OffsetOutOfRange(
                f"{self._directory.name}: {offset} is not in {self._start} to {self._end}"
            )
        if offset >= bound:
            return b""
        for segment in self._segments_from(offset):
            data = segment.read(offset, max_bytes, bound, at_least_one)
            # No data before the segment's end means that a limit was reached. At its end, the next
            # segment follows.
            if data or segment.next_offset > offset:
                return data
        return b""

    def offset_for_timestamp(self, timestamp: int) -> tuple[Offset, int] | None:
        """Return the offset and timestamp of the first record as young as ``timestamp`` (ms), or
        None.

        As required by ListOffsets (KIP-79). The caller must limit it by the high watermark.

        Raises:
            CorruptBatch: the records found cannot be decoded.
        """
        for segment in self._segments:
            record = segment.offset_for_timestamp(timestamp, self._start)
            if record is not None:
                return Offset(record.offset), record.timestamp
        return None

    @last_if_it_fails
    def truncate_to(self, offset: int) -> None:
        """Truncate the log so that it ends at ``offset``. Nothing is removed if it ends there or
        below.

        Epochs that begin there are removed in any case: a leader that was followed by another
        before it appended anything has left one (as in Kafka's ``UnifiedLog.truncateTo``). The log
        ends lower if ``offset`` lies inside a batch, because batches are not split. Below the first
        segment this is ``truncate_fully``.
        """
        if offset >= self._end:
            self.epochs.truncate_from_end(offset)
            return
        if offset < self._segments[0].base_offset:
            self.truncate_fully(offset)
            return
        while self._segments[-1].base_offset > offset:
            self._segments.pop().delete()
        self._end_at(self._segments[-1].truncate_to(offset))
        self._start = min(self._start, self._end)
        self._load_producers()

    @last_if_it_fails
    def truncate_fully(self, offset: int) -> None:
        """Discard everything. The log then starts and ends at ``offset``."""
        self.producers.clear()
        while self._segments:
            self._segments.pop().delete()
        self._new_segment(offset)
        # Otherwise a power failure may leave no segment: a log at 0, which gives the same offsets
        # again.
        self._directory.sync()
        self._start = self._end = Offset(offset)
        self.flushing.start_over(offset)
        self.epochs.clear()
        self._probe.log_discarded(self)

    def advance_log_start(self, offset: int) -> None:
        """Delete the records below ``offset`` (DeleteRecords). The start never moves back.

        Their segments are removed by the next ``delete_old_segments``.

        Raises:
            OffsetOutOfRange: ``offset`` is above the log's end.
        """
        if offset > self._end:
            raise OffsetOutOfRange(f"{self._directory.name}: {offset} is above {self._end}")
        if offset > self._start:
            self._start = Offset(offset)
            self.epochs.truncate_from_start(offset)

    @last_if_it_fails
    def delete_old_segments(self, high_watermark: int, now_ms: int) -> None:
        """Apply ``retention.ms`` and ``retention.bytes``, and move the log's start: see
        :func:`broker.log.partition_log.count_deletable`. There is always an active segment."""
        count = count_deletable(
            self._segments,
            self.config,
            log_start=self._start,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        if count == 0:
            return
        if count == len(self._segments):
            self._roll(self._end)
            self._directory.sync()  # as in truncate_fully
        self.flushing.settle()
        if not self.producers.has_snapshot(self._segments[count].base_offset):
            # The segments' knowledge of producers is removed with them.
            self.flush()
            self.producers.snapshot(self._end)
        self.advance_log_start(self._segments[count].base_offset)
        old, self._segments = self._segments[:count], self._segments[count:]
        self.producers.forget_segments({segment.base_offset for segment in old})
        for segment in old:
            segment.delete()

    def maybe_roll(self, incoming: RecordBatch) -> None:
        """Begin a new segment if ``incoming`` must not go into the last one (``segment.bytes``,
        ``segment.ms``, ``segment.index.bytes``, or offsets too far apart for the index)."""
        active = self._segments[-1]
        aged = (
            active.first_timestamp >= 0
            and incoming.max_timestamp - active.first_timestamp > self.config.segment_ms
        )
        if aged or not active.has_room_for(
            incoming, self.config.segment_bytes, self.config.segment_index_bytes
        ):
            # It is named after the end of the previous segment: a gap between them would be a hole.
            end = active.next_offset
            reached = incoming.last_offset - end < REACH
            self._roll(end if reached else incoming.base_offset)

    def flush(self) -> None:
        """Fsync everything. ``recovery_point`` is then the log's end."""
        self.flushing.refuse_if_failed()
        carry_out(self.flushing.steps(self._end))

    def flush_if_due(self, now_ms: int) -> None:
        """Flush when a record has waited for ``flush.ms``, now or later."""
        self.flushing.flush_if_due(self._end, now_ms, self.config.flush_ms)

    def close(self, *, flush: bool = True) -> None:
        """Close the files. With ``flush``, everything is written so that the next start may be
        clean."""
        if flush:
            self._segments[-1].finish()
            self.flush()
            self.producers.snapshot(self._end)
        self.flushing.close()
        self._directory.abandon()
        while self._segments:
            self._segments.pop().close()

    def _append(self, batch: RecordBatch) -> None:
        if batch.base_offset < self._end:
            raise OffsetsOutOfOrder(
                f"{self._directory.name}: batch at {batch.base_offset}, but the log ends at "
                f"{self._end}"
            )
        self.maybe_roll(batch)
        self._notice(batch)
        self._segments[-1].append(batch)
        self.producers.state.note(batch)
        self._end = Offset(batch.next_offset)

    def _roll(self, base_offset: int) -> None:
        self._segments[-1].finish()
        self.flushing.roll(base_offset)
        if self._segments[-1].base_offset != base_offset:
            self._new_segment(base_offset)

    def _new_segment(self, base_offset: int) -> None:
        segment = Segment(self._directory, base_offset, self.config.index_interval_bytes)
        self._segments.append(segment)

    def _load_producers(self) -> None:
        self.producers.load(self.segment_base_offsets, self._end, self._batches_from)

    def _batches_from(self, offset: int) -> Iterator[RecordBatch]:
        for segment in self._segments_from(offset):
            yield from segment.batches_from(offset)

    def _end_at(self, offset: int) -> None:
        self._end = Offset(offset)
        self.flushing.cut_to(self._end)
        self.epochs.truncate_from_end(offset)

    def _segments_from(self, offset: int) -> Sequence[Segment]:
        return self._segments[self._number_of(offset) :]

    def _number_of(self, offset: int) -> int:
        """Return the number of the last segment that begins at or below ``offset``, or else 0."""
        if self._segments and offset >= self._segments[-1].base_offset:
            return len(self._segments) - 1
        return max(0, bisect_right(self._segments, offset, key=lambda one: one.base_offset) - 1)

    def _notice(self, batch: RecordBatch) -> None:
        if batch.leader_epoch >= 0:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)

    def _begin(self, log_start_offset: int) -> None:
        if not self._segments:
            self._new_segment(log_start_offset)
        first, last = self._segments[0], self._segments[-1]
        self._end = Offset(last.next_offset)
        self._start = Offset(max(first.base_offset, log_start_offset))
        if self._start > self._end:
            self.truncate_fully(self._start)
        # In this order, a log without visible records has no epoch, whatever lies below its start.
        self.epochs.truncate_from_start(self._start)
        self.epochs.truncate_from_end(self._end)
        self._load_producers()


# --- loading --------------------------------------------------------------------------------------
#
# Opening the segments of a partition's directory, after a clean or an unclean shutdown.


REACH = 2**30
"""A number of offsets. A segment spans twice as many, and a batch has fewer."""


def load_segments(
    directory: Directory,
    index_interval_bytes: int,
    recover_from: int | None,
    walking_from: Callable[[int], None],
    noticed: Callable[[RecordBatch], None],
) -> list[Segment]:
    """Return the segments of ``directory`` in order.

    After an unclean shutdown, no segment is kept after a hole. A hole is where a segment does not
    begin at the end of the previous one. It arises because a segment may be on disk before the
    previous one is flushed.

    Args:
        recover_from: segments that reach above this offset are read, and truncated at the first
            batch that is not intact. None after a clean shutdown, when indexes that fit are
            trusted.
        walking_from: called with the offset at which this reading begins, if it does. From there on
            everything is learned from the batches alone: an epoch that was removed since would not
            fit the records that replaced it.
        noticed: called with every batch above ``recover_from`` and those before it in its segment.
    """
    _remove_leftovers(directory)
    if recover_from is not None:
        # Files that were removed must stay removed. Suppose a truncation to 10 removed the
        # producers' snapshot of 20, and the broker was killed before it had synced that. Once the
        # log has grown past 20, a power failure would bring the snapshot back, and it would be
        # trusted for other records.
        directory.sync()
    bases = sorted(map(int, directory.stems(LOG_SUFFIX)))
    segments: list[Segment] = []
    walking = False
    try:
        for base_offset, next_base in zip_longest(bases, bases[1:]):
            if recover_from is not None and segments and _hole(segments[-1], base_offset):
                _drop(directory, [base for base in bases if base >= base_offset])
                break
            segment = Segment(directory, base_offset, index_interval_bytes)
            segments.append(segment)
            reaches_above = next_base is None or next_base > (recover_from or 0)
            recover = recover_from is not None and reaches_above
            if recover and not walking:
                walking = True
                walking_from(base_offset)
            if _cut(segment, recover, noticed, is_last=next_base is None):
                _drop(directory, [base for base in bases if base > base_offset])
                break
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    return segments


def _hole(segment: Segment, next_base: int) -> bool:
    """Return whether records are missing after ``segment``. A gap too wide for an index is no
    hole."""
    return segment.next_offset != next_base and next_base - segment.next_offset < REACH


def _cut(
    segment: Segment, recover: bool, noticed: Callable[[RecordBatch], None], *, is_last: bool
) -> bool:
    """Load or recover the segment. Return whether something had to be removed."""
    if not recover:
        try:
            segment.load(is_last=is_last)
            return False
        except (CorruptIndex, CorruptBatch) as error:
            logger.warning("%s: recovering: %s", segment.path, error)
    return segment.recover(noticed if recover else _ignore) > 0


def _ignore(_batch: RecordBatch) -> None:
    """Ignore a batch: damaged indexes of one segment say nothing new about later segments."""


def _drop(directory: Directory, bases: Sequence[int]) -> None:
    """Remove the segments after a truncation, which would leave a hole in the log."""
    for base_offset in reversed(bases):
        logger.warning("%s: dropping segment %d behind a cut", directory.path, base_offset)
        Segment(directory, base_offset, index_interval_bytes=0).delete()


def _remove_leftovers(directory: Directory) -> None:
    """Remove files left by a crash. One between the removals of a segment's files leaves indexes
    without a log. One before a file replaces another leaves a temporary file."""
    for stem in directory.stems(TEMPORARY_SUFFIX):
        directory.remove(stem + TEMPORARY_SUFFIX)
    logs = directory.stems(LOG_SUFFIX)
    for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        for stem in directory.stems(suffix):
            if stem not in logs:
                directory.remove(stem + suffix)


# --- retention ------------------------------------------------------------------------------------
#
# The segments that may be removed: ``retention.ms``, ``retention.bytes``, and deleted records.


def count_deletable(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """Return how many of the oldest segments to remove.

    A segment is removed when it is too old, when the later ones are enough, or when the log's start
    has moved past it. It stays until all of it is below the high watermark, and until the earlier
    ones are removed. Records without timestamp do not get too old. The last segment is removed only
    by age or size, and not when it is empty.
    """
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    for count, segment in enumerate(segments):
        is_last = count == len(segments) - 1
        end = segment.next_offset if is_last else segments[count + 1].base_offset
        excess -= segment.size
        too_much = config.retention_bytes >= 0 and excess >= 0
        below_start = end <= log_start and not is_last
        unwanted = too_much or below_start or _too_old(segment, config, now_ms)
        if not unwanted or end > high_watermark or (is_last and segment.size == 0):
            return count
    return len(segments)


def _too_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    age_known = config.retention_ms >= 0 and segment.max_timestamp >= 0
    return age_known and now_ms - segment.max_timestamp > config.retention_ms
