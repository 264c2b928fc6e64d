"""The rest of a log after a crash: everything up to the first unsound byte."""

import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.wire.batch import RecordBatch, parse_batch, parse_batches
from simulation.clients.producers import without_timestamps
from tests.support.builders.batches import NOW_MS, batch, encoded

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=100)
WHOLE = 10**9


def filled(directory: Path, count: int) -> list[RecordBatch]:
    """Return a log of ``count`` batches of two records that was never closed. Every third begins an
    epoch."""
    log = PartitionLog.open(directory, CONFIG, clean=True)
    for number in range(count):
        log.append([batch([b"a", b"b"])], 2 * number, number // 3, NOW_MS)
    found = everything(log)
    assert len(found) == count
    log.close(flush=False)
    return found


def everything(log: PartitionLog) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    offset = log.log_start_offset
    while part := parse_batches(log.read(offset, WHOLE, WHOLE)):
        found += part
        offset = part[-1].next_offset
    return found


def reopened(directory: Path, recovery_point: int = 0) -> list[RecordBatch]:
    log = PartitionLog.open(directory, CONFIG, clean=False, recovery_point=recovery_point)
    found = everything(log)
    assert log.log_end_offset == (found[-1].next_offset if found else 0)
    assert log.epochs.latest == (found[-1].leader_epoch if found else -1)
    log.append([batch()], log.log_end_offset, 99, NOW_MS)
    after = everything(log)
    assert after[:-1] == found
    log.close()
    log = PartitionLog.open(directory, CONFIG, clean=True)
    assert everything(log) == after, "what was cut off came back"
    log.close()
    return found


def last_segment(directory: Path) -> Path:
    return max(directory.glob("*.log"))


def test_last_segment_torn_at_every_byte(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    written = filled(origin, 9)
    segment = last_segment(origin)
    first = int(segment.stem)
    size = segment.stat().st_size
    assert first > 0, "there should be a segment before the last"
    assert size > 2 * written[0].size, "the last segment should have several batches"
    for cut in range(size):
        copy = tmp_path / "copy"
        shutil.copytree(origin, copy)
        os.truncate(copy / segment.name, cut)
        kept = cut // written[0].size
        assert reopened(copy) == written[: first // 2 + kept], f"cut at {cut}"
        shutil.rmtree(copy)


@pytest.mark.parametrize(
    "tail", [bytes(5), bytes(300), b"\xff" * 300], ids=["5 zeros", "zeros", "ones"]
)
def test_garbage_after_the_last_batch_is_truncated(tmp_path: Path, tail: bytes) -> None:
    written = filled(tmp_path / "a-0", 9)
    with last_segment(tmp_path / "a-0").open("ab") as file:
        file.write(tail)
    assert reopened(tmp_path / "a-0") == written


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_damage_in_an_old_segment_removes_all_later_batches(tmp_path: Path) -> None:
    written = filled(tmp_path / "a-0", 20)
    segments = sorted((tmp_path / "a-0").glob("*.log"))
    assert len(segments) >= 3
    flip(segments[1], written[0].size + 70)
    intact = int(segments[1].stem) // 2 + 1
    assert reopened(tmp_path / "a-0") == written[:intact]


def test_log_below_the_recovery_point_is_not_scanned(tmp_path: Path) -> None:
    written = filled(tmp_path / "a-0", 20)
    segments = sorted((tmp_path / "a-0").glob("*.log"))
    flip(segments[0], 70)
    recovered = PartitionLog.open(
        tmp_path / "a-0", CONFIG, clean=False, recovery_point=int(segments[1].stem)
    )
    assert recovered.log_end_offset == written[-1].next_offset
    recovered.close()
    assert reopened(tmp_path / "a-0", recovery_point=0) == []


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", ["removed", "torn", "of another log"])
def test_clean_start_rebuilds_a_bad_index(tmp_path: Path, suffix: str, damage: str) -> None:
    directory = tmp_path / "a-0"
    log = PartitionLog.open(directory, LogConfig(index_interval_bytes=100), clean=True)
    for number in range(40):
        log.append([batch(timestamps=[NOW_MS + 125 * number])], number, 0, NOW_MS)
    log.close()
    (path,) = directory.glob(f"*.{suffix}")
    good = path.read_bytes()
    if damage == "removed":
        path.unlink()
    elif damage == "torn":
        path.write_bytes(good[:-3])
    else:
        path.write_bytes(b"\0\0\0\1\x7f\xff\xff\xff" if suffix == "index" else b"")
    log = PartitionLog.open(directory, LogConfig(index_interval_bytes=100), clean=True)
    assert log.log_end_offset == 40
    assert log.offset_for_timestamp(NOW_MS + 125 * 30) == (30, NOW_MS + 125 * 30)
    assert len(parse_batches(log.read(35, WHOLE, WHOLE))) == 5
    log.close()
    assert path.read_bytes() == good


@pytest.mark.parametrize("entry", [(2**62, 1), (NOW_MS + 1, 1), (NOW_MS, 0), (NOW_MS, 10**6)])
def test_index_time_without_a_batch_is_ignored(tmp_path: Path, entry: tuple[int, int]) -> None:
    """Test the last entry, which is written when a segment is full.

    The segment may be flushed by then, and the checkpoint may say so. A power failure damages the
    entry, and below the recovery point the segment is not scanned.
    """
    filled(tmp_path / "a-0", 20)
    first, second, *_ = sorted((tmp_path / "a-0").glob("*.log"))
    index = first.with_suffix(".timeindex")
    good = index.read_bytes()
    index.write_bytes(struct.pack(">qi", *entry))
    log = PartitionLog.open(tmp_path / "a-0", CONFIG, clean=False, recovery_point=int(second.stem))
    assert log.max_timestamp == NOW_MS
    log.close()
    assert index.read_bytes() == good


def test_batches_without_timestamps_are_no_damage(tmp_path: Path, caplog) -> None:
    """Test truncations and starts. Batches with timestamps are still found."""
    directory = tmp_path / "a-0"
    config = LogConfig(index_interval_bytes=100)
    log = PartitionLog.open(directory, config, clean=True)
    for number in range(10):
        log.append([parse_batch(without_timestamps(encoded([b"v"])))], number, 0, NOW_MS)
    log.append([batch(), batch()], 10, 0, NOW_MS)
    log.truncate_to(8)
    assert (log.log_end_offset, log.max_timestamp) == (8, -1)
    log.close()
    # A recovery truncates at the damage; a start that trusts the indexes does not look there.
    flip(last_segment(directory), 70)
    log = PartitionLog.open(directory, config, clean=True)
    assert (log.log_end_offset, log.max_timestamp) == (8, -1)
    assert not caplog.records
    assert log.offset_for_timestamp(NOW_MS) is None
    log.append([batch()], 8, 0, NOW_MS)
    assert log.offset_for_timestamp(NOW_MS) == (8, NOW_MS)
    assert log.max_timestamp == NOW_MS
    log.close()


def test_indexes_pass_the_checks_of_kafkas_dump_tool(tmp_path: Path) -> None:
    """Test the rules of DumpLogSegments.

    An index entry points at the batch that ends with its offset. A time index entry has the
    greatest timestamp so far, of the batch that ends with its offset.
    """
    log = PartitionLog.open(tmp_path, LogConfig(index_interval_bytes=200), clean=True)
    for number in range(60):
        shuffled = NOW_MS + 125 * (number ^ 3)
        log.append([batch([b"x"] * 3, timestamps=[shuffled] * 3)], 3 * number, 0, NOW_MS)
    log.close()
    data = (tmp_path / f"{0:020d}.log").read_bytes()
    batches = parse_batches(data)
    position_of = {}
    position = 0
    for one in batches:
        position_of[one.last_offset] = position
        position += one.size
    index = (tmp_path / f"{0:020d}.index").read_bytes()
    entries = [
        (int.from_bytes(index[at : at + 4], "big"), int.from_bytes(index[at + 4 : at + 8], "big"))
        for at in range(0, len(index), 8)
    ]
    assert len(entries) > 5
    assert all(position_of[offset] == place for offset, place in entries)
    times = (tmp_path / f"{0:020d}.timeindex").read_bytes()
    greatest = {one.last_offset: one.max_timestamp for one in batches}
    assert len(times) > 12 * 5
    for at in range(0, len(times), 12):
        timestamp = int.from_bytes(times[at : at + 8], "big")
        offset = int.from_bytes(times[at + 8 : at + 12], "big")
        assert greatest[offset] == timestamp
        assert max(t for last, t in greatest.items() if last <= offset) == timestamp
    assert times[-12:-4] == max(greatest.values()).to_bytes(8, "big")


def test_orphaned_indexes_are_removed(tmp_path: Path) -> None:
    (tmp_path / f"{7:020d}.index").write_bytes(bytes(3))
    log = PartitionLog.open(tmp_path, CONFIG, clean=True)
    assert log.segment_base_offsets == (0,)
    log.close()
    assert not (tmp_path / f"{7:020d}.index").exists()


WRITER = """
import sys
from pathlib import Path
from tests.support.builders.batches import NOW_MS, batch
from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.partition_log import PartitionLog
log = PartitionLog.open(Path(sys.argv[1]), LogConfig(segment_bytes=5000), clean=True)
while True:
    log.append([batch([b"x" * 100] * 3)], log.log_end_offset, 4, NOW_MS)
    print(log.log_end_offset, flush=True)
"""


def test_kill_9_keeps_appended_records(tmp_path: Path) -> None:
    project = Path(__file__).parents[2]
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "a-0")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(project)},
    )
    with writer:
        assert writer.stdout is not None
        appended = [int(writer.stdout.readline()) for _ in range(200)]
        writer.send_signal(signal.SIGKILL)
        appended += [int(line) for line in writer.stdout]
    log = PartitionLog.open(tmp_path / "a-0", CONFIG, clean=False)
    assert log.log_end_offset >= appended[-1]
    assert len(everything(log)) * 3 == log.log_end_offset
    log.close()
