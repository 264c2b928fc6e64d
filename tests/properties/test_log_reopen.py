"""A log that is opened again after a power failure has everything that counted as durable.

A copy of its disk loses power at any moment, and the log is opened there from its recovery point,
as a start does. It must be sound, and the same below the recovery point, in its batches, its
epochs, its timestamps and its indexes (:mod:`simulation.model.storage`). The real log goes on
meanwhile.
"""

from pathlib import Path
from random import Random

from batches import NOW_MS, batch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk.files import Steps, carry_out
from ackproof.broker.log.partition_log import PartitionLog
from simulation.machines.disk import MemoryDisk
from simulation.model import producers, storage
from simulation.model.log import read_log

LOGS = Path("/logs")
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=1, retention_ms=-1)


class Reopened(RuleBasedStateMachine):
    """One log, whose background flushes are carried out when the test says so."""

    @initialize()
    def begin(self) -> None:
        self.disk = MemoryDisk(Random(0))
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
        storage.recovery_point_noted(self.disk, self.log, self.log.recovery_point)
        self.noted = self.log.recovery_point

    @precondition(lambda self: self.later)
    @rule()
    def flush_in_background(self) -> None:
        carry_out(self.later.pop(0))

    @rule(seed=st.integers(0, 2**16))
    def lose_power(self, seed: int) -> None:
        """In another world, which has a copy of the disk."""
        twin = self.disk.twin(self.log.directory, Random(seed))
        twin.lose_power()
        if not twin.is_directory(self.log.directory):
            assert self.log.recovery_point == 0
            return
        found = PartitionLog.open(
            self.log.directory, SMALL, clean=False, recovery_point=self.noted, files=twin
        )
        found.check()
        there, before = read_log(found), read_log(self.log)
        assert there is not None
        assert before is not None
        durable = self.log.recovery_point
        assert there.end >= durable
        assert list(there.between(0, durable)) == list(before.between(0, durable))
        storage.epochs_found("t-0", found, there, deleted=0)
        storage.times_agree("t-0", found, there)
        producers.check("t-0", found, there)
        for extent in there.between(0, there.end):
            if extent.timestamp == found.max_timestamp:
                assert found.offset_for_timestamp(extent.timestamp) is not None
        found.close(flush=False)


TestReopened = Reopened.TestCase
TestReopened.settings = settings(
    max_examples=60, stateful_step_count=20, report_multiple_bugs=False
)
