"""Faults and small tables: what they prove, and what they do not."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from made_histories import (
    CELL_ROW,
    FINISHED,
    Made,
    MadeRun,
    entry,
    fault_rows,
    send,
    write_campaign,
)

from checkers.evidence import RunEvidence, gather
from checkers.faults import faults_of, windows
from history.schema import FAULTS

ONE_ACKED = Made(
    sends=[send("invoke", 1, 0, 10), send("ok", 1, 0, 11, 0)], log=[entry(0, 1, 0)], end=1
)


def evidence(directory: Path, **changes: Any) -> RunEvidence:
    write_campaign(directory, MadeRun(**{"partitions": {("t", 0): ONE_ACKED}, **changes}))
    return gather(directory / "runs" / "1" / "history", 1)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=FAULTS)


def test_faults_on_at_a_time() -> None:
    rows = [
        *fault_rows(("inject", 5, None), ("injected", 10, None), ("healed", 20, True)),
        *fault_rows(("injected", 15, None), ("healed", 30, True), fault_id=2, fault="pause"),
        *fault_rows(("inject", 40, None), ("failed", 41, None), fault_id=3),
    ]
    labels = windows(faults_of(table(rows))).at(np.array([9, 10, 15, 20, 30, 39, 40, 99]))
    assert labels.to_pylist() == [
        None, "kill#1", "kill#1,pause#2", "pause#2", None, None, "kill#3", "kill#3",
    ]  # fmt: skip


def test_without_faults_none_is_ever_on() -> None:
    assert windows(()).at(np.array([-1, 0, 5])).to_pylist() == [None, None, None]


def test_a_heal_that_is_not_proven_is_no_end() -> None:
    (fault,) = faults_of(table(fault_rows(("injected", 1, None), ("healed", 2, False))))
    assert fault.end is None


def test_a_finished_run_lacks_nothing(tmp_path: Path) -> None:
    run = evidence(tmp_path)
    assert run.gaps == ()
    assert run.findings == ()
    assert run.flushed
    assert list(run.unread_partitions(CELL_ROW)) == []


@pytest.mark.parametrize(
    ("events", "gap"),
    [
        ([("injected", 1, None), ("healed", 9, True)], "is not proven to have bitten"),
        (
            [("injected", 1, None), ("verified", 2, False), ("healed", 9, True)],
            "is not proven to have bitten",
        ),
        ([("injected", 1, None), ("verified", 2, True)], "is not proven healed"),
        ([("injected", 1, None), ("verified", 2, True), ("healed", 3, False)], "not proven healed"),
    ],
)
def test_a_fault_must_be_proven_to_bite_and_to_heal(
    tmp_path: Path, events: list[tuple[str, int, bool | None]], gap: str
) -> None:
    run = evidence(tmp_path, faults=fault_rows(*events))
    assert len(run.gaps) == 1
    assert gap in run.gaps[0]
    assert "kill#1 on leader(t, 0)" in run.gaps[0]
    assert run.findings == run.gaps


@pytest.mark.parametrize("step", ["flush", "final-read"])
def test_a_step_that_never_ended_is_a_gap(tmp_path: Path, step: str) -> None:
    phases = [row for row in FINISHED if (row["phase"], row["event"]) != (step, "end")]
    assert evidence(tmp_path, phases=phases).gaps == (f"the step {step} did not end",)


@pytest.mark.parametrize(("step", "gap"), [("workload", True), ("recover", False)])
def test_a_failed_step_is_a_finding_and_a_decisive_one_a_gap(
    tmp_path: Path, step: str, gap: bool
) -> None:
    failed = {"phase": step, "event": "failed", "time": 5, "detail": "took too long"}
    kept = [row for row in FINISHED if (row["phase"], row["event"]) != (step, "end")]
    run = evidence(tmp_path, phases=[*kept, failed])
    assert run.findings == (f"the step {step} failed: took too long",)
    assert run.gaps == (run.findings if gap else ())


def test_partitions_that_were_not_read_are_named(tmp_path: Path) -> None:
    partitions = {("t", 0): ONE_ACKED.but(complete=False)}
    run = evidence(tmp_path, partitions=partitions, cells=[{**CELL_ROW, "partitions": 2}])
    assert list(run.unread_partitions(run.cells["c"])) == [
        "partition 0: final read incomplete (timed out)",
        "partition 1: no final read",
    ]


def test_a_damaged_table_is_a_gap_and_the_others_are_read(tmp_path: Path) -> None:
    evidence(tmp_path)
    history = tmp_path / "runs" / "1" / "history"
    next(history.glob("faults.*")).write_bytes(b"no parquet")
    run = gather(history, 1)
    assert run.cells.keys() == {"c"}
    assert len(run.gaps) == 1
    assert run.gaps[0].startswith("table faults: ")


@pytest.mark.parametrize(
    ("faults", "lost"),
    [
        ([("kill", '{"servers": ["a", "b"]}')], 0),
        ([("power-loss", '{"servers": ["a", "b"]}')], 2),
        ([("power-loss", '{"servers": ["a"]}'), ("wipe", '{"servers": ["a"]}')], 1),
        ([("power-loss", '{"servers": ["a"]}'), ("wipe", '{"servers": ["b"]}')], 2),
        ([("wipe", None)], 3),
        ([("wipe", "who knows")], 3),
        ([("wipe", '{"servers": "all"}')], 3),
    ],
)
def test_servers_that_lost_their_disks(
    tmp_path: Path, faults: list[tuple[str, str | None]], lost: int
) -> None:
    rows = [
        row
        for number, (name, resolved) in enumerate(faults, start=1)
        for row in fault_rows(
            ("injected", number, None), fault_id=number, fault=name, resolved=resolved
        )
    ]
    assert evidence(tmp_path, faults=rows).disks_lost(3) == lost
