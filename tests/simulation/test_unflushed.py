"""FlushedAsSet: of a log whose flushes are watched, and some of which do not come."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from batches import batch

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk.steps import Steps, carry_out
from ackproof.broker.log.flushing import Flushing
from ackproof.broker.log.partition_log import PartitionLog
from simulation.machines.disk import MemoryDisk
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.logs.unflushed import Unflushed
from simulation.violation import Violation

pytestmark = pytest.mark.simulation


@pytest.fixture
def unflushed() -> Iterator[Unflushed]:
    """It hears of all flushes."""
    made = Unflushed()
    with Mutation(Swap(Flushing, "steps", made.counted(Flushing.steps))).active():
        yield made


@pytest.fixture
def later() -> list[Steps]:
    """What was put off."""
    return []


@pytest.fixture
def log(later: list[Steps], unflushed: Unflushed) -> PartitionLog:  # noqa: ARG001
    disk, config = MemoryDisk(Random(1)), LogConfig(flush_ms=500)
    disk.make_directory(Path("/logs"))
    path = Path("/logs/t-0")
    return PartitionLog.open(path, config, clean=True, files=disk, later=later.append)


def append(unflushed: Unflushed, log: PartitionLog, now_ms: int) -> None:
    begin = log.log_end_offset
    log.append([batch()], begin, 0, now_ms)
    unflushed.appended(log, begin, now_ms)


def look(unflushed: Unflushed, log: PartitionLog, now_ms: int) -> None:
    log.flush_if_due(now_ms)
    unflushed.looked(log, now_ms)


def refused(what: str) -> Any:
    return pytest.raises(Violation, match=f"FlushedAsSet: t-0: .*{what}")


def test_no_more_records_wait_than_are_to(unflushed: Unflushed, log: PartitionLog) -> None:
    log.config = LogConfig(flush_messages=2)
    for _ in range(5):
        append(unflushed, log, 0)
    assert log.recovery_point == 4
    log.config = LogConfig()
    append(unflushed, log, 0)
    log.config = LogConfig(flush_messages=2)
    with refused("2 records wait for the disk, flush.messages is 2"):
        unflushed.appended(log, 5, 0)


def test_no_record_waits_for_longer_than_it_is_to(
    unflushed: Unflushed, log: PartitionLog, later: list[Steps]
) -> None:
    append(unflushed, log, 0)
    append(unflushed, log, 400)
    for now_ms in (499, 500, 9_000):
        look(unflushed, log, now_ms)
    while later:
        carry_out(later.pop(0))
    append(unflushed, log, 9_000)
    for now_ms in (9_000, 9_499):
        look(unflushed, log, now_ms)
    with refused("offset 2 waits for the disk for 500 ms and nobody flushes it"):
        unflushed.looked(log, 9_500)


def test_what_was_cut_off_waits_no_more_and_what_is_left_does(
    unflushed: Unflushed, log: PartitionLog
) -> None:
    for now_ms in (0, 400, 450):
        append(unflushed, log, now_ms)
    log.flushing._since = None
    log.truncate_to(2)
    unflushed.looked(log, 499)
    append(unflushed, log, 700)
    with refused("offset 0 waits for the disk for 700 ms"):
        unflushed.looked(log, 700)
    log.truncate_to(0)
    append(unflushed, log, 800)
    unflushed.looked(log, 1_299)
    with refused("offset 0 waits for the disk for 500 ms"):
        unflushed.looked(log, 1_300)


def test_a_disk_that_has_failed_keeps_nothing(unflushed: Unflushed, log: PartitionLog) -> None:
    append(unflushed, log, 0)
    log.flushing.fail()
    unflushed.looked(log, 9_000)
