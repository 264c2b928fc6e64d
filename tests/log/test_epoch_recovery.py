"""The leader epochs after a crash: those of the batches, however old the file is."""

from pathlib import Path

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.epochs import FILE_NAME
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.wire.batch import stamped
from tests.support.builders.batches import NOW_MS, batch


def opened(directory: Path, recovery_point: int = 0, *, clean: bool = False) -> PartitionLog:
    config = LogConfig(segment_bytes=400, index_interval_bytes=50)
    return PartitionLog.open(directory, config, clean=clean, recovery_point=recovery_point)


def fetched(log: PartitionLog, epoch: int, count: int) -> None:
    for _ in range(count):
        log.append([stamped(batch(), log.log_end_offset, epoch)], 0, None, NOW_MS)


def test_truncated_epoch_in_the_file_is_ignored(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", clean=True)
    fetched(log, 1, 2)
    fetched(log, 9, 1)
    log.flush()
    log.truncate_to(1)
    fetched(log, 8, 3)
    assert log.epochs.entries == ((1, 0), (8, 1))
    log.close(flush=False)
    assert "9 2" in (tmp_path / "t-0" / FILE_NAME).read_text()
    log = opened(tmp_path / "t-0", log.recovery_point)
    assert log.epochs.entries == ((1, 0), (8, 1))
    log.close()
    assert opened(tmp_path / "t-0", clean=True).epochs.entries == ((1, 0), (8, 1))


def test_epochs_below_the_recovery_point_are_read_from_the_file(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", clean=True)
    for epoch in range(12):
        fetched(log, epoch, 1)
    known = log.epochs.entries
    assert len(log.segment_base_offsets) > 2
    recovery_point = log.recovery_point
    assert recovery_point > 0
    log.close(flush=False)
    assert opened(tmp_path / "t-0", recovery_point).epochs.entries == known


def test_damaged_index_keeps_later_epochs(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", clean=True)
    for epoch in range(12):
        fetched(log, epoch, 1)
    known = log.epochs.entries
    log.close()
    for index in sorted((tmp_path / "t-0").glob("*.timeindex"))[:1]:
        index.write_bytes(b"x" * 13)
    assert opened(tmp_path / "t-0", clean=True).epochs.entries == known


def test_epoch_without_records_in_the_file_keeps_other_epochs(tmp_path: Path) -> None:
    """Test a log that was closed in order, opened, and killed before anything was flushed. The
    model found it."""
    log = opened(tmp_path / "t-0", clean=True)
    fetched(log, 4, 8)
    log.start_epoch(5, log.log_end_offset)
    log.close()
    log = opened(tmp_path / "t-0", clean=True)
    assert log.epochs.entries == ((4, 0),)
    recovery_point, last = log.recovery_point, log.segment_base_offsets[-1]
    assert last > 0
    log.close(flush=False)
    assert opened(tmp_path / "t-0", recovery_point).epochs.entries == ((4, 0),)
