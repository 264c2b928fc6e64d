"""**ReopensAsItWas**: a log that was opened again just now would be what it is.

A broker may be killed, and its power fail, at any moment; in most of those that matter neither
happens: between the end of a segment and its sync lies one step of the loop. So both are tried on
a twin of the disk. What is found after a kill is all there was, to the last timestamp and producer,
of whom the batches may be deleted long ago. What a power failure leaves is a log without a hole,
which says of epochs, times and producers what its batches do, and has all that lies below the
recovery point. Of segments that nobody would walk then, nothing may be torn (FlushedIsSynced).
Nor does it matter that a bit of an index is turned over (IndexesAreHints).
And if that life was to end in order, no power failure would make it another log for the next one,
which believes what it finds.
"""

import contextlib
from collections.abc import Iterator
from contextvars import Context
from functools import partial
from random import Random
from typing import Final, NamedTuple

from ackproof.broker.log.disk.checkpoints import (
    LOG_STARTS,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    offsets_in,
)
from ackproof.broker.log.disk.steps import Later, carry_out
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import CorruptBatch
from simulation.machines.disk import MemoryDisk
from simulation.observer.logs import epochs, flushed, producers, times
from simulation.observer.logs.on_disk import read_shadow
from simulation.observer.twins import cut_meanwhile, turned_over
from simulation.observer.twins.cut_meanwhile import UnderWay
from simulation.violation import Violation

LITTLE_BYTES: Final = 20_000
FEW_SEGMENTS: Final = 12
CUT: Final = 0.3
"""How many of those that were killed go on, and are cut in the middle of a flush."""


def check(
    tp: TopicPartition, broker: int, disk: MemoryDisk, log: PartitionLog, random: Random
) -> None:
    """Of a log that lies on ``disk``, unless it takes long to read; raises Violation. ``random``:
    what a power failure takes."""
    if log.size > LITTLE_BYTES or len(log.segment_base_offsets) > FEW_SEGMENTS:
        return
    noted = _Noted.of(tp, disk, log)
    if log.flushing.failed or disk.has_dropped or noted.log_start > log.log_end_offset:
        return
    flushed.check(disk, log.directory.parent, {tp: noted.walked_from(log)})
    under_way: UnderWay = []
    with _said_of("killed now"):
        killed = disk.twin(log.directory, random)
        goes_on = _opened(killed, log, noted, under_way.append)
        _is_the_same(tp, log, goes_on)
    with _said_of("without power now"):
        torn = disk.twin(log.directory, random)
        torn.lose_power()
        found = _opened(torn, log, noted)
        _is_whole(tp, broker, log, found)
        _has_given_up(tp, found, noted.log_start)
        _is_over(tp, torn, found)
    with _said_of("closed in order now"):
        closed = disk.twin(log.directory, random)
        which = Random(f"{tp} {log.log_end_offset}")
        opened = partial(_opened, log=log, noted=noted, clean=True)
        turned_over.check(tp, closed, log.directory, opened, which)
    with _said_of("cut while it was flushed"):
        if random.random() < CUT:
            Context().run(cut_meanwhile.check, tp, broker, killed, goes_on, under_way, random)
        _is_over(tp, killed, goes_on)


class _Noted(NamedTuple):
    """What the checkpoints say of a log."""

    recovery_point: int
    log_start: int

    def walked_from(self, log: PartitionLog) -> int:
        """Segments that end there or below are not looked at after a power failure."""
        bases = (base for base in log.segment_base_offsets if base <= self.recovery_point)
        return max(bases, default=0)

    @classmethod
    def of(cls, tp: TopicPartition, disk: MemoryDisk, log: PartitionLog) -> "_Noted":
        return cls(*(_noted(tp, disk, log, name) for name in (RECOVERY_POINTS, LOG_STARTS)))


def _noted(tp: TopicPartition, disk: MemoryDisk, log: PartitionLog, name: str) -> int:
    path = log.directory.with_name(name)
    there = name in disk.names(path.parent)
    return offsets_in(disk.certain(path), path).get(tp, 0) if there else 0


@contextlib.contextmanager
def _said_of(what: str) -> Iterator[None]:
    try:
        yield
    except (CorruptCheckpoint, CorruptBatch, OSError) as error:
        raise Violation("ReopensAsItWas", f"{what}: {error}") from error
    except Violation as violation:
        raise Violation(violation.invariant, f"{what}: {violation.what}") from violation


def _opened(
    twin: MemoryDisk,
    log: PartitionLog,
    noted: _Noted,
    later: Later = carry_out,
    *,
    clean: bool = False,
) -> PartitionLog:
    """By nobody: no process of the world has opened it, or is looked at while it does."""
    return Context().run(
        PartitionLog.open,
        log.directory,
        log.config,
        clean=clean,
        recovery_point=noted.recovery_point,
        log_start_offset=noted.log_start,
        files=twin,
        later=later,
    )


def _has_given_up(tp: TopicPartition, found: PartitionLog, start: int) -> None:
    """What lay below where the log began: not even its offsets are given again."""
    if found.log_start_offset < start:
        what = f"it began at {start}, and begins at {found.log_start_offset} now"
        raise Violation("ReopensAsItWas", f"{tp}: {what}")


def _is_over(tp: TopicPartition, twin: MemoryDisk, log: PartitionLog) -> None:
    """It ends in order, the power fails, and it is opened once more."""
    noted, before = _Noted(log.log_end_offset, log.log_start_offset), _segments(log)
    Context().run(log.close)
    twin.lose_power()
    found = _opened(twin, log, noted, clean=True)
    after = _segments(found)
    if (after, found.epochs.entries) != (before, log.epochs.entries):
        what = f"closed in order, segments {before}, epochs {log.epochs.entries}"
        what = f"{what} are {after}, {found.epochs.entries}"
        raise Violation("ReopensAsItWas", f"{tp}: {what}")
    Context().run(found.close, flush=False)


def _is_the_same(tp: TopicPartition, log: PartitionLog, found: PartitionLog) -> None:
    if _segments(log) != _segments(found):
        what = f"segments {_segments(log)} are {_segments(found)}"
        raise Violation("ReopensAsItWas", f"{tp}: {what}")
    again = found.producers.state.producers
    for producer, known in log.producers.state.producers.items():
        if again.get(producer) != known:
            what = f"of producer {producer} is remembered {known}, and then {again.get(producer)}"
            raise Violation("ReopensAsItWas", f"{tp}: {what}")


def _segments(log: PartitionLog) -> list[tuple[int, ...]]:
    """Where each begins and ends, its bytes, and what its age and its records' go by."""
    return [
        (each.base_offset, each.next_offset, each.size, each.first_timestamp, each.max_timestamp)
        for each in log._segments
    ]


def _is_whole(tp: TopicPartition, broker: int, log: PartitionLog, found: PartitionLog) -> None:
    before, read = read_shadow(log), read_shadow(found)
    if before is None or read is None:
        return
    if (same := before.agrees_up_to(read)) < log.recovery_point:
        what = f"below {log.recovery_point} all is on disk, what is found is the same up to {same}"
        raise Violation("ReopensAsItWas", f"{tp}: {what}")
    epochs.found(tp, broker, found, read, deleted=log.log_start_offset)
    producers.check(tp, broker, found, read)
    times.check(tp, broker, found, read)
