"""Measures of a run: from its history alone, unknown if it lacks the evidence, and without a
verdict."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.checks import outages
from ackproof.checkers.verdict import Failover, Outages, Unavailable, Verdict, ZooKeeperWork
from ackproof.history.manifest import PlannedFailover
from tests.support.builders.checked_runs import checked
from tests.support.builders.histories import (
    ACKS_0,
    AFTER,
    BEFORE,
    COUNTED,
    DURING,
    Made,
    MadeRun,
    a_fault,
    acked,
    cell,
    counted,
    failed_over,
    history_of,
    kept,
    send,
    write_campaign,
)

T = ("t", 0)


def run(**changes: Any) -> MadeRun:
    return MadeRun(**{"partitions": {T: kept(BEFORE, DURING, AFTER)}, **changes})


def failovers(*partitions: int) -> list[PlannedFailover]:
    return [PlannedFailover(partitions=n, target="one", seed=n) for n in partitions]


def waiting(*moments: float, took: float) -> Made:
    """Records that waited so long for their acks."""
    sends, log = acked(*moments)
    sends = [
        send("invoke", 1, e.sequence, e.time - int(took * 1e9)) if e.type == "invoke" else e
        for e in sends
    ]
    return Made(sends=sends, log=log, end=len(log))


def test_the_outages_of_a_cell_are_those_of_its_partitions(tmp_path: Path) -> None:
    partitions = {
        T: waiting(BEFORE, DURING, AFTER, took=2),
        ("t", 1): waiting(BEFORE, DURING, AFTER, took=3),
    }
    faults = a_fault(partitions=("t-0", "t-1"))
    made = run(partitions=partitions, cells=(cell(partitions=2),), faults=faults)
    (found,) = checked(write_campaign(tmp_path, made)).cells
    assert found.unavailable is not None
    periods = found.unavailable.periods
    assert [(one.partition, one.length_ms, one.fault) for one in periods] == [
        ("t-1", 3000, "kill#1"),
        ("t-0", 2000, "kill#1"),
        ("t-1", 3000, None),
        ("t-0", 2000, None),
    ]
    assert all(one.acked for one in periods)
    assert [(one.end - one.start) // 1_000_000 for one in periods] == [3000, 2000, 3000, 2000]
    # The first ack ends no outage, it begins the looking.
    assert replace(found.unavailable, periods=()) == Unavailable(
        longest_ms=3000,
        total_ms=10_000,
        # From two and three seconds before the first ack to the last one.
        traffic_ms=round(2000 * (AFTER - BEFORE)) + 5000,
        by_fault=(
            Outages(fault=None, longest_ms=3000, total_ms=5000, partition="t-1"),
            Outages(fault="kill#1", longest_ms=3000, total_ms=5000, partition="t-1"),
        ),
    )


def test_acks_that_came_at_once_are_no_outage(tmp_path: Path) -> None:
    (found,) = checked(write_campaign(tmp_path, run())).cells
    assert found.unavailable is not None
    assert (found.unavailable.longest_ms, found.unavailable.total_ms) == (0, 0)
    assert found.unavailable.by_fault == ()


def test_unavailability_with_acks_0_is_unknown(tmp_path: Path) -> None:
    (found,) = checked(write_campaign(tmp_path, run(cells=(cell(ACKS_0),)))).cells
    assert found.unavailable is None


def test_unavailability_with_missing_sends_is_unknown(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    (path,) = history_of(directory).glob("sends.*")
    path.unlink()
    (found,) = checked(directory).cells
    assert found.unavailable is None


def test_unavailability_with_an_uncounted_partition_is_unknown() -> None:
    counted = {"unavailable": 5, "unavailable at most": 5, "traffic": 9}
    assert outages.unavailable({"t-0": counted, "t-1": counted}) is not None
    assert outages.unavailable({"t-0": counted, "t-1": {"acked": 3}}) is None
    assert outages.unavailable({}) is None


def test_zookeeper_requests_are_counted(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run(named={"cluster": "lazy"})))
    assert result.runs[0].cluster == {"cluster": "lazy"}
    assert result.runs[0].zookeeper == ZooKeeperWork(
        writes_to_create=30, writes_under_faults=12, watches=40
    )
    assert result.findings == ()


def test_an_ensembles_watches_are_those_of_all_its_servers(tmp_path: Path) -> None:
    rows = [
        counted(moment, zxid, watches, own=5, server=server)
        for moment, zxids in {"deployed": (9, 8), "ready": (19, 20)}.items()
        for server, zxid, watches in zip(
            ("zookeeper-1", "zookeeper-2"), zxids, (30, 4), strict=True
        )
    ]
    (one,) = checked(write_campaign(tmp_path, run(zookeeper=rows))).runs
    assert (one.zookeeper.watches, one.zookeeper.writes_to_create) == (29, 11)


@pytest.mark.parametrize("missing", ["deployed", "ready", "faults", "recovered"])
def test_missing_zookeeper_sample_leaves_dependent_counts_unknown(
    tmp_path: Path, missing: str
) -> None:
    rows = [row for row in COUNTED if row["moment"] != missing]
    result = checked(write_campaign(tmp_path, run(zookeeper=rows)))
    work = result.runs[0].zookeeper
    assert (work.writes_to_create is None) == (missing in ("deployed", "ready"))
    assert (work.writes_under_faults is None) == (missing in ("faults", "recovered"))
    assert (work.watches is None) == (missing == "ready")
    assert result.findings == (f"run 1: ZooKeeper's counters are unknown at: {missing}",)
    assert result.verdict is Verdict.PASS


def test_another_leader_of_the_ensemble_counts_from_0(tmp_path: Path) -> None:
    rows = [*COUNTED[:3], counted("recovered", (1 << 32) + 5)]
    (one,) = checked(write_campaign(tmp_path, run(zookeeper=rows))).runs
    assert one.zookeeper.writes_under_faults is None
    assert one.zookeeper.writes_to_create == 30


MOVED = [
    failed_over(10, n, 3, led, acked) for n, led, acked in ((0, 3, 3.5), (4, 4, 4.25), (7, 2, 9))
]
AROUND = (
    *COUNTED,
    counted("grown", 200, 60, partitions=10),
    counted("failed-over", 231, partitions=10),
)


def test_a_failover_takes_as_long_as_its_last_partition(tmp_path: Path) -> None:
    made = run(failovers=failovers(10), failed_over=MOVED, zookeeper=AROUND)
    result = checked(write_campaign(tmp_path, made))
    assert result.runs[0].failovers == (
        Failover(partitions=10, moved=3, led_ms=4000, acked_ms=9000, writes=31, watches=60),
    )
    assert result.findings == ()


def test_a_partition_that_did_not_come_back_makes_the_time_unknown(tmp_path: Path) -> None:
    rows = [*MOVED[:2], failed_over(10, 7, 3, 2, None)]
    made = run(failovers=failovers(10), failed_over=rows, zookeeper=AROUND[:-1])
    result = checked(write_campaign(tmp_path, made))
    assert result.runs[0].failovers == (
        Failover(partitions=10, moved=3, led_ms=4000, acked_ms=None, writes=None, watches=60),
    )
    assert result.findings == ("run 1: the failover of 10 partitions was not measured completely",)
    assert result.verdict is Verdict.PASS


def test_a_failover_of_which_rows_are_missing_is_unknown(tmp_path: Path) -> None:
    made = run(failovers=failovers(10, 100), failed_over=MOVED[:2])
    result = checked(write_campaign(tmp_path, made))
    assert result.runs[0].failovers == (Failover(partitions=10), Failover(partitions=100))
    assert len(result.findings) == 2


@pytest.mark.parametrize("table", ["zookeeper", "failovers"])
@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"PAR1")])
def test_a_damaged_measurement_is_a_finding_and_costs_no_cell_its_verdict(
    tmp_path: Path, table: str, spoil: Callable[[Path], object]
) -> None:
    made = run(failovers=failovers(10), failed_over=MOVED, zookeeper=AROUND)
    directory = write_campaign(tmp_path, made)
    (path,) = history_of(directory).glob(f"{table}.*")
    spoil(path)
    result = checked(directory)
    assert result.verdict is Verdict.PASS
    assert f"{table} by harness" in "\n".join(result.findings) or path.name in str(result.findings)
    if table == "zookeeper":
        assert result.runs[0].zookeeper == ZooKeeperWork()
    else:
        assert result.runs[0].failovers[0].led_ms is None
