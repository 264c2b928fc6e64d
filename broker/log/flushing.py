"""What of a log is durable, and how the rest gets there: everything that waits for an fsync.

A full segment does not change any more, so it is flushed in the background, and the producers'
snapshot that belongs to its end written behind it: ``recovery_point`` moves when both epochs and
segments are on disk, and what is above it is walked after a crash. One thing may not wait, see
``roll``.
"""

import errno
from collections.abc import Callable, Generator, Sequence
from functools import partial, wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from ackproof.broker.log.disk.file_system import FileSystem
from ackproof.broker.log.disk.files import Directory, Later, Steps, carry_out
from ackproof.broker.log.epochs import LeaderEpochCache
from ackproof.broker.log.producer_state import LogProducers
from ackproof.broker.log.segment import Segment
from ackproof.broker.types import Offset

Arguments = ParamSpec("Arguments")


class Flushing:
    """The flushes of one log.

    Attributes:
        recovery_point: everything below is durable.
        vouched_for: below this a checkpoint may say that everything is, also after a cut.
        failed: the disk has refused to do something. What it had done by then is not known: a
            sync that fails may lose what it was to keep, and the next one succeed. So nothing is
            vouched for any more until the log has been opened again.
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
        """Whether a flush is asked for or under way, also one that was overtaken."""
        return self._asked or self._running > 0

    def fail(self) -> None:
        """The disk has refused something; what is under way is not vouched for either."""
        self.failed = True
        self._turn = None

    def refuse_if_failed(self) -> None:
        """Raises OSError if the disk has refused something."""
        if self.failed:
            raise OSError(errno.EIO, "an earlier operation failed", str(self._directory.path))

    def begin(self, recovery_point: int, vouched_for: int, *, clean: bool) -> None:
        """The log was opened: what is durable of it, and what a checkpoint may say is. If not
        ``clean``, it may have been cut just before."""
        self._was_cut = not clean
        self.recovery_point = Offset(recovery_point)
        self.vouched_for = vouched_for

    def appended(self, now_ms: int) -> None:
        """There is something to be flushed."""
        if self._since is None:
            self._since = now_ms

    def flush_if_due(self, end: int, now_ms: int, flush_ms: int) -> None:
        """Flushes if a record has waited for so long, and nobody flushes it just now."""
        since = self._since
        if self._turn is None and since is not None and now_ms - since >= flush_ms:
            self._asked = True
            self._later(self.steps(end))

    def cut_to(self, end: int) -> None:
        """The log ends there now; what is being flushed is not what will be there.

        Flushed to 18, cut to 10, grown to 30: that 10 to 18 were on disk was said of others.
        """
        self._turn = None
        self._was_cut = True
        self.recovery_point = Offset(min(self.recovery_point, end))
        self._snapshots = {at: held for at, held in self._snapshots.items() if at <= end}

    def begin_anew(self, at: int) -> None:
        """Nothing is left of the log, which starts and ends there now.

        Who wrote below it is nobody's business any more, though the offset is below the end: rolled
        at 2, thrown away, begun at 100. A later start would find ``2.snapshot``, and refuse the
        next batch of a producer that has written other records, which are gone here, since.
        """
        self._snapshots.clear()
        self.cut_to(at)

    def roll(self, end: int) -> None:
        """The last segment is full and ends at ``end``; another one is about to begin.

        It is flushed later, unless the log was cut below what a checkpoint may say is durable.
        Flushed and checkpointed to 30, cut to 10, grown to 50 with other records: of three new
        segments a crash could leave the last two, with a hole before them, and the recovery point
        of 30 on disk would keep anyone from looking there.
        """
        self._snapshots[end] = self._producers.encoded()
        if self._is_below_a_checkpoint:
            carry_out(self._settle())
        elif not self._settling:
            self._settling = True
            self._later(self._settle_in_background())

    def settle(self) -> None:
        """What was put off is done now, if there is anything."""
        if self._snapshots:
            carry_out(self._settle())

    def close(self) -> None:
        """What is still under way is not carried on, and what was put off not begun."""
        self._closed = True
        self._turn = None
        self._snapshots.clear()

    def steps(self, end: int) -> Steps:
        """Makes everything below ``end`` durable, where the log ends or its last segment begins.

        Another flush that begins meanwhile takes its place.
        """
        self._asked = False
        if self._closed:
            return
        turn = self._turn = object()
        since = self._since
        # A batch of 40 to 45 began a segment, and nothing comes after it: flushed up to 40, it
        # would wait for the disk for ever.
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
                self._since = since  # whatever has come behind a cut meanwhile
        except OSError:
            # Overtaken or not: a sync of 0 to 40 that fails may drop what has come behind 40, too,
            # and the next one would be content.
            if not self._closed:  # else the log may be gone
                self.fail()
                raise
        finally:
            self._running -= 1

    def _sync(self, turn: object, end: int) -> Generator[Callable[[], object], None, bool]:
        """Whether everything is durable; not if it was overtaken.

        The epochs come first: below the recovery point nobody looks at the batches again, and a
        crash in between leaves entries above the log's end, which opening cuts off.
        """
        yield from self._epochs.write_steps()
        if self._turn is not turn:
            return False
        # The one that begins at the end as well: emptied, it is to be empty after a crash. So too
        # the one that ends where this begins. Flushed to 26, cut to 24, and the next batch begins a
        # segment: what lies below 24 is on disk, and so are 24 to 26 in the segment before.
        since = self.recovery_point - 1 if self._was_cut else self.recovery_point
        segments = [s for s in self._segments_from(since) if s.base_offset <= end]
        held = [descriptor for segment in segments for descriptor in segment.duplicates()]
        yield partial(_sync_and_close, self._directory.files, held)
        yield self._directory.sync
        if not self._named:
            # Made, killed, started again: nobody has synced the name of the directory yet.
            yield partial(self._directory.files.sync_directory, self._directory.path.parent)
            self._named = True
        return self._turn is turn

    def _settle_in_background(self) -> Steps:
        """There is one of these, or they would overtake each other for ever."""
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
        """The log was cut there, and nobody would look at what a crash leaves of it."""
        return self.recovery_point < self.vouched_for

    def _write_snapshots(self) -> Steps:
        for offset, content in list(self._snapshots.items()):
            # While one is written the log may be cut, or deleted: then the next ones are nobody's.
            if offset <= self.recovery_point and self._snapshots.get(offset) is content:
                yield from self._producers.snapshot_steps(offset, content)
                if self._snapshots.get(offset) is content:
                    del self._snapshots[offset]


class HasFlushing(Protocol):
    """A log."""

    flushing: Flushing


Log = TypeVar("Log", bound=HasFlushing)


def last_if_it_fails(
    change: Callable[Concatenate[Log, Arguments], None],
) -> Callable[Concatenate[Log, Arguments], None]:
    """A change of a log that the disk refuses is the last one."""

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
    """Duplicates, so that a segment deleted meanwhile does not have another file synced."""
    try:
        for descriptor in descriptors:
            files.sync(descriptor)
    finally:
        for descriptor in descriptors:
            files.close(descriptor)
