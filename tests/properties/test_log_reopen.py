"""A log that is opened again after a power failure has everything that counted as durable.

A copy of its disk loses power at any moment, and the log is opened there from its recovery point,
as a start does. It must be sound, and the same below the recovery point, in its batches, its
epochs, its timestamps and its indexes (:mod:`simulation.model.storage`). The real log goes on
meanwhile.
"""

from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import Steps, carry_out
from ackproof.broker.log.partition_log import PartitionLog
from simulation.machines.disk import SimulatedDisk
from simulation.model import storage
from simulation.model.log import read_log
from tests.support.builders.batches import NOW_MS, batch

LOGS = Path("/logs")
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=1, retention_ms=-1)


def reopens_as_it_was(disk: SimulatedDisk, log: PartitionLog, noted: int, seed: int) -> None:
    """Check what a start finds on a copy of the disk that lost power.

    Args:
        noted: The recovery point in the checkpoint file, from which the start reads the log.
        seed: Decides what the power failure leaves of what was not synced.
    """
    twin = disk.copy_directory(log.directory, Random(seed))
    twin.lose_power()
    if not twin.is_directory(log.directory):
        assert log.recovery_point == 0
        return
    found = PartitionLog.open(
        log.directory, log.config, clean=False, recovery_point=noted, files=twin
    )
    found.check()
    there, before = read_log(found), read_log(log)
    assert there is not None
    assert before is not None
    durable = log.recovery_point
    assert there.end >= durable
    assert list(there.between(0, durable)) == list(before.between(0, durable))
    storage.check_epochs("t-0", found, there, deleted=0)
    storage.check_timestamps("t-0", found, there)
    storage.check_producers("t-0", found, there)
    for extent in there.between(0, there.end):
        if extent.timestamp == found.max_timestamp:
            assert found.offset_for_timestamp(extent.timestamp) is not None
    found.close(flush=False)


class Reopened(RuleBasedStateMachine):
    """One log, whose background flushes are carried out when the test says so."""

    @initialize()
    def begin(self) -> None:
        self.disk = SimulatedDisk(Random(0))
        self.disk.make_directory(LOGS)
        self.disk.sync_directory(LOGS)
        self.later: list[Steps] = []
        self.log = PartitionLog.open(
            LOGS / "t-0", SMALL, clean=True, files=self.disk, later=self.later.append
        )
        self.epoch = 0
        self.time_ms = NOW_MS
        self.noted = 0
        """The recovery point in the checkpoint file, which a truncation does not lower."""

    @rule(records=st.integers(1, 3), size=st.sampled_from([10, 10, 150]), late=st.booleans())
    def append(self, records: int, size: int, late: bool) -> None:
        self.time_ms += -5_000 if late else 1_000
        values = [b"v" * size] * records
        sent = batch(values, timestamps=[self.time_ms] * records, producer=(7, self.epoch, 0))
        self.log.append([sent], self.log.log_end_offset, self.epoch, 0)

    @rule(back=st.integers(0, 5))
    def truncate(self, back: int) -> None:
        self.log.truncate_to(max(0, self.log.log_end_offset - back))
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule()
    def note_recovery_point(self) -> None:
        storage.check_recovery_point(self.disk, self.log, self.log.recovery_point, 0)
        self.noted = self.log.recovery_point

    @precondition(lambda self: self.later)
    @rule()
    def flush_in_background(self) -> None:
        carry_out(self.later.pop(0))

    @rule(seed=st.integers(0, 2**16))
    def lose_power(self, seed: int) -> None:
        """In another world, which has a copy of the disk."""
        reopens_as_it_was(self.disk, self.log, self.noted, seed)


TestReopened = Reopened.TestCase
TestReopened.settings = settings(
    max_examples=60, stateful_step_count=20, report_multiple_bugs=False
)


CHANCES = range(100)
"""What a power failure leaves of the unsynced bytes is drawn: these faults show in a few of 100."""


def opened_log(disk: SimulatedDisk) -> PartitionLog:
    """Return an empty log on a disk, whose time index has few entries."""
    disk.make_directory(LOGS)
    disk.sync_directory(LOGS)
    config = replace(SMALL, index_interval_bytes=1000)
    return PartitionLog.open(LOGS / "t-0", config, clean=True, files=disk, later=lambda _: None)


def append(log: PartitionLog, size: int, epoch: int = 0) -> None:
    """Append a batch of one record, a second younger than the one before. Two large ones do not fit
    into a segment."""
    sent = batch([b"v" * size], timestamps=[NOW_MS + 1_000 * log.log_end_offset])
    log.append([sent], log.log_end_offset, epoch, 0)


def test_unsynced_entry_of_a_full_segments_time_index_is_not_believed() -> None:
    """A segment is flushed, and then full: only then the last entry of its time index is written.
    No start walks the segment, since it lies below the recovery point."""
    disk = SimulatedDisk(Random(0))
    log = opened_log(disk)
    append(log, 150)
    append(log, 10)
    log.flush()
    noted = log.recovery_point
    append(log, 150)
    for seed in CHANCES:
        reopens_as_it_was(disk, log, noted, seed)


def test_records_truncated_before_a_segment_began_stay_truncated() -> None:
    """The truncated records were never synced, nor was their truncation. The next flush begins at
    the new segment, and must sync the one before it, too."""
    disk = SimulatedDisk(Random(0))
    log = opened_log(disk)
    append(log, 150)
    log.flush()
    append(log, 10)
    log.truncate_to(1)
    append(log, 150, epoch=1)
    log.flush()
    for seed in CHANCES:
        reopens_as_it_was(disk, log, log.recovery_point, seed)
