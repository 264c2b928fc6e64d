"""A log that was deleted leaves nothing to the next one of its name."""

from pathlib import Path

from batches import NOW_MS, batch

from broker.log.config import LogConfig
from broker.log.manager import LogManager
from broker.types import TopicPartition

TP = TopicPartition("t", 0)


def opened(directory: Path) -> LogManager:
    return LogManager([directory], lambda _: LogConfig())


def test_neither_its_high_watermark_nor_its_start(tmp_path: Path) -> None:
    """Believed, the start would have a shorter log begin anew behind its own end after a crash."""
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


def test_a_log_that_lost_all_above_its_start_begins_anew_there(tmp_path: Path) -> None:
    """Records were deleted up to 5, which was noted; power failed, and left it 3 of them."""
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
