"""The durability of a log: what is flushed, and how the rest is flushed.

A full segment does not change any more, so it is flushed in the background. The snapshot of the
producers at its end is written after it. ``recovery_point`` moves when both epochs and segments are
on disk. Records above it are read again after a crash. One case may not wait; see ``roll``.
"""

import errno
from collections.abc import Callable, Generator, Sequence
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ackproof.broker.log.disk import Directory, FileSystem, Later, Steps, carry_out
from ackproof.broker.log.epochs import LeaderEpochCache
from ackproof.broker.log.producer_state import LogProducers
from ackproof.broker.log.segment import Segment
from ackproof.broker.types import Offset

Arguments = ParamSpec("Arguments")


class Flushing:
    """The flushes of one log.

    Attributes:
        recovery_point: everything below is durable.
        vouched_for: a checkpoint may say that everything below is durable, also after a truncation.
        failed: the disk has refused an operation, and its effect is unknown. A sync that fails may
            lose its data, and the next one succeed. Nothing counts as durable any more until the
            log has been opened again.
    """

    def __init__(
        self,
        directory: Directory,
        epochs: LeaderEpochCache,
        producers: LogProducers,
        segments_from: Callable[[int], Sequence[Segment]],
        later: Later,
    ) -> None:
        self.recovery_point = Offset(0)
        self.failed = False
        self._directory = directory
        self._epochs = epochs
        self._producers = producers
        self._segments_from = segments_from
        self._later = later
        self.vouched_for = 0
        self._named = False
        self._was_cut = False
        self._closed = False
        self._turn: object | None = None
        self._asked = False
        self._running = 0
        self._settling = False
        self._snapshots: dict[int, bytes] = {}
        self._since: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether a flush is requested or running, even if it was overtaken."""
        return self._asked or self._running > 0

    def fail(self) -> None:
        """Note that the disk has refused an operation. Running flushes do not count either."""
        self.failed = True
        self._turn = None

    def refuse_if_failed(self) -> None:
        """Raise OSError if the disk has refused an operation."""
        if self.failed:
            raise OSError(errno.EIO, "an earlier operation failed", str(self._directory.path))

    def begin(self, recovery_point: int, vouched_for: int, *, clean: bool) -> None:
        """Note what is durable when the log is opened, and what a checkpoint may say is. If not
        ``clean``, the log may have been truncated just before."""
        self._was_cut = not clean
        self.recovery_point = Offset(recovery_point)
        self.vouched_for = vouched_for

    def appended(self, now_ms: int) -> None:
        """Note that there are records to be flushed."""
        if self._since is None:
            self._since = now_ms

    def flush_if_due(self, end: int, now_ms: int, flush_ms: int) -> None:
        """Flush if a record has waited for ``flush_ms``, and no flush is running."""
        since = self._since
        if self._turn is None and since is not None and now_ms - since >= flush_ms:
            self._asked = True
            self._later(self.steps(end))

    def cut_to(self, end: int) -> None:
        """Note that the log now ends at ``end``. A running flush does not cover its later records.

        Suppose the log is flushed to 18, truncated to 10, and grows to 30. The flush was of other
        records than the ones now at 10 to 18.
        """
        self._turn = None
        self._was_cut = True
        self.recovery_point = Offset(min(self.recovery_point, end))
        self._snapshots = {at: held for at, held in self._snapshots.items() if at <= end}

    def start_over(self, at: int) -> None:
        """Note that the log is empty, and now starts and ends at ``at``.

        The producers of the discarded records must be forgotten, although their snapshots are below
        the end. Suppose the log is rolled at 2, discarded, and begins again at 100. A later start
        would find ``2.snapshot``. A producer may have written other records since, which are gone
        here. The log would reject its next batch.
        """
        self._snapshots.clear()
        self.cut_to(at)

    def roll(self, end: int) -> None:
        """Prepare a new segment: the last one is full and ends at ``end``.

        It is flushed later, unless the log was truncated below what a checkpoint may say is
        durable. Suppose the log is flushed and checkpointed to 30, truncated to 10, and grows to 50
        with other records. Of three new segments, a crash could leave the last two, with a hole
        before them. Because of the recovery point of 30 on disk, recovery would not look there.
        """
        self._snapshots[end] = self._producers.encoded()
        if self._is_below_a_checkpoint:
            carry_out(self._settle())
        elif not self._settling:
            self._settling = True
            self._later(self._settle_in_background())

    def settle(self) -> None:
        """Carry out the postponed flushes and snapshots now, if there are any."""
        if self._snapshots:
            carry_out(self._settle())

    def close(self) -> None:
        """Stop: running flushes are not continued, and postponed ones not begun."""
        self._closed = True
        self._turn = None
        self._snapshots.clear()

    def steps(self, end: int) -> Steps:
        """Make everything below ``end`` durable, where the log ends or its last segment begins.

        Another flush that begins meanwhile replaces this one.
        """
        self._asked = False
        if self._closed:
            return
        turn = self._turn = object()
        since = self._since
        # A batch of 40 to 45 may have begun a segment as the last batch. Flushed up to 40, it must
        # still wait for its flush, or it would wait for the disk for ever.
        if self._segments_from(end)[-1].next_offset <= end:
            self._since = None
        self._running += 1
        try:
            if (yield from self._sync(turn, end)):
                self.recovery_point = Offset(max(self.recovery_point, end))
                self.vouched_for = max(self.vouched_for, end)
                self._turn = None
                self._was_cut = False
            elif self.recovery_point < end and since is not None:
                self._since = since  # records that were appended after a truncation meanwhile
        except OSError:
            # This counts even if the flush was overtaken. A failed sync of 0 to 40 may also drop
            # what was appended after 40, and the next one would succeed.
            if not self._closed:  # otherwise the log may be gone
                self.fail()
                raise
        finally:
            self._running -= 1

    def _sync(self, turn: object, end: int) -> Generator[Callable[[], object], None, bool]:
        """Sync, and return whether everything is durable. It is not if this flush was overtaken.

        The epochs come first. Below the recovery point, recovery does not read the batches again. A
        crash in between leaves entries above the log's end, which opening removes.
        """
        yield from self._epochs.write_steps()
        if self._turn is not turn:
            return False
        # The segment that begins at the end is included: if emptied, it must be empty after a
        # crash. The segment that ends where this begins is included as well. Suppose the log is
        # flushed to 26, truncated to 24, and the next batch begins a segment. The records below 24
        # are on disk, and so are 24 to 26 in the previous segment.
        since = self.recovery_point - 1 if self._was_cut else self.recovery_point
        segments = [s for s in self._segments_from(since) if s.base_offset <= end]
        held = [descriptor for segment in segments for descriptor in segment.duplicates()]
        yield partial(_sync_and_close, self._directory.files, held)
        yield self._directory.sync
        if not self._named:
            # If the log was created and the broker killed and started again, the name of the
            # directory has not been synced yet.
            yield partial(self._directory.files.sync_directory, self._directory.path.parent)
            self._named = True
        return self._turn is turn

    def _settle_in_background(self) -> Steps:
        """Settle in the background. Only one of these runs, or they would overtake each other for
        ever."""
        try:
            yield from self._settle()
        finally:
            self._settling = False

    def _settle(self) -> Steps:
        while self._snapshots:
            if max(self._snapshots) > self.recovery_point or self._is_below_a_checkpoint:
                yield from self.steps(max(self._snapshots))
            yield from self._write_snapshots()

    @property
    def _is_below_a_checkpoint(self) -> bool:
        """Whether the log was truncated below a checkpoint, where recovery would not look after a
        crash."""
        return self.recovery_point < self.vouched_for

    def _write_snapshots(self) -> Steps:
        for offset, content in list(self._snapshots.items()):
            # While a snapshot is written, the log may be truncated or deleted. The next ones are
            # then void.
            if offset <= self.recovery_point and self._snapshots.get(offset) is content:
                yield from self._producers.snapshot_steps(offset, content)
                if self._snapshots.get(offset) is content:
                    del self._snapshots[offset]


class HasFlushing(Protocol):
    """A log with flushes."""

    flushing: Flushing


Log = TypeVar("Log", bound=HasFlushing)


def last_if_it_fails(
    change: Callable[Concatenate[Log, Arguments], None],
) -> Callable[Concatenate[Log, Arguments], None]:
    """Return the change such that, if the disk refuses it, the log accepts no further change."""

    @wraps(change)
    def guarded(log: Log, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        log.flushing.refuse_if_failed()
        try:
            change(log, *arguments, **named)
        except OSError:
            log.flushing.fail()
            raise

    return guarded


def _sync_and_close(files: FileSystem, descriptors: Sequence[int]) -> None:
    """Sync the duplicates and close them. With duplicates, a deleted segment cannot cause another
    file to be synced."""
    try:
        for descriptor in descriptors:
            files.sync(descriptor)
    finally:
        for descriptor in descriptors:
            files.close(descriptor)
