"""PartitionLog compared with a list of batches: the same operations give the same state."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.partition_log import OffsetOutOfRange, OffsetsOutOfOrder, PartitionLog
from ackproof.broker.replication.local import Epochs
from ackproof.broker.types import LeaderEpoch, Offset
from ackproof.broker.wire.batch import RecordBatch, parse_batches, stamped
from simulation.machines.disk import SimulatedDisk
from tests.support.builders.batches import NOW_MS, batch
from tests.support.builders.examples import examples

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)
DIRECTORY = Path("/orders-0")
COUNTS = st.lists(st.integers(1, 4), min_size=1, max_size=4)


class LogAndList(RuleBasedStateMachine):
    @initialize()
    def create(self) -> None:
        self.disk = SimulatedDisk(Random(0))
        self.log = PartitionLog.open(DIRECTORY, SMALL, clean=True, files=self.disk)
        self.batches: list[RecordBatch] = []
        self.start = self.end = 0
        self.epoch = 0
        self.epochs = Epochs()
        self.clock = NOW_MS

    @rule(counts=COUNTS)
    def append_as_leader(self, counts: list[int]) -> None:
        incoming = [self.fresh(count) for count in counts]
        self.log.append(incoming, self.end, self.epoch, NOW_MS)
        for one in incoming:
            self.take(stamped(one, self.end, self.epoch))

    @rule(count=st.integers(1, 4), gap=st.integers(0, 3))
    def append_as_follower(self, count: int, gap: int) -> None:
        if not self.visible() or self.visible()[-1].leader_epoch != self.epoch:
            gap = 0  # otherwise no batch shows where the epoch began, which does not matter
        incoming = stamped(self.fresh(count), self.end + gap, self.epoch)
        self.log.append([incoming], self.end, None, NOW_MS)
        self.take(incoming)

    @rule()
    def refuse_to_go_back(self) -> None:
        if self.end:
            with pytest.raises(OffsetsOutOfOrder):
                self.log.append([batch()], self.end - 1, self.epoch, NOW_MS)

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1
        self.log.start_epoch(self.epoch, self.end)
        self.epochs = self.epochs.assign(LeaderEpoch(self.epoch), Offset(self.end))

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        offset = int(self.start + fraction * (self.end - self.start))
        self.log.truncate_to(offset)
        if offset < self.end:
            removed = [b for b in self.batches if b.next_offset > offset]
            self.batches = [b for b in self.batches if b.next_offset <= offset]
            if removed:
                self.end = min(offset, removed[0].base_offset)
            else:  # in a gap after the last batch, where the log may end lower
                last = self.batches[-1].next_offset if self.batches else 0
                assert last <= self.log.log_end_offset <= offset
                self.end = self.log.log_end_offset
            self.start = min(self.start, self.end)
        self.epochs = self.epochs.truncate_from_end(Offset(self.end))

    @rule(offset=st.integers(0, 1000))
    def truncate_fully(self, offset: int) -> None:
        self.log.truncate_fully(offset)
        self.batches = []
        self.start = self.end = offset
        self.epochs = Epochs()

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        offset = int(self.start + fraction * (self.end - self.start))
        self.log.advance_log_start(offset)
        self.log.delete_old_segments(self.end, NOW_MS)
        self.advance(offset)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        recovery_point = self.log.recovery_point
        self.log.close(flush=clean)
        self.log = PartitionLog.open(
            DIRECTORY,
            SMALL,
            clean=clean,
            files=self.disk,
            recovery_point=recovery_point,
            log_start_offset=self.start,
        )
        self.found_on_disk()

    @rule(fraction=st.floats(0, 1), max_bytes=st.integers(1, 900), at_least_one=st.booleans())
    def read(self, fraction: float, max_bytes: int, at_least_one: bool) -> None:
        offset = int(self.start + fraction * (self.end - self.start))
        data = self.log.read(offset, max_bytes, self.end, at_least_one)
        found = parse_batches(data)
        expected = [b for b in self.batches if b.next_offset > offset]
        assert list(found) == expected[: len(found)]
        assert len(data) <= max_bytes or (at_least_one and len(found) == 1)
        if expected and (at_least_one or expected[0].size <= max_bytes):
            assert found

    @rule(fraction=st.floats(0, 1))
    def bound(self, fraction: float) -> None:
        bound = int(self.start + fraction * (self.end - self.start))
        assert self.read_all(bound) == [b for b in self.visible() if b.next_offset <= bound]

    @rule(back=st.integers(0, 40))
    def look_up_timestamp(self, back: int) -> None:
        wanted = self.clock - 125 * back
        timestamps = [(b.base_offset, b.max_timestamp) for b in self.visible()]
        expected = next(((o, t) for o, t in timestamps if t >= wanted), None)
        found = self.log.offset_for_timestamp(wanted)
        if expected is None or found is None:
            assert found is None
            assert expected is None
        else:
            assert found == (max(expected[0], self.start), expected[1])

    @invariant()
    def same(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
            assert self.read_all(self.end) == self.visible()
            assert self.log.epochs.entries == self.epochs.entries
            with pytest.raises(OffsetOutOfRange):
                self.log.read(self.end + 1, 10, self.end)
            if self.start:
                with pytest.raises(OffsetOutOfRange):
                    self.log.read(self.start - 1, 10, self.end)

    def fresh(self, count: int) -> RecordBatch:
        """Return a batch whose records are younger than all before, so that a lookup has one
        answer."""
        self.clock += 125
        return batch([b"value"] * count, timestamps=[self.clock] * count)

    def take(self, appended: RecordBatch) -> None:
        self.batches.append(appended)
        self.epochs = self.epochs.assign(
            LeaderEpoch(appended.leader_epoch), Offset(appended.base_offset)
        )
        self.end = appended.next_offset

    def advance(self, start: int) -> None:
        if start > self.start:
            self.start = start
            self.epochs = self.epochs.truncate_from_start(Offset(start))

    def visible(self) -> list[RecordBatch]:
        return [b for b in self.batches if b.next_offset > self.start]

    def read_all(self, bound: int) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        offset = self.start
        while part := parse_batches(self.log.read(offset, 250, bound)):
            found += part
            offset = part[-1].next_offset
        return found

    def found_on_disk(self) -> None:
        """Forget an end or an epoch without records: no batch and no segment name shows it after a
        start."""
        ends = [b.next_offset for b in self.batches[-1:]]
        self.end = max(self.start, *ends, self.log.segment_base_offsets[-1])
        self.epochs = self.epochs.truncate_from_start(Offset(self.start))
        self.epochs = self.epochs.truncate_from_end(Offset(self.end))
        self.batches = self.visible()
        assert self.log.log_end_offset == self.end


TestLogAndList = LogAndList.TestCase
TestLogAndList.settings = settings(max_examples=examples(30), stateful_step_count=25)


class Crashes(LogAndList):
    """Tests with actions of followers, too: truncations, and fetches of records of earlier
    epochs."""

    @rule(count=st.integers(1, 4), back=st.integers(0, 5))
    def append_what_an_earlier_leader_wrote(self, count: int, back: int) -> None:
        self.log.truncate_to(self.end)  # as every follower does before it fetches
        self.epochs = self.epochs.truncate_from_end(Offset(self.end))
        last = self.batches[-1].leader_epoch if self.batches else 0
        incoming = stamped(self.fresh(count), self.end, max(last, self.epoch - back))
        self.log.append([incoming], self.end, None, NOW_MS)
        self.take(incoming)

    @rule()
    def flush(self) -> None:
        self.log.flush()


TestCrashes = Crashes.TestCase
TestCrashes.settings = settings(max_examples=examples(40), stateful_step_count=25)
