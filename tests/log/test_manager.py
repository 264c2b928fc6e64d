from pathlib import Path

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    Directory,
    MetaProperties,
    read_meta_properties,
    read_offsets,
    write_meta_properties,
)
from ackproof.broker.log.manager import LogDirectoryInUse, LogManager
from ackproof.broker.types import BrokerId, TopicPartition
from tests.support.builders.batches import NOW_MS, batch

ORDERS = TopicPartition("orders", 0)
DASHED = TopicPartition("a-b.c-1", 12)


def manager(*directories: Path) -> LogManager:
    return LogManager(directories, lambda _: LogConfig(segment_bytes=300, retention_ms=-1))


def fill(logs: LogManager, tp: TopicPartition, count: int) -> None:
    log = logs.create(tp)
    for _ in range(count):
        log.append([batch()], log.log_end_offset, 0, NOW_MS)


def test_clean_restart_keeps_the_logs(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    for tp in (ORDERS, DASHED):
        fill(logs, tp, 5)
    logs.logs[ORDERS].advance_log_start(2)
    logs.checkpoint_high_watermarks({ORDERS: 4, TopicPartition("unknown", 0): 9})
    logs.close()
    assert (tmp_path / CLEAN_SHUTDOWN).exists()
    assert (tmp_path / HIGH_WATERMARKS).read_text() == "0\n2\na-b.c-1 12 0\norders 0 4\n"
    assert read_offsets(Directory(tmp_path), RECOVERY_POINTS) == {ORDERS: 5, DASHED: 5}
    assert read_offsets(Directory(tmp_path), LOG_STARTS) == {ORDERS: 2, DASHED: 0}
    logs = manager(tmp_path)
    assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    assert set(logs.logs) == {ORDERS, DASHED}
    assert (logs.high_watermark(ORDERS), logs.high_watermark(DASHED)) == (4, 0)
    assert (logs.logs[ORDERS].log_start_offset, logs.logs[ORDERS].log_end_offset) == (2, 5)
    logs.close()


@pytest.mark.parametrize("clean", [True, False])
def test_only_an_unclean_start_scans_the_logs(tmp_path: Path, clean: bool) -> None:
    logs = manager(tmp_path)
    fill(logs, ORDERS, 2)
    logs.close(clean=clean)
    (segment,) = (tmp_path / "orders-0").glob("*.log")
    content = segment.read_bytes()
    segment.write_bytes(content[:-1] + b"\xff")
    if not clean:
        assert not (tmp_path / CLEAN_SHUTDOWN).exists()
    logs = manager(tmp_path)
    assert logs.logs[ORDERS].log_end_offset == (2 if clean else 1)
    logs.close()


def test_recovery_starts_at_the_checkpoint(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    fill(logs, ORDERS, 12)
    logs.logs[ORDERS].flush()
    logs.checkpoint_recovery_points()
    logs.close(clean=False)
    first = min((tmp_path / "orders-0").glob("*.log"))
    first.write_bytes(first.read_bytes()[:-1] + b"\xff")
    logs = manager(tmp_path)
    assert logs.logs[ORDERS].log_end_offset == 12
    logs.close()


def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    with pytest.raises(LogDirectoryInUse, match=str(tmp_path)):
        manager(tmp_path)
    logs.close()
    manager(tmp_path).close()


def test_deleted_partition_returns_empty(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    long = TopicPartition("t" * 249, 3)
    for tp in (ORDERS, long):
        fill(logs, tp, 3)
        logs.checkpoint_high_watermarks({tp: 3})
        logs.delete(tp)
        assert logs.get(tp) is None
        assert not [path for path in tmp_path.iterdir() if path.is_dir()]
        logs.delete(tp)
    assert read_offsets(Directory(tmp_path), HIGH_WATERMARKS) == {}
    fill(logs, ORDERS, 1)
    assert (logs.logs[ORDERS].log_end_offset, logs.high_watermark(ORDERS)) == (1, 0)
    logs.close()


def test_interrupted_deletion_is_finished_by_the_next_start(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    fill(logs, ORDERS, 3)
    logs.close(clean=False)
    (tmp_path / "orders-0").rename(tmp_path / "orders-0.0123abcd-delete")
    logs = manager(tmp_path)
    assert not logs.logs
    assert not (tmp_path / "orders-0.0123abcd-delete").exists()
    logs.close()


def test_lost_log_has_no_high_watermark(tmp_path: Path) -> None:
    logs = manager(tmp_path)
    fill(logs, ORDERS, 3)
    logs.checkpoint_high_watermarks({ORDERS: 3})
    logs.close()
    (tmp_path / "orders-0").rename(tmp_path.parent / "lost")
    logs = manager(tmp_path)
    assert logs.high_watermark(ORDERS) == 0
    logs.close()


def test_new_partition_goes_to_the_emptiest_directory(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    logs = manager(first, second)
    for number in range(4):
        fill(logs, TopicPartition("orders", number), 1)
    logs.checkpoint_high_watermarks({TopicPartition("orders", number): 1 for number in range(4)})
    logs.close()
    assert len(read_offsets(Directory(first), HIGH_WATERMARKS)) == 2
    logs = manager(first, second)
    assert len(logs.logs) == 4
    assert logs.high_watermark(TopicPartition("orders", 3)) == 1
    logs.close()


def test_damaged_checkpoint_stops_the_start_and_frees_the_lock(tmp_path: Path) -> None:
    (tmp_path / HIGH_WATERMARKS).write_text("0\n1\norders zero 5\n")
    for _ in range(2):
        with pytest.raises(CorruptCheckpoint, match="orders zero 5"):
            manager(tmp_path)


def test_meta_properties_are_kept(tmp_path: Path) -> None:
    assert read_meta_properties(Directory(tmp_path)) is None
    meta = MetaProperties(BrokerId(3), "kVzcnVwDQEi6cPWOTWnCAA")
    write_meta_properties(Directory(tmp_path), meta)
    assert read_meta_properties(Directory(tmp_path)) == meta
    for content in ("version=1\nbroker.id=3\ncluster.id=x\n", "version=0\nbroker.id=3\n", ""):
        (tmp_path / META_PROPERTIES).write_text(content)
        with pytest.raises(CorruptCheckpoint, match=META_PROPERTIES):
            read_meta_properties(Directory(tmp_path))
