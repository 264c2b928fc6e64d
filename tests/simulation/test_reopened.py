"""ReopensAsItWas, and what retention would take: of logs on a disk in memory, broken by hand."""

from random import Random
from typing import Any

import pytest
from batches import NOW_MS, batch
from log_disk import LOGS

from ackproof.broker.log import retention as broker_retention
from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk.checkpoints import LOG_STARTS, RECOVERY_POINTS, write_offsets
from ackproof.broker.log.disk.files import Directory
from ackproof.broker.log.flushing import Flushing
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.segment import Segment
from ackproof.broker.types import Offset, TopicPartition
from simulation.machines.disk import MemoryDisk
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.logs import retention
from simulation.observer.twins import reopened, turned_over
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
SMALL = LogConfig(segment_bytes=200, index_interval_bytes=0)
POWER_FAILURES = 60


@pytest.fixture
def log(disk: MemoryDisk) -> PartitionLog:
    """Six batches of two producers and three epochs in six segments, which nobody has flushed."""
    opened = PartitionLog.open(LOGS / "t-0", SMALL, clean=True, files=disk, later=lambda _: None)
    for offset in range(6):
        append(opened, offset)
    return opened


def append(log: PartitionLog, offset: int) -> None:
    sent = batch((b"v" * 100,), producer=(offset % 2, 0, offset // 2))
    log.append([sent], offset, offset // 2, 0)


def look(disk: MemoryDisk, log: PartitionLog) -> None:
    for seed in range(POWER_FAILURES):
        reopened.check(TP, 1, disk, log, Random(seed))


def note(disk: MemoryDisk, recovery_point: int, log_start: int = 0) -> None:
    write_offsets(Directory(LOGS, disk), RECOVERY_POINTS, {TP: recovery_point})
    write_offsets(Directory(LOGS, disk), LOG_STARTS, {TP: log_start})


def test_a_log_may_be_opened_at_any_moment(disk: MemoryDisk, log: PartitionLog) -> None:
    look(disk, log)
    log.flush()
    note(disk, log.recovery_point)
    look(disk, log)
    log.truncate_to(3)
    look(disk, log)
    append(log, 3)
    log.flushing.settle()
    look(disk, log)
    log.config = LogConfig(retention_bytes=200)
    log.delete_old_segments(4, NOW_MS)
    assert log.log_start_offset > 0
    look(disk, log)
    note(disk, log.recovery_point, log.log_start_offset)
    look(disk, log)


def test_it_is_no_other_when_it_has_been(disk: MemoryDisk, log: PartitionLog) -> None:
    names = {name: disk.read(log.directory / name) for name in disk.names(log.directory)}
    look(disk, log)
    assert names == {name: disk.read(log.directory / name) for name in disk.names(log.directory)}


def test_what_a_kill_would_have_forgotten_is_missed(disk: MemoryDisk, log: PartitionLog) -> None:
    log._segments[-1].first_timestamp = -1
    with pytest.raises(Violation, match=r"ReopensAsItWas: killed now: t-0: segments .* -1, "):
        look(disk, log)


def test_so_are_producers_whose_batches_are_gone(disk: MemoryDisk, log: PartitionLog) -> None:
    log.flushing.settle()
    log.config = LogConfig(retention_bytes=0)
    log.delete_old_segments(5, NOW_MS)
    look(disk, log)
    log.producers._snapshots.remove(lambda _: True)
    with pytest.raises(Violation, match=r"ReopensAsItWas: killed now: .* producer 0 is remembered"):
        look(disk, log)


def test_what_is_flushed_no_power_failure_takes(disk: MemoryDisk, log: PartitionLog) -> None:
    log.flushing.recovery_point = Offset(6)
    with pytest.raises(Violation, match=r"ReopensAsItWas: without power now: .* below 6 .* up to"):
        look(disk, log)


def test_nor_does_what_was_given_up_come_back(disk: MemoryDisk, log: PartitionLog) -> None:
    """Up to 6, as is noted; of what lies there the power takes all but the first few."""
    note(disk, 0, log_start=6)
    look(disk, log)

    def begun_lower(self: PartitionLog, log_start_offset: int) -> None:
        end = max((each.next_offset for each in self._segments), default=0)
        begin(self, min(log_start_offset, end))

    begin = PartitionLog._begin
    with (
        Mutation(Swap(PartitionLog, "_begin", begun_lower)).active(),
        pytest.raises(Violation, match=r"ReopensAsItWas: without power now: .* it began at 6, and"),
    ):
        look(disk, log)


@pytest.mark.parametrize("hasty", [True, False])
def test_nobody_walks_what_is_flushed(disk: MemoryDisk, log: PartitionLog, hasty: bool) -> None:
    """Up to 6, as is noted; then it is cut to 1, and grows again."""
    log.flush()
    note(disk, log.recovery_point)
    log.truncate_to(1)
    if not hasty:
        append(log, 1)
        append(log, 2)
        look(disk, log)
        return
    with Mutation(Swap(Flushing, "roll", lambda *_: None)).active():
        append(log, 1)
        append(log, 2)
    with pytest.raises(Violation, match=r"FlushedIsSynced: .* everything below 2 .* below 1"):
        look(disk, log)


def test_nor_a_time_that_is_none(disk: MemoryDisk, log: PartitionLog) -> None:
    """All was flushed when the segment was full, and it got its last entry."""
    log.flush()
    note(disk, log.recovery_point)
    log.append([batch((b"v" * 100,), timestamps=(NOW_MS + 125,))], 6, 3, 0)
    look(disk, log)
    unchecked = Swap(Segment, "_is_true", lambda *_: True)
    with (
        Mutation(unchecked).active(),
        pytest.raises(Violation, match=r"TimesAreLog|ReopensAsItWas"),
    ):
        look(disk, log)


SYNC = Flushing._sync


def test_what_a_life_leaves_in_order_stays(disk: MemoryDisk, log: PartitionLog) -> None:
    """A cut has emptied the last segment, and nobody syncs that."""

    def sync(self: Flushing, turn: object, end: int) -> Any:
        segments_from = self._segments_from
        self._segments_from = lambda at: [s for s in segments_from(at) if s.base_offset < end]
        try:
            return (yield from SYNC(self, turn, end))
        finally:
            self._segments_from = segments_from

    log.flush()
    log.truncate_to(5)
    look(disk, log)
    lazy = Mutation(Swap(Flushing, "_sync", sync))
    with lazy.active(), pytest.raises(Violation, match=r"ReopensAsItWas: .* closed in order"):
        look(disk, log)


def test_of_a_disk_that_has_failed_nothing_is_asked(disk: MemoryDisk, log: PartitionLog) -> None:
    log.flushing.recovery_point = Offset(6)
    log.flushing.fail()
    look(disk, log)


def test_retention_would_never_take_what_is_not_committed(log: PartitionLog) -> None:
    for high_watermark in range(7):
        retention.of_nothing(log, high_watermark)
    hasty = Swap(broker_retention, "_too_old", lambda *_: True)
    count = retention.count_deletable
    eats = Swap(retention, "count_deletable", lambda *args, **_: len(args[0]))
    with Mutation(hasty).active():
        assert count(log._segments, SMALL, log_start=0, high_watermark=4, now_ms=0) == 4
    with (
        Mutation(eats).active(),
        pytest.raises(Violation, match=r"RetentionKept: .* below 6, .* 5"),
    ):
        retention.of_nothing(log, 5)


# --- a cut in the middle of a flush ---------------------------------------------------------------

CUT = Flushing.cut_to


def lets_a_flush_go_on(self: Flushing, end: int) -> None:
    turn = self._turn
    CUT(self, end)
    self._turn = turn


def keeps_snapshots(self: Flushing, end: int) -> None:
    held = self._snapshots
    CUT(self, end)
    self._snapshots = held


@pytest.mark.parametrize(
    ("wrong", "invariant"),
    [
        (lets_a_flush_go_on, r"FlushedIsSynced|CutIsForgotten"),
        (keeps_snapshots, r"ProducersAreLog|CutIsForgotten"),
    ],
)
def test_what_was_cut_does_not_come_back_with_its_flush(
    disk: MemoryDisk, log: PartitionLog, wrong: Any, invariant: str
) -> None:
    with (
        Mutation(Swap(Flushing, "cut_to", wrong)).active(),
        pytest.raises(Violation, match=rf"({invariant}): cut while it was flushed: "),
    ):
        look(disk, log)


def believed(segment: Segment, position: int, end: int, bound: int) -> int:
    """What an index says, whatever the log has there."""
    below = segment._offsets.floor(bound - 1 - segment.base_offset)
    before = segment._offsets.floor_by_value(end - 1)
    return max(position, min(below.value, before.value)) if below and before else position


@pytest.mark.parametrize(
    ("broken", "tells"),
    [
        (Swap(Segment, "_last_indexed", believed), r"is torn|read\("),
        (Swap(Segment, "_is_true", lambda *_: True), r"offset_for_timestamp\("),
    ],
    ids=["offsets", "times"],
)
def test_what_a_damaged_index_says_is_not_believed(
    disk: MemoryDisk, broken: Swap, tells: str
) -> None:
    """Of segments of five batches: what is read goes over entries."""

    def opened(disk: MemoryDisk) -> PartitionLog:
        config = LogConfig(segment_bytes=500, index_interval_bytes=0)
        return PartitionLog.open(LOGS / "t-0", config, clean=True, files=disk)

    def look_closely() -> None:
        for seed in range(100):
            twin = disk.twin(log.directory, Random(seed))
            turned_over.check(TP, twin, log.directory, opened, Random(seed))

    log = opened(disk)
    for offset in range(20):
        sent = batch((b"v" * 20,), timestamps=(NOW_MS + 10 * offset,))
        log.append([sent], offset, 0, 0)
    log.close()
    look_closely()
    with (
        Mutation(broken).active(),
        pytest.raises(Violation, match=rf"IndexesAreHints: t-0: bit .* of .*: .*({tells})"),
    ):
        look_closely()
