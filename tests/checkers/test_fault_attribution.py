"""Attribution of a record to a fault: within the effect of the fault, and otherwise to none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ackproof.checkers.check import evidence
from ackproof.checkers.context.fault_windows import NO_FAULTS, FaultWindows
from ackproof.checkers.engine.work_items import work_items
from tests.support.builders.checked_runs import reconcile
from tests.support.builders.histories import (
    KILL,
    MadeRun,
    a_fault,
    at,
    cell,
    fault_rows,
    history_of,
    kept,
    losing,
    write_campaign,
)


def blamed(directory: Path, moment: float, **changes: Any) -> str | None:
    """Return the fault to which a record that was acknowledged at this moment and lost is
    attributed."""
    made = losing(kept(moment), 0)
    write_campaign(directory, MadeRun(**{"partitions": {("t", 0): made}, **changes}))
    (run,), _ = evidence(directory)
    (item,) = work_items(run)
    found, _ = reconcile(item)
    (row,) = [row for row in found.to_pylist() if row["anomaly"] == "lost"]
    assert row["time"] == at(moment)
    blame: str | None = row["fault"]
    return blame


@pytest.mark.parametrize(
    ("moment", "fault"),
    [
        # From 10 to 20 s it was on. Its reach: from a replica lag (4 s) before, to a session
        # timeout and a replica lag (3 + 4 s) after, each widened by the clock's millisecond.
        (5.998, None),
        (5.9995, "kill#1"),
        (15, "kill#1"),
        (26, "kill#1"),
        (27.0005, "kill#1"),
        (27.002, None),
        (33, None),
    ],
)
def test_lost_record_is_attributed_to_the_fault_in_effect_at_its_ack(
    tmp_path: Path, moment: float, fault: str | None
) -> None:
    assert blamed(tmp_path, moment) == fault


def test_the_reach_grows_with_the_clock_bound(tmp_path: Path) -> None:
    assert blamed(tmp_path, 28.4, bounds=(-1_000_000_000, 500_000_000)) == "kill#1"


def test_overlapping_faults_are_both_named(tmp_path: Path) -> None:
    second = a_fault(30, 40, fault_id=2, fault="pause")
    assert blamed(tmp_path / "both", 26.5, faults=[*KILL, *second]) == "kill#1,pause#2"
    assert blamed(tmp_path / "one", 39, faults=[*KILL, *second]) == "pause#2"


def test_a_fault_that_did_not_touch_the_partition_is_not_to_blame(tmp_path: Path) -> None:
    assert blamed(tmp_path, 15, faults=a_fault(partitions=("u-0",))) is None


def test_a_fault_without_an_end_reaches_to_the_end(tmp_path: Path) -> None:
    rows = fault_rows(("inject", 10, None), ("injected", 10, None), ("healed", 20, False))
    assert blamed(tmp_path, 990, faults=rows) == "kill#1"


def test_a_fault_that_never_began_is_to_blame_for_nothing_later(tmp_path: Path) -> None:
    rows = fault_rows(("failed", 10, None), servers=None, partitions=None)
    assert blamed(tmp_path, 990, faults=rows) is None


def test_windows() -> None:
    windows = FaultWindows(bounds=(10, 20), labels=(None, "kill#1", None))
    assert windows.at(np.array([9, 10, 19, 20])).to_pylist() == [None, "kill#1", "kill#1", None]
    assert NO_FAULTS.at(np.array([-1, 0, 5])).to_pylist() == [None, None, None]


@pytest.mark.parametrize("time", [-(2**63), 2**63 - 1])
def test_times_at_the_edge_of_the_range_cause_no_check_errors(tmp_path: Path, time: int) -> None:
    rows = [{**row, "time": time} for row in KILL]
    directory = write_campaign(
        tmp_path, MadeRun(partitions={("t", 0): kept(5)}, faults=rows, cells=[cell()])
    )
    (run,), _ = evidence(directory)
    assert history_of(directory) == run.history
    (item,) = work_items(run)
    _, totals = reconcile(item)
    assert totals.check_errors == ()
