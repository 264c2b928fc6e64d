"""The invariants of logs and checkpoints on a disk: each is broken once and kept once."""

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Directory,
    Steps,
    carry_out,
    write_offsets,
)
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.types import Offset, TopicPartition
from simulation.machines.disk import SimulatedDisk
from simulation.model import storage
from simulation.model.log import read_log
from simulation.model.storage import FlushTracker
from tests.support.builders.batches import batch
from tests.support.fakes.log_disk import LOGS
from tests.support.oracles.violations import violates

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
SMALL = LogConfig(segment_bytes=200)


@pytest.fixture
def log(disk: SimulatedDisk) -> PartitionLog:
    """Return a log of six unflushed records in three epochs and several segments."""
    opened = PartitionLog.open(LOGS / "t-0", SMALL, clean=True, files=disk, later=lambda _: None)
    for offset in range(6):
        opened.append([batch((b"v" * 50,))], offset, offset // 2, 0)
    return opened


# --- Log/records-lost-on-disk ---------------------------------------------------------------------


def test_log_with_a_damaged_batch_is_a_violation(log: PartitionLog, disk: SimulatedDisk) -> None:
    descriptor = disk.open(log.directory / "00000000000000000000.log")
    content = disk.pread(descriptor, disk.size(descriptor), 0)
    disk.truncate(descriptor, 0)
    disk.write(descriptor, content[:-1] + b"w")
    with violates(r"Log/records-lost-on-disk: t-0: .* CRC-32C of the batch"):
        read_log(log)


def test_log_without_its_end_is_a_violation(log: PartitionLog) -> None:
    log._end = Offset(9)
    with violates(r"Log/records-lost-on-disk: t-0: nothing can be read at offset 6 of 9"):
        read_log(log)


def test_log_with_a_missing_batch_is_a_violation(log: PartitionLog) -> None:
    del log._segments[1]
    with violates(r"Log/records-lost-on-disk: t-0: nothing is there from offset . to . of 6"):
        read_log(log)


# --- Log/new-start-unsynced -----------------------------------------------------------------------


def test_unsynced_start_of_an_empty_log_is_a_violation(
    log: PartitionLog, disk: SimulatedDisk
) -> None:
    log.truncate_fully(40)
    storage.check_restarted_log(disk, log)
    disk.remove(log.directory / f"{40:020d}.log")
    disk.open(log.directory / f"{40:020d}.log")
    with violates(r"Log/new-start-unsynced: t-0 was restarted at 40, .* no 0+40\.log"):
        storage.check_restarted_log(disk, log)


# --- Log/new-log-knows-former-topic ---------------------------------------------------------------


@pytest.fixture
def logs(disk: SimulatedDisk) -> LogManager:
    """Return a manager of one log with six records."""
    manager = LogManager([LOGS], lambda _: SMALL, files=disk)
    manager.create(TP).append([batch((b"v",) * 6)], 0, 0, 0)
    return manager


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS])
def test_new_log_in_a_checkpoint_is_a_violation(
    disk: SimulatedDisk, logs: LogManager, name: str
) -> None:
    noted, other = Directory(LOGS, disk), TopicPartition("other", 0)
    made = logs.create(other)
    for tp in (TP, other):
        storage.check_new_log(disk, logs, other, made)
        write_offsets(noted, name, {tp: 7})
    with violates(rf"Log/new-log-knows-former-topic: other-0 .* {name} is 7"):
        storage.check_new_log(disk, logs, other, made)


def test_new_log_with_former_state_is_a_violation(disk: SimulatedDisk, logs: LogManager) -> None:
    other = TopicPartition("other", 0)
    made = logs.create(other)
    storage.check_new_log(disk, logs, other, made)
    made.start_epoch(3, 0)
    with violates(r"Log/new-log-knows-former-topic: other-0 .* its epochs is 1"):
        storage.check_new_log(disk, logs, other, made)
    with violates(r"Log/new-log-knows-former-topic: t-0 .* its log end is 6"):
        storage.check_new_log(disk, logs, TP, logs.create(TP))


# --- Log/epochs-differ-from-batches ---------------------------------------------------------------


def look(log: PartitionLog, *, deleted: int = 0) -> None:
    storage.check_epochs("t-0", log, read_log(log), deleted=deleted)


