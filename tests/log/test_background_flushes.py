"""Work that is postponed until a thread has synced it, with another event in between."""

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    Directory,
    Steps,
    carry_out,
    read_offsets,
)
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.types import ProducerId, TopicPartition
from simulation.machines.disk import SYNC, SimulatedDisk
from tests.support.builders.batches import NOW_MS, batch

TP, OTHER = TopicPartition("t", 0), TopicPartition("other", 0)
HOME = Path("/logs")
ONE_BATCH = LogConfig(segment_bytes=batch().size, retention_ms=-1)


class Later:
    """A collector of postponed work."""

    def __init__(self) -> None:
        self.tasks: list[Steps] = []

    def __call__(self, steps: Steps) -> None:
        self.tasks.append(steps)

    def carry_out(self) -> None:
        """Carry out all of it."""
        while self.tasks:
            carry_out(self.tasks.pop(0))


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk(Random(0))


@pytest.fixture
def later() -> Later:
    return Later()


def opened(disk: SimulatedDisk, later: Later, config: LogConfig = ONE_BATCH) -> LogManager:
    return LogManager([HOME], lambda _: config, files=disk, later=later)


def append(log: PartitionLog, count: int, producer: int = -1) -> None:
    for sequence in range(count):
        sent = batch(producer=(producer, 0, sequence)) if producer >= 0 else batch()
        log.append([sent], log.log_end_offset, 0, NOW_MS)


def carry_on(steps: Steps, work: Callable[[], object] | None) -> None:
    """Do the same as ``carry_out``, from ``work`` on, which a thread has begun."""
    while work is not None:
        try:
            work()
        except OSError as error:
            try:
                work = steps.throw(error)
            except StopIteration:
                return
        else:
            work = next(steps, None)


def forbid_syncs(kind: str) -> None:
    assert "sync" not in kind, "on the event loop"


def test_appends_checkpoints_and_creations_wait_for_no_sync(
    disk: SimulatedDisk, later: Later
) -> None:
    logs = opened(disk, later)
    disk.watch = forbid_syncs
    log = logs.create(TP)
    append(log, 5)
    logs.checkpoint_high_watermarks({TP: 3})
    logs.checkpoint_recovery_points()
    logs.checkpoint_log_starts()
    logs.flush_if_due(NOW_MS + 10**12)
    assert log.recovery_point == 0
    disk.watch = None
    later.carry_out()
    assert log.recovery_point == 4, "the last segment is not flushed yet"
    assert read_offsets(Directory(HOME, disk), HIGH_WATERMARKS) == {TP: 3}


def test_last_of_many_checkpoints_at_once_is_written(disk: SimulatedDisk, later: Later) -> None:
    logs = opened(disk, later)
    append(logs.create(TP), 5)
    later.carry_out()
    logs.checkpoint_high_watermarks({TP: 1})
    (steps,) = later.tasks
    next(steps)()
    for high_watermark in (2, 3):
        logs.checkpoint_high_watermarks({TP: high_watermark})
    assert later.tasks == [steps]
    later.carry_out()
    assert read_offsets(Directory(HOME, disk), HIGH_WATERMARKS) == {TP: 3}


def test_pending_checkpoint_does_not_restore_a_deleted_log(
    disk: SimulatedDisk, later: Later
) -> None:
    """Test a log start of 100 that outlives its log: after a crash it would be the next log's of
    that name."""
    logs = opened(disk, later)
    append(logs.create(TP), 5)
    logs.create(OTHER)
    logs.logs[TP].advance_log_start(4)
    later.carry_out()
    logs.checkpoint_log_starts()
    logs.checkpoint_log_starts()
    for steps in later.tasks:
        next(steps)()
    logs.delete(TP)
    assert read_offsets(Directory(HOME, disk), LOG_STARTS) == {OTHER: 0}
    later.carry_out()
    assert read_offsets(Directory(HOME, disk), LOG_STARTS) == {OTHER: 0}
    assert not disk.is_directory(HOME / "t-0")


