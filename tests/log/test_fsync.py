"""Fsyncs of data: performed when required, and only then."""

from pathlib import Path
from typing import Any

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import (
    Directory,
    RealFileSystem,
    mark_clean_shutdown,
    take_clean_shutdown,
)
from ackproof.broker.log.partition_log import PartitionLog
from tests.support.builders.batches import NOW_MS, batch


class Watched(RealFileSystem):
    """A file system that records the names of synced files."""

    def __init__(self) -> None:
        self._paths: dict[int, Path] = {}
        self._synced: list[str] = []

    def open(self, path: Path, /) -> int:
        descriptor = super().open(path)
        self._paths[descriptor] = path
        return descriptor

    def duplicate(self, descriptor: int, /) -> int:  # type: ignore[override]
        duplicate = super().duplicate(descriptor)
        self._paths[duplicate] = self._paths[descriptor]
        return duplicate

    def sync(self, descriptor: int, /) -> None:  # type: ignore[override]
        super().sync(descriptor)
        self._synced.append(self._paths[descriptor].name)

    def sync_directory(self, directory: Path, /) -> None:
        super().sync_directory(directory)
        self._synced.append(directory.name)

    def synced(self) -> list[str]:
        """Return the names synced since the last call."""
        synced, self._synced = self._synced, []
        return synced

    def synced_logs(self) -> int:
        """Return how many of the synced names were logs."""
        return sum(name.endswith(".log") for name in self.synced())


@pytest.fixture
def disk() -> Watched:
    return Watched()


def appended(log: PartitionLog, count: int, now_ms: int = NOW_MS) -> None:
    for _ in range(count):
        log.append([batch()], log.log_end_offset, 0, now_ms)


def opened(disk: Watched, directory: Path, **config: Any) -> PartitionLog:
    log = PartitionLog.open(directory / "t-0", LogConfig(**config), clean=True, files=disk)
    appended(log, 1)
    disk.synced()
    return log


def test_flushes_are_left_to_the_operating_system_by_default(disk: Watched, tmp_path: Path) -> None:
    log = opened(disk, tmp_path)
    appended(log, 200)
    log.flush_if_due(NOW_MS + 10**12)
    assert disk.synced() == []
    log.close()


def test_flush_messages_limits_unflushed_records(disk: Watched, tmp_path: Path) -> None:
    log = opened(disk, tmp_path, flush_messages=1)
    appended(log, 5)
    assert disk.synced_logs() == 5, "each append is on disk before anything is answered"
    log.close()
    log = opened(disk, tmp_path / "four", flush_messages=4)
    appended(log, 2)
    assert disk.synced() == []
    appended(log, 1)
    assert disk.synced_logs() == 1
    appended(log, 4)
    assert disk.synced_logs() == 1
    log.close()


def test_flush_ms_limits_the_age_of_unflushed_records(disk: Watched, tmp_path: Path) -> None:
    log = opened(disk, tmp_path, flush_ms=500)
    log.flush_if_due(NOW_MS + 499)
    assert disk.synced() == []
    log.flush_if_due(NOW_MS + 500)
    assert disk.synced_logs() == 1
    log.flush_if_due(NOW_MS + 10**6)
    assert disk.synced() == [], "nothing new, nothing to flush"
    log.close()


def test_full_segment_and_clean_shutdown_are_flushed(disk: Watched, tmp_path: Path) -> None:
    log = opened(disk, tmp_path, segment_bytes=3 * batch().size)
    appended(log, 3)
    assert disk.synced_logs() == 1
    log.close()
    assert disk.synced_logs() == 1


def test_new_epoch_needs_no_fsync(disk: Watched, tmp_path: Path) -> None:
    """Test a leader and a follower that truncates: a failover has thousands of them."""
    log = opened(disk, tmp_path)
    appended(log, 2)
    log.start_epoch(2, log.log_end_offset)
    log.append([batch()], log.log_end_offset, 2, NOW_MS)
    log.truncate_to(3)
    log.start_epoch(3, log.log_end_offset)
    log.append([batch()], log.log_end_offset, 3, NOW_MS)
    assert disk.synced() == []
    log.flush()
    first = disk.synced()
    log.flush()
    for once in ("leader-epoch-checkpoint.tmp", "t-0", tmp_path.name):
        first.remove(once)
    assert first == disk.synced(), "the file, its directory, and where that is: once"
    log.close()


def test_flush_makes_names_of_new_segments_durable(disk: Watched, tmp_path: Path) -> None:
    """Test that a file counts as durable only with its name."""
    log = opened(disk, tmp_path)
    log.flush()
    appended(log, 1)
    disk.synced()
    log.flush()
    assert "t-0" in disk.synced()
    log.close()


def test_clean_shutdown_marker_is_removed_durably(disk: Watched, tmp_path: Path) -> None:
    directory = Directory(tmp_path, disk)
    mark_clean_shutdown(directory)
    disk.synced()
    assert take_clean_shutdown(directory)
    assert disk.synced() == [tmp_path.name]


def test_removed_clean_shutdown_marker_is_synced_again(disk: Watched, tmp_path: Path) -> None:
    """Test a marker that a killed process removed without a sync: it may return."""
    directory = Directory(tmp_path, disk)
    assert not take_clean_shutdown(directory)
    assert disk.synced() == [tmp_path.name]


def test_unclean_log_is_durable_up_to_its_checkpoint(disk: Watched, tmp_path: Path) -> None:
    """Test bytes of a crash that may be in the page cache only, where the next crash would lose
    them. The segment was written to, even if the checkpoint is below (see PartitionLog.open)."""
    log = opened(disk, tmp_path)
    appended(log, 3)
    log.close(flush=False)
    log = PartitionLog.open(
        tmp_path / "t-0", LogConfig(), clean=False, recovery_point=2, files=disk
    )
    assert (log.recovery_point, log.log_end_offset) == (0, 4)
    disk.synced()
    log.flush()
    assert disk.synced_logs() == 1
    assert log.recovery_point == 4
    log.close()
