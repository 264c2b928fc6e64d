import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.partition_log import OffsetOutOfRange, PartitionLog
from ackproof.broker.wire.batch import parse_batch, parse_batches, with_append_time
from tests.support.builders.batches import NOW_MS, batch, encoded

WHOLE = 10**9


def opened(directory: Path, **config: object) -> PartitionLog:
    return PartitionLog.open(directory, LogConfig(**config), clean=True)  # type: ignore[arg-type]


def fill(log: PartitionLog, count: int, spacing_ms: int = 125) -> None:
    for _ in range(count):
        moment = NOW_MS + spacing_ms * log.log_end_offset
        log.append([batch(timestamps=[moment])], log.log_end_offset, 0, moment)


def test_segments_roll_by_size_index_and_age(tmp_path: Path) -> None:
    one = batch().size
    by_size = opened(tmp_path / "size", segment_bytes=3 * one)
    by_index = opened(tmp_path / "index", index_interval_bytes=one, segment_index_bytes=24)
    by_age = opened(tmp_path / "age", segment_ms=1000)
    for log in (by_size, by_index, by_age):
        fill(log, 12)
        log.close(flush=False)
    assert sorted(int(path.stem) for path in (tmp_path / "size").glob("*.log")) == [0, 3, 6, 9]
    # an entry for every second batch after the first; two of 12 bytes fill the time index
    assert sorted(int(path.stem) for path in (tmp_path / "index").glob("*.log")) == [0, 5, 10]
    assert sorted(int(path.stem) for path in (tmp_path / "age").glob("*.log")) == [0, 9]


def test_offset_too_far_for_the_index_rolls_the_segment(tmp_path: Path) -> None:
    log = opened(tmp_path)
    far = 2**31 + 5
    for offset in (0, far):
        log.append([parse_batch(encoded([b"v"], base_offset=offset))], offset, None, NOW_MS)
    assert log.segment_base_offsets == (0, far)
    assert parse_batches(log.read(1, WHOLE, far + 1))[0].base_offset == far
    log.close()