def test_deletion_ends_with_a_durable_checkpoint_without_the_log(
    disk: SimulatedDisk, later: Later
) -> None:
    logs = opened(disk, later)
    append(logs.create(TP), 5)
    logs.logs[TP].advance_log_start(4)
    logs.checkpoint_log_starts()
    later.carry_out()
    deletion = logs.delete_steps([TP])
    works = 0
    for work in deletion:
        work()
        works += 1
        if works == 4:  # its log starts are being synced, and another thread writes them
            logs.checkpoint_log_starts()
            next(later.tasks[-1])
    assert works >= 4
    disk.lose_power()
    assert read_offsets(Directory(HOME, disk), LOG_STARTS) == {}


def test_interrupted_deletion_leaves_nothing_to_the_next_log(
    disk: SimulatedDisk, later: Later
) -> None:
    """Test that the checkpoints of a deleted log are no longer written. Those of the next process
    are not written either, since the disk is full."""
    logs = opened(disk, later)
    append(logs.create(TP), 5)
    logs.logs[TP].advance_log_start(4)
    logs.checkpoint_log_starts()
    logs.checkpoint_recovery_points()
    logs.checkpoint_high_watermarks({TP: 5})
    later.carry_out()
    next(logs.delete_steps([TP]))
    logs.close(clean=False)

    logs = opened(disk, later)
    log = logs.create(TP)
    append(log, 2)
    logs.close(clean=False)

    logs = opened(disk, later)
    log = logs.logs[TP]
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 2, 0)
    assert logs.high_watermark(TP) == 0


def test_concurrent_deletions_share_their_syncs(disk: SimulatedDisk, later: Later) -> None:
    logs = opened(disk, later)
    partitions = [TopicPartition("t", number) for number in range(10)]
    for tp in partitions:
        logs.create(tp)
    syncs: list[str] = []
    disk.watch = lambda kind: syncs.append(kind) if "sync" in kind else None
    carry_out(logs.delete_steps(partitions))
    assert len(syncs) == 7
    assert not logs.logs


def test_background_work_of_an_ended_manager_is_abandoned(
    disk: SimulatedDisk, later: Later
) -> None:
    logs = opened(disk, later)
    append(logs.create(TP), 3)
    logs.checkpoint_high_watermarks({TP: 1})
    tasks, later.tasks = later.tasks, []
    for steps in tasks:
        next(steps)()
    logs.close(clean=False)
    again = opened(disk, later)
    again.checkpoint_high_watermarks({TP: 2})
    (checkpoint,) = later.tasks
    next(checkpoint)
    before = disk.names(HOME / "t-0")
    for steps in tasks:
        carry_out(steps)
    assert disk.names(HOME / "t-0") == before
    assert HIGH_WATERMARKS not in disk.names(HOME), "another's temporary file was taken"


@pytest.mark.parametrize("parts", range(8))
def test_flush_of_truncated_records_does_not_advance_the_recovery_point(
    disk: SimulatedDisk, later: Later, parts: int
) -> None:
    log = opened(disk, later).create(TP)
    append(log, 6)
    (steps,) = later.tasks
    for _, work in zip(range(parts), steps, strict=False):
        work()
    log.truncate_to(2)
    append(log, 1)
    assert log.recovery_point <= 2
    for work in steps:
        assert log.recovery_point <= 2
        work()
    assert log.recovery_point <= 3


def settling(disk: SimulatedDisk, later: Later, parts: int) -> tuple[PartitionLog, Steps]:
    """Return a log of six batches of producer 7 whose full segments are flushed, after ``parts``
    parts of that, and the remaining parts."""
    log = opened(disk, later).create(TP)
    append(log, 6, producer=7)
    (steps,) = later.tasks
    for _, work in zip(range(parts), steps, strict=False):
        work()
    return log, steps