def test_epochs_that_match_the_batches_are_allowed(log: PartitionLog) -> None:
    look(log)
    log.truncate_to(3)
    look(log)
    log.start_epoch(7, 3)  # a leader that has appended nothing yet
    look(log)
    log.advance_log_start(1)
    look(log)


@pytest.mark.parametrize("spoil", [lambda e: e.clear(), lambda e: e.truncate_from_end(2)])
def test_missing_epoch_is_a_violation(log: PartitionLog, spoil: Any) -> None:
    spoil(log.epochs)
    with violates("Log/epochs-differ-from-batches"):
        look(log)


def test_deleted_record_that_is_back_may_have_no_epoch(log: PartitionLog) -> None:
    log.epochs.truncate_from_start(3)  # the checkpoint of log starts was not written in time
    look(log, deleted=3)
    with violates("Log/epochs-differ-from-batches"):
        look(log, deleted=2)


def test_replica_with_other_epochs_than_its_log_is_a_violation(log: PartitionLog) -> None:
    replica: Any = SimpleNamespace(epochs=log.epochs.entries)
    storage.check_replica_epochs("t-0", log, replica)
    log.epochs.truncate_from_end(4)
    with violates("Log/epochs-differ-from-batches"):
        storage.check_replica_epochs("t-0", log, replica)