def test_truncated_records_are_not_read_from_memory(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for offset, value in enumerate((b"first", b"cut")):
        log.append([batch([value])], offset, 0, NOW_MS)
    assert b"cut" in bytes(log.read(1, WHOLE, WHOLE))
    assert log.read(1, 1, WHOLE, at_least_one=False) == b""
    assert log.read(1, WHOLE, 1) == b""
    log.truncate_to(1)
    assert log.read(1, WHOLE, WHOLE) == b""
    assert b"first" in bytes(log.read(0, WHOLE, WHOLE))
    log.append([batch([b"another"])], 1, 1, NOW_MS)
    assert b"another" in bytes(log.read(1, WHOLE, WHOLE))
    log.close()


def test_lookup_by_time_uses_log_append_time(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append([with_append_time(batch([b"a", b"b"]), NOW_MS + 777)], 0, 1, NOW_MS)
    assert log.offset_for_timestamp(NOW_MS + 1) == (0, NOW_MS + 777)
    log.close()


def test_lookup_by_time_finds_a_record_inside_a_batch(tmp_path: Path) -> None:
    log = opened(tmp_path)
    moments = [NOW_MS, NOW_MS + 500, NOW_MS + 250, NOW_MS + 1000]
    log.append([batch([b"v"] * 4, timestamps=moments)], 10, 0, NOW_MS)
    assert log.offset_for_timestamp(NOW_MS + 126) == (11, NOW_MS + 500)
    assert log.offset_for_timestamp(NOW_MS + 501) == (13, NOW_MS + 1000)
    assert log.offset_for_timestamp(NOW_MS + 1001) is None
    log.advance_log_start(12)
    assert log.offset_for_timestamp(0) == (12, NOW_MS + 250)
    log.close()


def test_greatest_timestamp_is_of_an_existing_record(tmp_path: Path) -> None:
    """Test a deleted youngest record whose segment and even batch stay for the remaining
    records."""
    log = opened(tmp_path)
    log.append([batch([b"v"] * 3, timestamps=[NOW_MS, NOW_MS + 1_000, NOW_MS + 300])], 0, 0, NOW_MS)
    log.append([batch([b"v"], timestamps=[NOW_MS + at]) for at in (200, 500, 100)], 3, 0, NOW_MS)
    there = [NOW_MS, NOW_MS + 1_000, *(NOW_MS + at for at in (300, 200, 500, 100))]
    for start in range(len(there)):
        log.advance_log_start(start)
        assert log.max_timestamp == max(there[start:])
    log.advance_log_start(len(there))
    assert log.max_timestamp == -1
    log.close()


def test_retention_by_age_empties_an_old_log(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=3 * batch().size, retention_ms=1000)
    fill(log, 10)
    log.delete_old_segments(10, NOW_MS + 125 * 5 + 1001)
    assert (log.log_start_offset, log.segment_base_offsets) == (6, (6, 9))
    log.delete_old_segments(8, NOW_MS + 10**6)
    assert log.log_start_offset == 6, "not above the high watermark"
    log.delete_old_segments(10, NOW_MS + 10**6)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (10, 10, 0)
    assert log.segment_base_offsets == (10,)
    log.close()


def test_retention_by_size_keeps_enough(tmp_path: Path) -> None:
    one = batch().size
    log = opened(tmp_path, segment_bytes=3 * one, retention_ms=-1, retention_bytes=5 * one)
    fill(log, 10)
    log.delete_old_segments(10, NOW_MS + 10**12)
    assert log.segment_base_offsets == (3, 6, 9)
    log.close()


def test_deleted_records_stay_deleted_after_a_restart(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=3 * batch().size, retention_ms=-1)
    fill(log, 10)
    with pytest.raises(OffsetOutOfRange, match="11 is above 10"):
        log.advance_log_start(11)
    log.advance_log_start(7)
    log.advance_log_start(2)
    log.delete_old_segments(10, NOW_MS)
    log.close()
    log = PartitionLog.open(tmp_path, LogConfig(), clean=True, log_start_offset=7)
    assert (log.log_start_offset, log.segment_base_offsets) == (7, (6, 9))
    with pytest.raises(OffsetOutOfRange, match="6 is not in 7 to 10"):
        log.read(6, WHOLE, WHOLE)
    log.close()


def test_flush_moves_the_recovery_point(tmp_path: Path) -> None:
    log = opened(tmp_path, flush_messages=4, flush_ms=500)
    fill(log, 3)
    assert log.recovery_point == 0
    fill(log, 1)
    assert log.recovery_point == 4
    fill(log, 1)
    waiting_since = NOW_MS + 125 * 4
    log.flush_if_due(waiting_since + 499)
    assert log.recovery_point == 4
    log.flush_if_due(waiting_since + 500)
    assert log.recovery_point == 5
    log.truncate_to(2)
    assert log.recovery_point == 2
    log.close()


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Limit the file size. Use it only around the append, since pytest's own output may go to a
    file, too."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_failed_append_leaves_no_torn_batch(tmp_path: Path) -> None:
    limit = 400
    log = opened(tmp_path)
    with file_size_limit(limit), pytest.raises(OSError, match="File too large"):
        fill(log, 100)
    count = limit // batch().size
    assert log.log_end_offset == count
    assert (tmp_path / f"{0:020d}.log").stat().st_size == count * batch().size == log.size
    assert log.read(0, 10**6, count), "what there is can be read"
    for change in (lambda: fill(log, 1), log.flush, lambda: log.truncate_to(0), log.close):
        with pytest.raises(OSError, match="an earlier operation failed"):
            change()
    log.close(flush=False)
    log = opened(tmp_path)
    fill(log, 1)
    assert log.log_end_offset == count + 1
    log.close()


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ({"message_timestamp_type": "Now"}, "message.timestamp.type"),
        ({"segment_bytes": 0}, "segment.bytes"),
    ],
)
def test_error_names_the_bad_setting(setting: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        LogConfig(**setting)  # type: ignore[arg-type]


def test_truncation_at_the_end_drops_an_epoch_without_records(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    fill(log, 3)
    log.start_epoch(1, 3)
    log.truncate_to(4)
    assert log.epochs.entries == ((0, 0), (1, 3))
    log.truncate_to(3)
    assert log.epochs.entries == ((0, 0),)
    assert log.log_end_offset == 3
    log.close()
