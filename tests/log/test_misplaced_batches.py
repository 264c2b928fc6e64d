"""Batches with a flipped bit in the base offset, which no CRC covers: such a batch is damaged."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, parse_batch, parse_batches
from tests.support.builders.batches import NOW_MS, batch, encoded
from tests.support.worlds.replica_hosts import overwrite

CONFIG = LogConfig(index_interval_bytes=200)
COUNT = 12
WHOLE = 10**9

Turned = Callable[[int], int]


def one_bit_less(offset: int) -> int:
    return offset & (offset - 1)


BOTH_WAYS = pytest.mark.parametrize(
    "turned",
    [one_bit_less, lambda offset: offset + 32, lambda offset: offset + 2**40],
    ids=["downwards", "upwards", "far upwards"],
)
"""The flipped bits. No offset of these logs is above 31."""


def filled(directory: Path, config: LogConfig = CONFIG) -> list[RecordBatch]:
    """Return batches of one or two records in turn, from a log closed in order."""
    log = opened(directory, config)
    for number in range(COUNT):
        log.append([batch([b"v"] * (1 + number % 2))], log.log_end_offset, 0, NOW_MS)
    found = list(parse_batches(log.read(0, WHOLE, WHOLE)))
    log.close()
    return found


def opened(directory: Path, config: LogConfig = CONFIG, *, clean: bool = True) -> PartitionLog:
    return PartitionLog.open(directory, config, clean=clean)


def damage(directory: Path, written: list[RecordBatch], number: int, offset: int) -> None:
    """Give a batch another offset on the disk."""
    (path,) = directory.glob("*.log")
    position = sum(before.size for before in written[:number])
    overwrite(path, position, offset.to_bytes(8, "big"))


@BOTH_WAYS
@pytest.mark.parametrize("number", range(1, COUNT))
def test_read_never_returns_a_batch_of_another_offset(
    tmp_path: Path, number: int, turned: Turned
) -> None:
    """Test that a read does not return nothing for ever, which would look like the end of the
    log."""
    written = filled(tmp_path)
    log = opened(tmp_path)
    damage(tmp_path, written, number, turned(written[number].base_offset))
    refused = set()
    for index, each in enumerate(written):
        for offset in range(each.base_offset, each.next_offset):
            try:
                data = log.read(offset, 1, WHOLE)
            except CorruptBatch:
                refused.add(index)
            else:
                assert bytes(data) == bytes(each.raw)
    assert number in refused
    # The batches before it are readable, and those behind the next entry of the index.
    assert refused <= set(range(number, number + 4))
    log.close()


@BOTH_WAYS
@pytest.mark.parametrize("number", range(1, COUNT - 1))
def test_recovery_truncates_the_log_at_a_misplaced_batch(
    tmp_path: Path, number: int, turned: Turned
) -> None:
    written = filled(tmp_path)
    damage(tmp_path, written, number, turned(written[number].base_offset))
    log = opened(tmp_path, clean=False)
    assert log.log_end_offset == written[number].base_offset
    assert list(parse_batches(log.read(0, WHOLE, WHOLE))) == written[:number]
    log.close()


def test_log_with_a_misplaced_last_batch_ends_before_it(tmp_path: Path) -> None:
    """Test that later records do not get offsets of existing ones."""
    written = filled(tmp_path)
    damage(tmp_path, written, COUNT - 1, one_bit_less(written[-1].base_offset))
    log = opened(tmp_path)
    assert log.log_end_offset == written[-1].base_offset
    log.close()


@BOTH_WAYS
@pytest.mark.parametrize("number", range(1, COUNT))
def test_log_is_truncated_despite_damage(tmp_path: Path, number: int, turned: Turned) -> None:
    """Test a follower, which could not start if its log could not be truncated."""
    written = filled(tmp_path)
    log = opened(tmp_path)
    damage(tmp_path, written, number, turned(written[number].base_offset))
    log.truncate_to(written[number].base_offset)
    end = log.log_end_offset
    assert end == written[number].base_offset
    log.append([batch([b"another"])], end, 1, NOW_MS)
    found = parse_batches(log.read(0, WHOLE, WHOLE), from_offset=0)
    assert list(found[:number]) == written[:number]
    assert b"another" in bytes(found[number].raw)
    log.close()


@pytest.mark.parametrize("entry", range(2))
@pytest.mark.parametrize("part", ["offset", "position"])
def test_damaged_index_does_not_affect_reads(tmp_path: Path, entry: int, part: str) -> None:
    written = filled(tmp_path)
    (index,) = tmp_path.glob("*.index")
    content = index.read_bytes()
    assert len(content) == 3 * 8, "the last one is compared when the log is opened"
    at = 8 * entry + (3 if part == "offset" else 7)
    overwrite(index, at, bytes([content[at] ^ 1]))
    log = opened(tmp_path)
    for each in written:
        for offset in range(each.base_offset, each.next_offset):
            assert bytes(log.read(offset, 1, WHOLE)) == bytes(each.raw)
    log.close()


def test_offset_gap_is_no_damage(tmp_path: Path) -> None:
    log = opened(tmp_path)
    for offset in (0, 5, 6, 9):
        sent = parse_batch(encoded([b"v" * 100], base_offset=offset))
        log.append([sent], offset, None, NOW_MS)
    log.close()
    for clean in (True, False):
        log = opened(tmp_path, clean=clean)
        firsts = [parse_batches(log.read(at, 1, WHOLE))[0].base_offset for at in range(10)]
        assert firsts == [0, 5, 5, 5, 5, 5, 6, 9, 9, 9]
        log.close(flush=False)


def test_misplaced_batch_counts_as_damaged() -> None:
    def data(*offsets: int) -> bytes:
        return b"".join(encoded([b"a", b"b"], base_offset=offset) for offset in offsets)

    for offset in (4, 5):
        assert len(parse_batches(data(4, 6, 8), from_offset=offset)) == 3
    assert parse_batches(b"", from_offset=4) == ()
    for wrong in (
        ((4, 6), 3),
        ((4, 6), 6),
        ((4, 4), 4),
        ((4, 7), 4),
        ((4, 0, 8), 5),
        ((4, 6, 72), 4),
    ):
        offsets, asked = wrong
        with pytest.raises(CorruptBatch, match="expected"):
            parse_batches(data(*offsets), from_offset=asked)
