"""That data is fsynced when it has to be, seen from the calls that the interpreter makes."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from batches import NOW_MS, batch

from broker.log.checkpoints import mark_clean_shutdown, take_clean_shutdown
from broker.log.config import LogConfig
from broker.log.partition_log import PartitionLog


class Fsyncs:
    """Files fsynced so far, by their names."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called is os.fsync:
            self.names += [_name_of(frame)]

    def of_logs(self) -> int:
        return sum(name.endswith(".log") for name in self.names)


def _name_of(frame: FrameType) -> str:
    """The file whose descriptor the calling code has at hand."""
    owner = frame.f_locals.get("self")
    descriptor = getattr(owner, "_log", None) or getattr(owner, "_descriptor", None)
    found = frame.f_locals.get("descriptor", descriptor)
    return "" if found is None else Path(f"/proc/self/fd/{found}").resolve().name


@contextlib.contextmanager
def fsyncs() -> Iterator[Fsyncs]:
    """Watches ``os.fsync`` while the context lasts."""
    seen = Fsyncs()
    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        yield seen
    finally:
        sys.setprofile(before)


def appended(log: PartitionLog, count: int, now_ms: int = NOW_MS) -> None:
    for _ in range(count):
        log.append([batch()], log.log_end_offset, 0, now_ms)


def opened(directory: Path, **config: Any) -> PartitionLog:
    log = PartitionLog.open(directory / "t-0", LogConfig(**config), clean=True)
    appended(log, 1)  # the leader epoch's checkpoint is written durably by the first one
    return log


def test_by_default_it_is_left_to_the_operating_system(tmp_path: Path) -> None:
    log = opened(tmp_path)
    with fsyncs() as seen:
        appended(log, 200)
        log.flush_if_due(NOW_MS + 10**12)
    assert seen.names == []
    log.close()


def test_flush_messages(tmp_path: Path) -> None:
    log = opened(tmp_path, flush_messages=1)
    with fsyncs() as seen:
        appended(log, 5)
    assert seen.of_logs() == 5, "each append is on disk before anything is answered"
    log.close()
    log = opened(tmp_path / "four", flush_messages=4)
    with fsyncs() as seen:
        appended(log, 2)
        assert seen.names == []
        appended(log, 1)
        assert seen.of_logs() == 1
        appended(log, 4)
    assert seen.of_logs() == 2
    log.close()


def test_flush_ms(tmp_path: Path) -> None:
    log = opened(tmp_path, flush_ms=500)
    with fsyncs() as seen:
        log.flush_if_due(NOW_MS + 499)
        assert seen.names == []
        log.flush_if_due(NOW_MS + 500)
        assert seen.of_logs() == 1
        log.flush_if_due(NOW_MS + 10**6)
    assert seen.of_logs() == 1, "nothing new, nothing to flush"
    log.close()


def test_a_full_segment_and_a_good_end_are_flushed(tmp_path: Path) -> None:
    log = opened(tmp_path, segment_bytes=3 * batch().size)
    with fsyncs() as seen:
        appended(log, 3)
    assert seen.of_logs() == 1
    with fsyncs() as seen:
        log.close()
    assert seen.of_logs() == 1


def test_a_new_epoch_costs_no_fsync(tmp_path: Path) -> None:
    """Neither on the leader nor on a follower that is cut: a failover is thousands of them."""
    log = opened(tmp_path)
    appended(log, 2)
    with fsyncs() as seen:
        log.start_epoch(2, log.log_end_offset)
        log.append([batch()], log.log_end_offset, 2, NOW_MS)
        log.truncate_to(3)
        log.start_epoch(3, log.log_end_offset)
        log.append([batch()], log.log_end_offset, 3, NOW_MS)
    assert seen.names == []
    with fsyncs() as first:
        log.flush()
    with fsyncs() as second:
        log.flush()
    assert len(first.names) == len(second.names) + 2, "the file and its directory, once"
    log.close()


def test_a_flush_makes_the_names_of_new_segments_durable_too(tmp_path: Path) -> None:
    """A file whose name is not on disk is not on disk."""
    log = opened(tmp_path)
    log.flush()
    appended(log, 1)
    with fsyncs() as seen:
        log.flush()
    assert "t-0" in seen.names
    log.close()


def test_the_marker_of_a_good_end_is_gone_for_good(tmp_path: Path) -> None:
    mark_clean_shutdown(tmp_path)
    with fsyncs() as seen:
        assert take_clean_shutdown(tmp_path)
    assert seen.names == [tmp_path.name]
    assert not take_clean_shutdown(tmp_path)


def test_a_log_that_was_not_closed_well_is_durable_as_far_as_was_said(tmp_path: Path) -> None:
    """What a crash left in the file may be in the system's hands only, and the next one take it."""
    log = opened(tmp_path)
    appended(log, 3)
    log.close(flush=False)
    log = PartitionLog.open(tmp_path / "t-0", LogConfig(), clean=False, recovery_point=2)
    assert (log.recovery_point, log.log_end_offset) == (2, 4)
    with fsyncs() as seen:
        log.flush()
    assert seen.of_logs() == 1
    assert log.recovery_point == 4
    log.close()
