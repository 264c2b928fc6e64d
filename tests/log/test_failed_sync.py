"""A failed sync that dropped its data, which the page cache still shows."""

from pathlib import Path
from random import Random

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import REAL, File
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.producer_state import ProducerState
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import parse_batches
from simulation.machines.disk import SYNC, SimulatedDisk
from tests.support.builders.batches import NOW_MS, batch

TP = TopicPartition("t", 0)
HOME = Path("/logs")


def logs_on(disk: SimulatedDisk) -> LogManager:
    return LogManager([HOME], lambda _topic: LogConfig(), files=disk)


def appended(logs: LogManager, count: int, *, producer: int = 7) -> None:
    log = logs.create(TP)
    for sequence in range(count):
        log.append([batch(producer=(producer, 0, sequence))], log.log_end_offset, 0, NOW_MS)


@pytest.mark.parametrize("seed", range(12))
def test_records_found_after_a_failed_sync_survive_power_loss(seed: int) -> None:
    """Test a halt, a start and an orderly stop: this log is not scanned again.

    With some seeds the failed sync drops the records above 5. With some seeds the page cache shows
    them to the next process.
    """
    disk = SimulatedDisk(Random(seed))
    logs = logs_on(disk)
    appended(logs, 5)
    logs.logs[TP].flush()
    appended(logs, 3)
    disk.fail({SYNC})
    with pytest.raises(OSError, match="Input/output"):
        logs.logs[TP].flush()
    logs.close(clean=False)
    disk.kill()
    disk.fail(())

    logs = logs_on(disk)
    found = logs.logs[TP].log_end_offset
    assert found in (5, 8)
    logs.close(clean=True)
    disk.lose_power()

    log = logs_on(disk).logs[TP]
    assert log.log_end_offset == found
    stored = [
        one
        for offset in range(found)
        for one in parse_batches(log.read(offset, 1, found, at_least_one=True))
    ]
    assert [one.base_offset for one in stored] == list(range(found))


@pytest.mark.parametrize("seed", range(24))
def test_snapshot_removed_by_a_former_process_does_not_return(seed: int) -> None:
    """Test a snapshot of offset 6 that a truncation to 2 removed, with the directory not synced.

    The next process appends up to 8, and with some seeds all of that is on the disk when the power
    fails.
    """
    disk = SimulatedDisk(Random(seed))
    logs = logs_on(disk)
    appended(logs, 6)
    logs.close(clean=True)
    logs = logs_on(disk)
    disk.fail({"sync_directory"})
    with pytest.raises(OSError, match="Input/output"):
        logs.logs[TP].truncate_to(2)
    logs.close(clean=False)
    disk.kill()
    disk.fail(())

    logs = logs_on(disk)
    appended(logs, 6, producer=8)
    disk.lose_power()

    log, stored = logs_on(disk).logs[TP], ProducerState()
    for offset in range(log.log_end_offset):
        for one in parse_batches(log.read(offset, 1, log.log_end_offset)):
            stored.note(one)
    assert log.producers.state.producers == stored.producers


def test_reread_file_holds_the_written_bytes(tmp_path: Path) -> None:
    """Test that bytes not yet on the disk are kept."""
    file = File(REAL, tmp_path / "file")
    file.append(b"abc")
    file.drop_cached_pages()
    assert file.read_at(10, 0) == b"abc"
    file.close()