def test_recovery_point_before_the_sync_of_epochs_is_a_violation(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    storage.check_recovery_point(disk, log, 0, 0)
    log.flush()
    storage.check_recovery_point(disk, log, 6, 0)
    log.advance_log_start(3)
    log.append([batch((b"v" * 50,))], 6, 3, 0)
    log.flush()
    storage.check_recovery_point(disk, log, 7, 0)
    log.append([batch((b"v" * 50,))], 7, 4, 0)
    log.epochs._written = log.epochs.history
    log.flush()
    storage.check_recovery_point(disk, log, 7, 0)
    with violates(r"Log/epochs-differ-from-batches: .*below 8 .* offset 7 is of epoch 3"):
        storage.check_recovery_point(disk, log, 8, 0)


def test_deleted_record_that_is_back_needs_no_synced_epoch(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    """The former process deleted it, and died before it noted the new log start."""
    log.epochs.truncate_from_start(3)
    log.flush()
    storage.check_recovery_point(disk, log, 6, 3)
    with violates(r"Log/epochs-differ-from-batches: .*below 6 .* of epoch None"):
        storage.check_recovery_point(disk, log, 6, 2)


# --- Log/timestamp-of-no-batch --------------------------------------------------------------------


def look_for_times(log: PartitionLog) -> None:
    storage.check_timestamps("t-0", log, read_log(log))


def test_greatest_timestamp_without_a_batch_is_a_violation(log: PartitionLog) -> None:
    look_for_times(log)
    log.append([batch((b"v",), timestamps=(2 * 10**12,))], 6, 2, 0)
    look_for_times(log)
    log.truncate_to(6)
    look_for_times(log)
    log._segments[-1].max_timestamp = 2 * 10**12
    with violates(r"Log/timestamp-of-no-batch: .* said to be 2000000000000 ms"):
        look_for_times(log)
    log.truncate_fully(20)
    look_for_times(log)


def test_deleted_batch_in_the_first_segment_still_counts(log: PartitionLog) -> None:
    log._segments[0].max_timestamp = 2 * 10**12
    log.advance_log_start(1)
    look_for_times(log)


# --- Log/recovery-point-unsynced ------------------------------------------------------------------


def note(disk: SimulatedDisk, log: PartitionLog, offset: int) -> None:
    log.flushing.vouched_for = max(log.flushing.vouched_for, offset)
    storage.check_recovery_point(disk, log, offset, 0)


def test_recovery_point_at_a_synced_offset_is_allowed(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    note(disk, log, 0)
    log.flush()
    for offset in range(7):
        note(disk, log, offset)


def test_recovery_point_before_the_sync_is_a_violation(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    for offset in range(1, 7):
        with violates("Log/recovery-point-unsynced"):
            note(disk, log, offset)
    log.flush()
    log.append([batch((b"v",))], 6, 2, 0)
    note(disk, log, 6)
    with violates(r"everything below 7 .* below 6"):
        note(disk, log, 7)


def test_recovery_point_after_an_unsynced_truncation_is_a_violation(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    log.flush()
    log.truncate_to(3)
    note(disk, log, 3)
    log.append([batch((b"v" * 50,))], 3, 5, 0)
    note(disk, log, 3)
    with violates("Log/recovery-point-unsynced"):
        note(disk, log, 4)


def test_recovery_point_unknown_to_the_log_is_a_violation(
    disk: SimulatedDisk, log: PartitionLog
) -> None:
    log.flush()
    storage.check_recovery_point(disk, log, 6, 0)
    log.flushing.vouched_for = 5
    storage.check_recovery_point(disk, log, 5, 0)
    with violates(r"Log/recovery-point-unsynced: t-0: .* below 6 .* only of 5"):
        storage.check_recovery_point(disk, log, 6, 0)


def test_deleted_log_is_not_judged(disk: SimulatedDisk, log: PartitionLog) -> None:
    disk.remove_tree(log.directory)
    note(disk, log, 5)


# --- Log/flush-overdue ----------------------------------------------------------------------------


@pytest.fixture
def later() -> list[Steps]:
    """Return the list of postponed work."""
    return []


@pytest.fixture
def tracker() -> FlushTracker:
    return FlushTracker()


@pytest.fixture
def flushed(later: list[Steps]) -> PartitionLog:
    """Return an empty log with ``flush.ms=500``."""
    disk, config = SimulatedDisk(Random(1)), LogConfig(flush_ms=500)
    disk.make_directory(Path("/logs"))
    path = Path("/logs/t-0")
    return PartitionLog.open(path, config, clean=True, files=disk, later=later.append)


def append(tracker: FlushTracker, flushed: PartitionLog, now_ms: int) -> None:
    begin = flushed.log_end_offset
    flushed.append([batch()], begin, 0, now_ms)
    tracker.appended(flushed, begin, now_ms)


def tick(tracker: FlushTracker, flushed: PartitionLog, now_ms: int) -> None:
    flushed.flush_if_due(now_ms)
    tracker.started(flushed, now_ms)


def test_more_unflushed_records_than_flush_messages_are_a_violation(
    tracker: FlushTracker, flushed: PartitionLog
) -> None:
    flushed.config = LogConfig(flush_messages=2)
    for _ in range(5):
        append(tracker, flushed, 0)
    assert flushed.recovery_point == 4
    flushed.config = LogConfig()
    append(tracker, flushed, 0)
    flushed.config = LogConfig(flush_messages=2)
    with violates("Log/flush-overdue: t-0: .*2 records wait for the disk, flush.messages is 2"):
        tracker.appended(flushed, 5, 0)


def test_record_unflushed_beyond_flush_ms_is_a_violation(
    tracker: FlushTracker, flushed: PartitionLog, later: list[Steps]
) -> None:
    append(tracker, flushed, 0)
    append(tracker, flushed, 400)
    for now_ms in (499, 500, 9_000):
        tick(tracker, flushed, now_ms)
    while later:
        carry_out(later.pop(0))
    append(tracker, flushed, 9_000)
    for now_ms in (9_000, 9_499):
        tick(tracker, flushed, now_ms)
    with violates("Log/flush-overdue: t-0: offset 2 waits .* 500 ms and is not being flushed"):
        tracker.started(flushed, 9_500)


def test_truncated_record_does_not_wait(tracker: FlushTracker, flushed: PartitionLog) -> None:
    for now_ms in (0, 400, 450):
        append(tracker, flushed, now_ms)
    flushed.flushing._since = None
    flushed.truncate_to(2)
    tracker.started(flushed, 499)
    append(tracker, flushed, 700)
    with violates("Log/flush-overdue: t-0: .*offset 0 waits for the disk for 500 ms"):
        tracker.started(flushed, 500)
    flushed.truncate_to(0)
    append(tracker, flushed, 4_000)
    tracker.started(flushed, 4_499)
    with violates("Log/flush-overdue: t-0: .*offset 0 waits for the disk for 500 ms"):
        tracker.started(flushed, 4_500)


def test_failed_log_is_not_judged(tracker: FlushTracker, flushed: PartitionLog) -> None:
    append(tracker, flushed, 0)
    flushed.flushing.fail()
    tracker.started(flushed, 9_000)