@pytest.mark.parametrize("parts", range(16))
def test_snapshot_of_truncated_records_is_not_written(
    disk: SimulatedDisk, later: Later, parts: int
) -> None:
    """Test a snapshot that after a crash would answer a producer with offsets of other records."""
    log, steps = settling(disk, later, parts)
    log.truncate_to(1)
    for work in steps:
        work()
    snapshots = [name for name in disk.names(HOME / "t-0") if name.endswith(".snapshot")]
    assert all(int(Path(name).stem) <= 1 for name in snapshots)


@pytest.mark.parametrize("parts", range(16))
def test_snapshot_of_a_restarted_log_is_not_written(
    disk: SimulatedDisk, later: Later, parts: int
) -> None:
    """Test a snapshot that after a crash would reject a producer that has written elsewhere
    since."""
    log, steps = settling(disk, later, parts)
    work = next(steps, None)
    log.truncate_fully(100)
    append(log, 1, producer=8)
    carry_on(steps, work)
    log.flush()
    disk.kill()
    assert set(opened(disk, later).logs[TP].producers.state.producers) == {8}


@pytest.mark.parametrize("parts", range(24))
def test_deletion_waits_for_background_work(disk: SimulatedDisk, later: Later, parts: int) -> None:
    """Test that background work never misses its directory, which the broker would take for a disk
    error."""
    logs = opened(disk, later)
    append(logs.create(TP), 6, producer=7)
    (steps,) = later.tasks
    for _, work in zip(range(parts), steps, strict=False):
        work()
    work = next(steps, None)
    logs.delete(TP)
    carry_on(steps, work)


def test_postponed_flush_of_a_deleted_log_does_not_begin(disk: SimulatedDisk, later: Later) -> None:
    logs = opened(disk, later, LogConfig(flush_ms=500))
    append(logs.create(TP), 2)
    logs.flush_if_due(NOW_MS + 500)
    assert later.tasks
    logs.delete(TP)
    later.carry_out()


def test_retention_keeps_producers_without_a_snapshot(disk: SimulatedDisk, later: Later) -> None:
    append(opened(disk, later).create(TP), 3, producer=7)
    disk.kill()
    later.tasks.clear()
    log = opened(disk, later).logs[TP]
    append(log, 3, producer=8)
    log.advance_log_start(5)
    log.delete_old_segments(6, NOW_MS)
    disk.kill()
    known = opened(disk, later).logs[TP].producers.state.producers
    assert known[ProducerId(7)].last.last_sequence == 2
    assert known[ProducerId(8)].last.last_sequence == 2


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_log_ends_before_a_lost_segment(disk: SimulatedDisk, later: Later, lost: int) -> None:
    """Test segments 1 to 4 whose names were not synced, and of which a file system without a
    journal lost one. The offsets are missing in the middle of a log that claims to have them."""
    append(opened(disk, later).create(TP), 5)
    disk.kill()
    disk.remove(HOME / "t-0" / f"{lost:020d}.log")
    log = opened(disk, later).logs[TP]
    assert (log.log_start_offset, log.log_end_offset) == (0, lost)


def test_log_truncated_below_the_recovery_point_flushes_full_segments_at_once(
    disk: SimulatedDisk, later: Later
) -> None:
    log = opened(disk, later).create(TP)
    append(log, 6)
    later.carry_out()
    assert log.recovery_point == 5
    log.truncate_to(1)
    append(log, 3)
    assert log.recovery_point == 3, "a checkpoint may still say 5"
    append(log, 4)
    assert log.recovery_point == 5, "from there on it may wait again"
    assert later.tasks


