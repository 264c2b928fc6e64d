"""Indexes of closed segments with a flipped bit: reads must follow the log, and stay as they were.

A start trusts each index entry that is in order, because there may be thousands of logs.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.wire.batch import parse_batches
from tests.support.builders.batches import NOW_MS, batch
from tests.support.worlds.replica_hosts import overwrite

CONFIG = LogConfig(segment_bytes=1600, index_interval_bytes=150)
COUNT = 28
WHOLE = 10**9


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """Return a log of three segments, with batches of one to three records, a second apart."""
    made = tmp_path_factory.mktemp("log") / "a-0"
    log = opened(made)
    for number in range(COUNT):
        times = [NOW_MS + 1000 * number] * (1 + number % 3)
        log.append(
            [batch([b"v" * 20] * len(times), timestamps=times)], log.log_end_offset, 0, NOW_MS
        )
    assert log.log_end_offset == 55
    log.close()
    assert len(list(made.glob("*.log"))) == 3
    return made


def opened(directory: Path) -> PartitionLog:
    return PartitionLog.open(directory, CONFIG, clean=True)


BITS = pytest.mark.parametrize("bits", [1, pytest.param(8, marks=pytest.mark.long)])
"""The number of bits of each byte that are flipped. One after the other takes a minute."""


def turned_over(path: Path, bits: int) -> Iterator[str]:
    """Flip ``bits`` bits of each byte in turn, and restore the byte afterwards."""
    content = path.read_bytes()
    assert len(content) >= 3 * 8
    for at, byte in enumerate(content):
        for bit in (number % 8 for number in range(at, at + bits)):
            overwrite(path, at, bytes([byte ^ 1 << bit]))
            yield f"bit {bit} of byte {at}"
            path.write_bytes(content)


def reads_of(log: PartitionLog) -> dict[object, object]:
    """Return the reads of the log in pieces of several sizes, below several bounds, and by time."""
    end = log.log_end_offset
    reads: dict[object, object] = {
        (offset, size, bound): bytes(log.read(offset, size, bound))
        for offset in range(end)
        for size in (400, WHOLE)
        for bound in range(offset + 1, end + 1, 27)
    }
    times = range(NOW_MS - 500, NOW_MS + 1000 * COUNT, 500)
    return reads | {at: log.offset_for_timestamp(at) for at in times}


@BITS
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("segment", [0, 1])
def test_damaged_index_does_not_change_reads(
    directory: Path, segment: int, suffix: str, bits: int
) -> None:
    intact = opened(directory)
    expected = reads_of(intact)
    intact.close()
    sizes = {len(parse_batches(data)) for data in expected.values() if isinstance(data, bytes)}
    assert max(sizes) > 5, "reads go over entries of the index"
    path = sorted(directory.glob(f"*.{suffix}"))[segment]
    for which in turned_over(path, bits):
        log = opened(directory)
        found = reads_of(log)
        log.close()
        assert found == expected, which


@BITS
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_log_with_a_damaged_index_is_truncated_and_continues(
    directory: Path, tmp_path: Path, suffix: str, bits: int
) -> None:
    """Test a truncation that makes an unchecked index entry the last one: a follower that could not
    truncate its log would halt."""

    def cut(offset: int) -> object:
        copy = tmp_path / "copy" / "a-0"
        shutil.copytree(directory, copy)
        log = opened(copy)
        log.truncate_to(offset)
        log.append([batch([b"another"])], log.log_end_offset, 0, NOW_MS)
        found = reads_of(log)
        log.close()
        shutil.rmtree(copy)
        return found

    path = sorted(directory.glob(f"*.{suffix}"))[1]
    base = int(path.stem)
    expected = {offset: cut(offset) for offset in (base + 5, base + 14)}
    for which in turned_over(path, bits):
        for offset, intact in expected.items():
            assert cut(offset) == intact, f"{which}, cut to {offset}"
