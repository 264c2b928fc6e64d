"""A deleted log leaves nothing to the next one of its name."""

from pathlib import Path

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.types import ProducerId, TopicPartition
from tests.support.builders.batches import NOW_MS, batch

TP = TopicPartition("t", 0)


def opened(directory: Path) -> LogManager:
    return LogManager([directory], lambda _: LogConfig())


def test_new_log_has_neither_former_high_watermark_nor_start(tmp_path: Path) -> None:
    """Test a start that after a crash would make a shorter log begin behind its own end."""
    logs = opened(tmp_path)
    former = logs.create(TP)
    for _ in range(10):
        former.append([batch()], former.log_end_offset, 0, NOW_MS)
    former.advance_log_start(8)
    former.flush()
    logs.checkpoint_high_watermarks({TP: 9})
    logs.checkpoint_log_starts()
    logs.checkpoint_recovery_points()
    logs.delete(TP)
    successor = logs.create(TP)
    assert logs.high_watermark(TP) == 0
    for _ in range(3):
        successor.append([batch()], successor.log_end_offset, 0, NOW_MS)
    logs.close(clean=False)
    logs = opened(tmp_path)
    assert (logs.logs[TP].log_start_offset, logs.logs[TP].log_end_offset) == (0, 3)
    assert logs.logs[TP].recovery_point == 0
    assert logs.high_watermark(TP) == 0
    logs.close()


def test_log_without_records_above_its_start_begins_there(tmp_path: Path) -> None:
    """Test records deleted up to 5, which the checkpoint has, and a power failure that left 3 of
    them."""
    logs = opened(tmp_path)
    log = logs.create(TP)
    for _ in range(6):
        log.append([batch()], log.log_end_offset, 0, NOW_MS)
    log.advance_log_start(5)
    logs.checkpoint_log_starts()
    log.truncate_to(3)
    logs.close(clean=False)
    logs = opened(tmp_path)
    log = logs.logs[TP]
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)
    log.append([batch()], 5, 0, NOW_MS)
    logs.close()
    assert opened(tmp_path).logs[TP].log_end_offset == 6


def files_of(directory: Path) -> list[Path]:
    return sorted((directory / "t-0").glob("*.log"))


def small(directory: Path, recovery_point: int | None = None) -> PartitionLog:
    return PartitionLog.open(
        directory / "t-0",
        LogConfig(segment_bytes=batch().size),
        clean=recovery_point is None,
        recovery_point=recovery_point or 0,
    )


def test_segment_with_the_recovery_point_is_scanned(tmp_path: Path) -> None:
    log = small(tmp_path)
    for _ in range(3):
        log.append([batch()], log.log_end_offset, 0, NOW_MS)
    log.close()
    damaged = files_of(tmp_path)[1]
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
    assert small(tmp_path, recovery_point=1).log_end_offset == 1


def test_batch_duplicated_in_the_file_is_read_once(tmp_path: Path) -> None:
    log = small(tmp_path)
    log.append([batch()], 0, 0, NOW_MS)
    log.close()
    (file,) = files_of(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole * 2)
    assert small(tmp_path, recovery_point=0).log_end_offset == 1
    assert file.read_bytes() == whole


def test_truncated_producer_state_is_not_restored_later(tmp_path: Path) -> None:
    log = small(tmp_path)
    for sequence in range(4):
        log.append([batch(producer=(7, 0, sequence))], log.log_end_offset, 0, NOW_MS)
    log.truncate_to(1)
    for sequence in range(4):
        log.append([batch(producer=(8, 0, sequence))], log.log_end_offset, 1, NOW_MS)
    known = log.producers.state.producers
    log.close(flush=False)
    found = small(tmp_path, recovery_point=0).producers.state.producers
    assert found == known
    assert found[ProducerId(7)].last.last_sequence == 0