@pytest.mark.parametrize("looked_at", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_truncation_before_a_segment_began_persists(
    later: Later, seed: int, *, looked_at: bool
) -> None:
    """Test two batches that fill a segment and are flushed. The second one is truncated, and the
    next one is too large for that segment. With its own segment flushed, the truncated batch would
    overlap it."""
    disk = SimulatedDisk(Random(seed))
    log = opened(disk, later, LogConfig(segment_bytes=2 * batch().size)).create(TP)
    append(log, 2)
    log.flush()
    log.truncate_to(1)
    log.append([batch(values=(b"v" * 200,))], 1, 1, NOW_MS)
    assert log.segment_base_offsets == (0, 1)
    if not looked_at:
        log.flush()
    disk.lose_power()
    found = PartitionLog.open(HOME / "t-0", ONE_BATCH, clean=False, recovery_point=2, files=disk)
    assert found.segment_base_offsets[: 2 - looked_at] == (0, 1)[: 2 - looked_at]
    assert found._segments[0].next_offset == 1


def test_flush_ms_is_kept_in_the_background(disk: SimulatedDisk, later: Later) -> None:
    log = opened(disk, later, LogConfig(flush_ms=500)).create(TP)
    append(log, 2)
    log.flush_if_due(NOW_MS + 500)
    (steps,) = later.tasks
    next(steps)
    log.append([batch()], 2, 0, NOW_MS + 600)
    log.flush_if_due(NOW_MS + 10_000)
    assert later.tasks == [steps], "one at a time"
    later.carry_out()
    assert log.recovery_point == 2
    log.flush_if_due(NOW_MS + 1_099)
    assert not later.tasks
    log.flush_if_due(NOW_MS + 1_100)
    later.carry_out()
    assert log.recovery_point == 3


def test_segment_after_a_full_one_is_flushed_in_time(disk: SimulatedDisk, later: Later) -> None:
    config = LogConfig(segment_bytes=batch().size, flush_ms=500)
    log = opened(disk, later, config).create(TP)
    append(log, 2)
    later.carry_out()
    assert log.recovery_point == 1, "the second segment is not full"
    log.flush_if_due(NOW_MS + 500)
    later.carry_out()
    assert log.recovery_point == 2


def test_remaining_records_after_a_truncation_keep_their_flush_deadline(
    disk: SimulatedDisk, later: Later
) -> None:
    log = opened(disk, later, LogConfig(flush_ms=500)).create(TP)
    append(log, 2)
    log.flush_if_due(NOW_MS + 500)
    (steps,) = later.tasks
    work = next(steps)
    log.truncate_to(1)
    log.append([batch()], 1, 0, NOW_MS + 600)
    later.tasks.clear()
    carry_on(steps, work)
    log.flush_if_due(NOW_MS + 600)
    later.carry_out()
    assert log.recovery_point == 2


@pytest.mark.parametrize("parts", range(4))
def test_failed_sync_is_reported_after_a_faster_flush(
    disk: SimulatedDisk, later: Later, parts: int
) -> None:
    """Test a failed sync, which may have dropped later bytes although the next sync succeeds."""
    log = opened(disk, later, LogConfig(flush_ms=500)).create(TP)
    append(log, 2)
    log.flush_if_due(NOW_MS + 500)
    (steps,) = later.tasks
    for _, work in zip(range(parts), steps, strict=False):
        work()
    work = next(steps)
    log.flush()
    append(log, 1)
    disk.fail([SYNC, "sync_directory"])
    with pytest.raises(OSError, match="Input/output error"):
        carry_on(steps, work)
    disk.fail([])
    with pytest.raises(OSError, match="an earlier operation failed"):
        log.flush()


def test_failed_background_sync_is_reported_and_stops_appends(
    disk: SimulatedDisk, later: Later
) -> None:
    log = opened(disk, later).create(TP)
    append(log, 3)
    disk.fail([SYNC])
    with pytest.raises(OSError, match="Input/output error"):
        later.carry_out()
    disk.fail([])
    changes: tuple[Callable[[], object], ...] = (
        lambda: append(log, 1),
        log.flush,
        lambda: log.truncate_to(1),
        lambda: log.truncate_fully(1),
        lambda: log.delete_old_segments(3, NOW_MS),
        log.close,
    )
    for change in changes:
        with pytest.raises(OSError, match="an earlier operation failed") as caught:
            change()
        assert caught.value.errno == errno.EIO
    assert log.recovery_point == 0
