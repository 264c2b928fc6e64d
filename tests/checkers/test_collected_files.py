"""Files that were collected from servers are evidence only as they were collected."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.checkers.context.broker_logs import TOLD_MAX
from ackproof.checkers.verdict import CampaignResult
from tests.support.builders.checked_runs import (
    FAIL,
    PASS,
    checked,
    collected,
    replicas_of,
    verdicts,
)
from tests.support.builders.histories import history_of, write_campaign, write_digests
from tests.support.builders.raw_logs import batches, write_replicas

LOG = batches(2, 1)
LEADER_EPOCH_AT = 12
"""Its place in a batch: the CRC does not cover it."""
SEGMENT = "00000000000000000000.log"


def made(tmp_path: Path, *, digests: bool = True) -> Path:
    directory = write_campaign(tmp_path / "results", collected(digests=digests))
    write_replicas(replicas_of(directory), LOG, LOG, LOG)
    if digests:
        write_digests(directory)
    return directory


def segment(directory: Path, broker: int) -> Path:
    return replicas_of(directory) / f"broker-{broker}" / "t-0" / SEGMENT


def agreement(result: CampaignResult) -> bool | None:
    (found,) = (g for g in result.cells[0].guarantees if g.name == "replicas-agree")
    return found.held


def flip_epoch(path: Path) -> None:
    data = bytearray(path.read_bytes())
    (epoch,) = struct.unpack_from(">i", data, LEADER_EPOCH_AT)
    struct.pack_into(">i", data, LEADER_EPOCH_AT, epoch + 1)
    path.write_bytes(bytes(data))


def test_unaltered_copies_are_compared(tmp_path: Path) -> None:
    result = checked(made(tmp_path))
    assert verdicts(result) == {"c": PASS}
    assert agreement(result) is True
    assert result.findings == ()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "differs from the file that was collected": flip_epoch,
    "is missing": Path.unlink,
    "was not collected": lambda path: path.with_name("00000000000000000003.log").write_bytes(b"x"),
}


@pytest.mark.parametrize("words", DAMAGE)
def test_altered_copy_is_not_compared(tmp_path: Path, words: str) -> None:
    directory = made(tmp_path)
    DAMAGE[words](segment(directory, 2))
    result = checked(directory)
    assert verdicts(result) == {"c": PASS}
    assert agreement(result) is None
    assert any(words in finding and "broker-2" in finding for finding in result.findings)


def test_copy_without_planned_digests_is_believed(tmp_path: Path) -> None:
    """Results from before there were digests are checked as they were then."""
    directory = made(tmp_path, digests=False)
    flip_epoch(segment(directory, 2))
    assert verdicts(checked(directory)) == {"c": FAIL}


def test_missing_digests_leave_nothing_to_compare(tmp_path: Path) -> None:
    directory = made(tmp_path)
    for path in history_of(directory).glob("collected.*"):
        path.unlink()
    flip_epoch(segment(directory, 2))
    result = checked(directory)
    assert verdicts(result) == {"c": PASS}
    assert agreement(result) is None


def test_many_altered_files_are_counted(tmp_path: Path) -> None:
    directory = made(tmp_path)
    for number in range(TOLD_MAX + 4):
        (segment(directory, 1).parent / f"{number}.index").write_bytes(b"")
    told = [f for f in checked(directory).findings if "not read" in f]
    assert len(told) == TOLD_MAX + 1
    assert "4 further collected files" in told[-1]


def test_results_without_the_servers_files_tell_nothing_of_each(tmp_path: Path) -> None:
    directory = made(tmp_path)
    replicas_of(directory).rename(tmp_path / "elsewhere")
    result = checked(directory)
    assert not any("is missing" in finding for finding in result.findings)
    assert "run 1: replicas not compared: their logs are missing" in result.findings
    assert verdicts(result) == {"c": PASS}
    assert agreement(result) is None
