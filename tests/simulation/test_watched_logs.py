"""What is watched of logs, broken by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from batches import batch
from log_disk import LOGS

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    write_offsets,
)
from ackproof.broker.log.disk.files import Directory
from ackproof.broker.log.disk.steps import carry_out
from ackproof.broker.log.idempotence.producer_state import Producer, ProducerState
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.replication.epochs import Epochs
from ackproof.broker.replication.events import Fetched, Truncate, TruncateFully
from ackproof.broker.types import (
    LeaderEpoch,
    Offset,
    ProducerId,
    TopicPartition,
)
from simulation.machines.disk import MemoryDisk
from simulation.observer.logs import begun_anew, epochs, flushed, producers, taken, times
from simulation.observer.logs.on_disk import read_shadow
from simulation.observer.moments import following_on, viewing
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
SMALL = LogConfig(segment_bytes=200)


@pytest.fixture
def log(disk: MemoryDisk) -> PartitionLog:
    """Six records of three epochs, in several segments; nobody has flushed any."""
    opened = PartitionLog.open(LOGS / "t-0", SMALL, clean=True, files=disk, later=lambda _: None)
    for offset in range(6):
        opened.append([batch((b"v" * 50,))], offset, offset // 2, 0)
    return opened


# --- LogKept -------------------------------------------------------------------------------------


def test_what_is_damaged_is_no_log(log: PartitionLog, disk: MemoryDisk) -> None:
    descriptor = disk.open(log.directory / "00000000000000000000.log")
    content = disk.pread(descriptor, disk.size(descriptor), 0)
    disk.truncate(descriptor, 0)
    disk.write(descriptor, content[:-1] + b"w")
    with pytest.raises(Violation, match=r"LogKept: t-0: .* CRC-32C of the batch"):
        read_shadow(log)


def test_nor_is_what_is_missing(log: PartitionLog) -> None:
    log._end = Offset(9)
    with pytest.raises(Violation, match=r"LogKept: t-0: at 6 of 9 there is nothing to be read"):
        read_shadow(log)


def test_nor_is_what_has_a_hole(log: PartitionLog) -> None:
    del log._segments[1]
    with pytest.raises(Violation, match=r"LogKept: t-0: behind . of 6 nothing is there up to ."):
        read_shadow(log)


# --- TakenIsWhole --------------------------------------------------------------------------------


def test_what_a_log_takes_is_whole(log: PartitionLog) -> None:
    whole = batch((b"v",))
    taken.check(log, [whole])
    spoilt = memoryview(bytes(whole.raw[:-1]) + b"?")
    with pytest.raises(Violation, match=r"TakenIsWhole: t-0 takes it: CRC-32C"):
        taken.check(log, [whole, replace(whole, raw=spoilt)])


# --- BegunAnewStays ------------------------------------------------------------------------------


def test_where_a_log_begins_anew_must_be_on_disk(log: PartitionLog, disk: MemoryDisk) -> None:
    log.truncate_fully(40)
    begun_anew.check(disk, log)
    disk.remove(log.directory / f"{40:020d}.log")
    disk.open(log.directory / f"{40:020d}.log")
    with pytest.raises(Violation, match=r"BegunAnewStays: t-0 begins anew at 40, .* no 0+40\.log"):
        begun_anew.check(disk, log)


# --- MadeOfNothing -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS])
def test_of_a_log_that_is_made_nothing_is_noted(disk: MemoryDisk, name: str) -> None:
    noted = Directory(LOGS, disk)
    for tp in (TopicPartition("other", 0), TP):
        begun_anew.made(disk, LOGS, TP)
        write_offsets(noted, name, {tp: 7})
    with pytest.raises(Violation, match=rf"MadeOfNothing: t-0 .* {name} has 7"):
        begun_anew.made(disk, LOGS, TP)


@pytest.fixture
def logs(disk: MemoryDisk) -> LogManager:
    """One log of six records, in a log directory."""
    manager = LogManager([LOGS], lambda _: SMALL, files=disk)
    manager.create(TP).append([batch((b"v",) * 6)], 0, 0, 0)
    return manager


def test_a_log_that_is_made_begins_with_nothing(logs: LogManager) -> None:
    other = TopicPartition("other", 0)
    made = logs.create(other)
    begun_anew.begins(logs, made, other)
    logs.checkpoint_high_watermarks({other: 3})
    with pytest.raises(Violation, match=r"MadeOfNothing: other-0 .* its watermark is 3"):
        begun_anew.begins(logs, made, other)
    with pytest.raises(Violation, match=r"MadeOfNothing: t-0 .* its end is 6"):
        begun_anew.begins(logs, logs.create(TP), TP)


def test_nor_with_what_is_remembered_of_one_that_was_deleted(logs: LogManager) -> None:
    logs.checkpoint_high_watermarks({TP: 6})
    with pytest.raises(Violation, match=r"MadeOfNothing: t-0 is deleted .* in logs still"):
        begun_anew.gone(logs, TP)
    logs.delete(TP)
    begun_anew.gone(logs, TP)
    logs._high_watermarks[TP] = 6
    with pytest.raises(Violation, match=r"MadeOfNothing: t-0 is deleted .* in high_watermarks"):
        begun_anew.gone(logs, TP)


# --- EpochsAreLog --------------------------------------------------------------------------------


def look(log: PartitionLog, *, deleted: int = 0) -> None:
    read = read_shadow(log)
    assert read is not None
    epochs.found(TP, 1, log, read, deleted=deleted)


def as_told(log: PartitionLog) -> Any:
    return SimpleNamespace(epochs=log.epochs.entries)


def test_epochs_are_those_of_the_batches(log: PartitionLog) -> None:
    look(log)
    log.truncate_to(3)
    look(log)
    log.start_epoch(7, 3)  # of a leader that has appended nothing yet
    look(log)
    log.advance_log_start(1)
    look(log)


@pytest.mark.parametrize("spoil", [lambda e: e.clear(), lambda e: e.truncate_from_end(2)])
def test_epochs_that_are_lost_are_missed(log: PartitionLog, spoil: Any) -> None:
    spoil(log.epochs)
    with pytest.raises(Violation, match="EpochsAreLog"):
        look(log)


def test_what_was_deleted_and_is_there_again_may_be_of_no_epoch(log: PartitionLog) -> None:
    log.epochs.truncate_from_start(3)  # the checkpoint of log starts was not written in time
    look(log, deleted=3)
    with pytest.raises(Violation, match="EpochsAreLog"):
        look(log, deleted=2)


def test_a_replica_goes_by_its_logs_epochs(log: PartitionLog) -> None:
    replica = as_told(log)
    epochs.kept(TP, 1, log, replica)
    log.epochs.truncate_from_end(4)
    with pytest.raises(Violation, match="EpochsAreLog"):
        epochs.kept(TP, 1, log, replica)


def test_epochs_are_on_disk_when_it_is_noted_that_their_batches_are(
    disk: MemoryDisk, log: PartitionLog
) -> None:
    epochs.noted(disk, log, 0)
    log.flush()
    epochs.noted(disk, log, 6)
    log.advance_log_start(3)
    log.append([batch((b"v" * 50,))], 6, 3, 0)
    log.flush()
    epochs.noted(disk, log, 7)
    log.append([batch((b"v" * 50,))], 7, 4, 0)
    log.epochs._written = log.epochs.history
    log.flush()
    epochs.noted(disk, log, 7)
    with pytest.raises(Violation, match=r"EpochsAreLog: .*below 8 .* offset 7 is of epoch 3"):
        epochs.noted(disk, log, 8)


def test_epochs_that_are_taken_for_written_are_in_the_checkpoint(
    disk: MemoryDisk, log: PartitionLog
) -> None:
    epochs.written(disk, log.directory, Epochs())
    log.flush()
    epochs.written(disk, log.directory, log.epochs.history)
    log.start_epoch(7, 6)
    with pytest.raises(Violation, match=r"EpochsAreLog: t-0: .*\(7, 6\)\) are taken for written"):
        epochs.written(disk, log.directory, log.epochs.history)


# --- what replicas believe -----------------------------------------------------------------------


def hosting(log: PartitionLog, *, starts: int = 0, ends: int = 6, committed: int = 6) -> Any:
    """A partition whose replica believes that."""
    replica = SimpleNamespace(
        broker=1, log_start_offset=starts, log_end_offset=ends, high_watermark=committed
    )
    return SimpleNamespace(tp=TP, log=log, replica=replica)


@pytest.mark.parametrize(
    ("believes", "invariant"),
    [
        ({"starts": 1}, "ViewIsLog"),
        ({"ends": 5, "committed": 5}, "ViewIsLog"),
        ({"committed": 7}, "ValidHighWatermark"),
        ({"committed": -1}, "ValidHighWatermark"),
    ],
)
def test_a_replica_knows_its_log(
    log: PartitionLog, believes: dict[str, int], invariant: str
) -> None:
    viewing.check(1, hosting(log))
    viewing.check(1, hosting(log, committed=0))
    with pytest.raises(Violation, match=invariant):
        viewing.check(1, hosting(log, **believes))


def test_what_is_fetched_follows_on(log: PartitionLog) -> None:
    overlaps = Fetched(
        leader_epoch=LeaderEpoch(3),
        fetch_offset=Offset(6),
        batches=(batch((b"v",)),),
        high_watermark=Offset(6),
        log_start_offset=Offset(0),
    )
    with pytest.raises(Violation, match=r"FetchesFollowOn: .* ends at 6, is sent what begins at 0"):
        following_on.refused(hosting(log), overlaps, ValueError("it overlaps"))


# --- ProducersAreLog -----------------------------------------------------------------------------

CUT = Truncate(offset=Offset(1))


@pytest.fixture
def written(log: PartitionLog) -> PartitionLog:
    """Behind its six records, three batches of producer 7 and one of producer 8, in turn."""
    for number, producer in enumerate([(7, 0, 0), (7, 0, 2), (8, 0, 0), (7, 0, 4)]):
        log.append([batch((b"v", b"v"), producer=producer)], 6 + 2 * number, 5, 0)
    return log


def look_for_producers(log: PartitionLog) -> None:
    producers.kept(TP, 1, log, [CUT])


def test_producers_are_those_of_the_batches(written: PartitionLog) -> None:
    look_for_producers(written)
    written.truncate_to(10)
    look_for_producers(written)
    written.append([batch((b"v",), producer=(7, 0, 4))], 10, 5, 0)
    look_for_producers(written)
    written.truncate_to(6)
    look_for_producers(written)


def test_producers_outlive_their_batches(written: PartitionLog) -> None:
    written.advance_log_start(13)
    look_for_producers(written)


def test_a_batch_that_is_not_remembered_is_missed(written: PartitionLog) -> None:
    for forgetful in ProducerState(), without_last(written, 7), without_last(written, 8):
        written.producers.state = forgetful
        with pytest.raises(Violation, match=r"ProducersAreLog: .*, in the log is epoch 0, 0 to"):
            look_for_producers(written)


def test_a_batch_that_was_cut_off_is_not_remembered(written: PartitionLog) -> None:
    remembered = written.producers.state
    for offset in 12, 10, 8:
        written.truncate_to(offset)
        written.producers.state = remembered
        with pytest.raises(Violation, match=r"ProducersAreLog: .*is remembered epoch 0, 0 to"):
            look_for_producers(written)


@pytest.mark.parametrize(
    "other",
    [
        {"last_sequence": 6},
        {"base_sequence": 3, "last_sequence": 4},
        {"last_offset": Offset(12)},
        {"timestamp": 0},
    ],
)
def test_what_is_remembered_is_what_was_sent(written: PartitionLog, other: dict[str, Any]) -> None:
    known = written.producers.state.producers[ProducerId(7)]
    spoilt = Producer(known.epoch, (*known.batches[:-1], replace(known.last, **other)))
    written.producers.state._producers[ProducerId(7)] = spoilt
    with pytest.raises(Violation, match=r"ProducersAreLog: .* of producer 7 "):
        look_for_producers(written)


def test_snapshots_are_what_the_log_was_up_to_there(written: PartitionLog) -> None:
    written.producers.snapshot(14)
    look_for_producers(written)
    written.truncate_to(12)
    look_for_producers(written)
    carry_out(written.producers.snapshot_steps(8, written.producers.encoded()))
    with pytest.raises(Violation, match=r"ProducersAreLog: .*, 8.snapshot: of producer 7 "):
        look_for_producers(written)


def test_of_what_the_log_has_not_there_is_no_snapshot(written: PartitionLog) -> None:
    carry_out(written.producers.snapshot_steps(15, written.producers.encoded()))
    with pytest.raises(Violation, match=r"15.snapshot: the log ends at 14"):
        look_for_producers(written)


def test_nothing_is_remembered_of_what_was_thrown_away(written: PartitionLog) -> None:
    thrown_away = [TruncateFully(offset=Offset(20))]
    remembered = written.producers.state
    written.truncate_fully(20)
    producers.kept(TP, 1, written, thrown_away)
    written.append([batch((b"v",), producer=(7, 0, 4))], 20, 5, 0)
    producers.kept(TP, 1, written, thrown_away)
    written.producers.state = remembered
    with pytest.raises(Violation, match=r"ProducersAreLog: .* thrown away up to 20"):
        producers.kept(TP, 1, written, thrown_away)


def test_snapshots_are_looked_at_before_they_are_written(written: PartitionLog) -> None:
    state = written.producers.encoded()
    producers.written(written, 14, state)
    written.append([batch((b"v",))], 14, 5, 0)
    producers.written(written, 14, state)
    for offset in 12, 13:
        with pytest.raises(Violation, match=rf"ProducersAreLog: t-0, {offset}.snapshot: of prod"):
            producers.written(written, offset, state)


def test_a_snapshot_that_was_taken_away_stays_away(written: PartitionLog, disk: MemoryDisk) -> None:
    written.producers.snapshot(14)
    written.truncate_to(12)
    producers.removed(disk, written.directory, [14])
    carry_out(written.producers.snapshot_steps(12, written.producers.encoded()))
    disk.remove(written.directory / f"{12:020d}.snapshot")
    with pytest.raises(Violation, match=r"ProducersAreLog: t-0: 0+12.snapshot was taken away"):
        producers.removed(disk, written.directory, [12, 14])


def test_nor_does_one_come_back_that_a_former_life_took_away(
    written: PartitionLog, disk: MemoryDisk
) -> None:
    written.producers.snapshot(14)
    producers.opened(disk, written.directory)
    disk.remove(written.directory / f"{14:020d}.snapshot")
    with pytest.raises(Violation, match=r"ProducersAreLog: t-0: 0+14.snapshot was taken away"):
        producers.opened(disk, written.directory)


def test_without_a_cut_nobody_looks(written: PartitionLog) -> None:
    written.producers.state = ProducerState()
    producers.kept(TP, 1, written, [])


def without_last(log: PartitionLog, of: int) -> ProducerState:
    """What is remembered of them, but for the last batch of one."""
    return ProducerState(
        {
            number: Producer(known.epoch, known.batches[:-1] if number == of else known.batches)
            for number, known in log.producers.state.producers.items()
            if number != of or len(known.batches) > 1
        }
    )


# --- TimesAreLog ---------------------------------------------------------------------------------


def look_for_times(log: PartitionLog) -> None:
    times.kept(TP, 1, log, [CUT])


def test_the_greatest_timestamp_is_that_of_a_batch(log: PartitionLog) -> None:
    look_for_times(log)
    log.append([batch((b"v",), timestamps=(2 * 10**12,))], 6, 2, 0)
    look_for_times(log)
    log.truncate_to(6)
    look_for_times(log)
    log._segments[-1].max_timestamp = 2 * 10**12
    with pytest.raises(Violation, match=r"TimesAreLog: .* by 2000000000000 ms"):
        look_for_times(log)
    times.kept(TP, 1, log, [])
    log.truncate_fully(20)
    look_for_times(log)


def test_what_is_deleted_and_lies_there_still_counts(log: PartitionLog) -> None:
    log._segments[0].max_timestamp = 2 * 10**12
    log.advance_log_start(1)
    look_for_times(log)


# --- FlushedIsSynced -----------------------------------------------------------------------------


def note(disk: MemoryDisk, offset: int) -> None:
    flushed.check(disk, LOGS, {TP: offset})


def test_what_is_synced_may_be_noted(disk: MemoryDisk, log: PartitionLog) -> None:
    note(disk, 0)
    log.flush()
    for offset in range(7):
        note(disk, offset)


def test_what_is_not_synced_may_not(disk: MemoryDisk, log: PartitionLog) -> None:
    for offset in range(1, 7):
        with pytest.raises(Violation, match="FlushedIsSynced"):
            note(disk, offset)
    log.flush()
    log.append([batch((b"v",))], 6, 2, 0)
    note(disk, 6)
    with pytest.raises(Violation, match=r"everything below 7 .* below 6"):
        note(disk, 7)


def test_what_was_cut_and_written_anew_is_not_synced(disk: MemoryDisk, log: PartitionLog) -> None:
    log.flush()
    log.truncate_to(3)
    note(disk, 3)
    log.append([batch((b"v" * 50,))], 3, 5, 0)
    note(disk, 3)
    with pytest.raises(Violation, match="FlushedIsSynced"):
        note(disk, 4)


def test_a_log_knows_of_what_may_be_noted(log: PartitionLog) -> None:
    log.flush()
    log.truncate_to(3)
    flushed.known(log, 6)
    log.flushing.vouched_for = 5
    flushed.known(log, 5)
    with pytest.raises(Violation, match=r"FlushedIsSynced: t-0: .* below 6 .* knows of 5"):
        flushed.known(log, 6)


def test_of_a_log_that_is_gone_nothing_is_asked(disk: MemoryDisk) -> None:
    note(disk, 5)
