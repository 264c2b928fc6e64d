"""Evidence is the manifest minus the history, cell by cell: what is lacking is named, and it costs
the cells that lack it and no others."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from checked_in_process import checked
from made_histories import (
    AFTER,
    BEFORE,
    CLIENT,
    DURING,
    FINISHED,
    KILL,
    MadeRun,
    a_fault,
    at,
    cell,
    connection,
    ended,
    entry,
    fault_rows,
    history_of,
    kept,
    losing,
    recovered,
    send,
    state,
    write_campaign,
)

from checkers.verdict import CampaignResult, Verdict
from history.manifest import FILE, PlannedFault
from history.schema import MEASURES, TABLES
from history.writer import TableWriter

PASS, FAIL, NOT_GUARANTEED, INCONCLUSIVE = Verdict
WELL = kept(BEFORE, DURING, AFTER)
OTHER = cell(name="d", topic="u")
BOTH = (cell(), OTHER)
TWO_CELLS = {("t", 0): WELL, ("u", 0): WELL}


def run(**changes: Any) -> MadeRun:
    return MadeRun(**{"partitions": {("t", 0): WELL}, **changes})


def two_cells(**changes: Any) -> MadeRun:
    """Cell c on t-0, which the kill touches, and d on u-0, which it touches too."""
    faults = a_fault(partitions=("t-0", "u-0"))
    return MadeRun(**{"partitions": TWO_CELLS, "cells": BOTH, "faults": faults, **changes})


def verdicts(result: CampaignResult) -> dict[str, Verdict]:
    return {found.cell: found.verdict for found in result.cells}


def told(result: CampaignResult, name: str = "c") -> str:
    return "\n".join(r for found in result.cells if found.cell == name for r in found.reasons)


def test_a_whole_history_passes_and_says_what_it_rests_on(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, two_cells()))
    assert verdicts(result) == {"c": PASS, "d": PASS}
    assert result.verdict is PASS
    assert result.findings == ()
    assert not result.infrastructure_failed
    assert not result.baseline
    assert "c: no-acked-record-lost" in told(result)
    assert "none of 3 acked records lost" in told(result)


# --- acks before, during and after each fault ---------------------------------------------------


@pytest.mark.parametrize(
    ("moments", "lacking"),
    [
        ((1, 2, 3), "no ack after kill#1 on leader(t, 0)"),
        ((BEFORE, DURING), "no ack after kill#1"),
        ((DURING, AFTER), "no ack before kill#1"),
        # The kill is of broker 1; t-0 is seen to be led by 2 with its ISR of 2 and 3 from 13 s on.
        ((BEFORE, AFTER), "no ack during kill#1"),
    ],
)
def test_acks_are_wanted_before_during_and_after_each_fault(
    tmp_path: Path, moments: tuple[float, ...], lacking: str
) -> None:
    cluster = [state(-5, 1, 0, (1, 2, 3)), state(13, 2, 1, (2, 3)), state(21, 2, 1, (2, 3, 1))]
    made = run(partitions={("t", 0): kept(*moments)}, cluster=cluster)
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is INCONCLUSIVE
    assert lacking in told(result)


@pytest.mark.parametrize(
    "cluster",
    [
        # Its leader is the one that was killed, and stays it as far as was seen.
        [state(-5, 1, 0, (1, 2, 3))],
        # Another leads, but waits for the killed one, which is in the ISR.
        [state(-5, 2, 0, (1, 2, 3))],
        # The ISR is too small for acks=all.
        [state(-5, 1, 0, (1, 2)), state(13, 2, 1, (2,))],
        [state(-5, 1, 0, (1, 2, 3)), state(13, -1, 1, (1,))],
        # Another leader, for less time than clients need to hear of it.
        [state(-5, 1, 0, (1, 2, 3)), state(18.5, 2, 1, (2, 3))],
        # Nobody saw.
        [
            state(-5, 2, 0, (2, 3)),
            connection(11, "zookeeper-lost"),
            connection(12, "zookeeper-back"),
        ],
    ],
)
def test_no_acks_are_wanted_where_the_fault_did_not_allow_them(
    tmp_path: Path, cluster: list[dict[str, Any]]
) -> None:
    made = run(partitions={("t", 0): kept(BEFORE, AFTER)}, cluster=cluster)
    assert checked(write_campaign(tmp_path, made)).verdict is PASS


def test_another_fault_that_is_on_may_forbid_acks_too(tmp_path: Path) -> None:
    """t-0 is led by 2, which the kill of 1 leaves alone, and the pause of 2 does not."""
    faults = [*KILL, *a_fault(8, 22, fault_id=2, fault="pause", servers=("broker-2",))]
    cluster = [state(-5, 2, 0, (2, 3))]
    made = run(partitions={("t", 0): kept(BEFORE, AFTER)}, cluster=cluster, faults=faults)
    assert checked(write_campaign(tmp_path, made)).verdict is PASS


def test_an_ack_within_the_clock_bound_of_an_edge_is_no_evidence(tmp_path: Path) -> None:
    made = run(partitions={("t", 0): kept(9.9, DURING, AFTER)}, bounds=(0, 200_000_000))
    assert "no ack before kill#1" in told(checked(write_campaign(tmp_path / "far", made)))
    near = run(partitions={("t", 0): kept(9.9, DURING, AFTER)})
    assert checked(write_campaign(tmp_path / "near", near)).verdict is PASS


def test_a_fault_elsewhere_takes_and_gives_nothing(tmp_path: Path) -> None:
    """The second fault touches u-0 alone: t-0 needs no ack after it, u-0 needs one."""
    second = a_fault(50, 60, fault_id=2, partitions=("u-0",))
    made = two_cells(faults=[*a_fault(partitions=("t-0", "u-0")), *second])
    result = checked(write_campaign(tmp_path, made))
    assert verdicts(result) == {"c": PASS, "d": INCONCLUSIVE}
    assert "no ack after kill#2" in told(result, "d")


def test_a_cell_that_no_fault_touched_is_inconclusive(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, two_cells(faults=KILL)))
    assert verdicts(result) == {"c": PASS, "d": INCONCLUSIVE}
    assert "no fault that is proven touched a partition of this cell" in told(result, "d")


def test_a_zookeeper_coordinates_every_partition(tmp_path: Path) -> None:
    faults = a_fault(servers=("zookeeper-1",), partitions=())
    assert checked(write_campaign(tmp_path, two_cells(faults=faults))).verdict is PASS


def test_a_campaign_without_faults_is_a_baseline_only_if_it_says_so(tmp_path: Path) -> None:
    one_ack = run(partitions={("t", 0): kept(1)}, faults=())
    silent = checked(write_campaign(tmp_path / "silent", one_ack))
    assert silent.verdict is INCONCLUSIVE
    assert "does not say that it is a baseline" in told(silent)
    declared = checked(write_campaign(tmp_path / "declared", one_ack, baseline=True))
    assert declared.verdict is PASS
    assert declared.baseline
    assert "a baseline: nothing was broken" in told(declared)


def test_a_baseline_that_plans_faults_is_none(tmp_path: Path) -> None:
    made = run(partitions={("t", 0): kept(1)})
    result = checked(write_campaign(tmp_path, made, baseline=True))
    assert result.verdict is INCONCLUSIVE
    assert not result.baseline


# --- what the manifest plans and the history lacks ----------------------------------------------


@pytest.mark.parametrize("content", [None, b"", b"{", b"\x00\xff"])
def test_without_its_manifest_nothing_is_concluded(tmp_path: Path, content: bytes | None) -> None:
    directory = write_campaign(tmp_path, run())
    (directory / FILE).unlink()
    if content is not None:
        (directory / FILE).write_bytes(content)
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert result.cells == ()
    assert result.infrastructure_failed
    assert str(directory / FILE) in result.findings[0]


def test_a_run_without_a_directory_lacks_all_of_its_cells(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run(), run())
    history_of(directory, 2).rename(tmp_path / "elsewhere")
    result = checked(directory)
    assert [found.verdict for found in result.cells] == [PASS, INCONCLUSIVE]
    assert result.cells[1].lost is None
    assert f"{history_of(directory, 2)} is not there" in result.cells[1].reasons[0]
    assert result.infrastructure_failed


def two_producers() -> MadeRun:
    """Producers 1 and 2 on t-0; what 2 was acked is lost."""
    theirs = [send("invoke", 2, 0, at(15)), send("ok", 2, 0, at(15.1), 3)]
    return two_cells(partitions={**TWO_CELLS, ("t", 0): WELL.but(sends=[*WELL.sends, *theirs])})


def test_the_missing_file_of_one_of_two_producers_is_missed(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, two_producers())
    assert verdicts(checked(directory))["c"] is FAIL
    (history_of(directory) / "sends.t.0.c-2.parquet").unlink()
    result = checked(directory)
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert "sends of t-0 by c-2 is missing; its writer closed it with 2 rows" in told(result)
    (found, _) = result.cells
    assert (found.lost, found.duplicated, found.reordered) == (None, None, None)


def test_a_producer_that_left_nothing_at_all_is_missed(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, two_producers())
    for path in history_of(directory).glob("*c-2.parquet"):
        path.unlink()
    result = checked(directory)
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert "sends by c-2: not closed by its writer" in told(result)


def test_what_is_broken_in_the_rest_is_still_broken(tmp_path: Path) -> None:
    made = two_producers()
    directory = write_campaign(
        tmp_path,
        MadeRun(**{**vars(made), "partitions": {**TWO_CELLS, ("t", 0): losing(WELL, 1)}}),
    )
    for path in history_of(directory).glob("*c-99.parquet"):
        path.unlink()
    result = checked(directory)
    assert verdicts(result) == {"c": FAIL, "d": PASS}
    assert result.cells[0].lost == 1


@pytest.mark.parametrize("more", [-1, 1])
@pytest.mark.parametrize("table", ["sends", "log"])
def test_a_file_of_other_length_than_its_closing_is_a_gap(
    tmp_path: Path, table: str, more: int
) -> None:
    directory = write_campaign(tmp_path, two_cells())
    history = history_of(directory)
    kept_moments = (BEFORE, DURING, AFTER, 50)[: 3 + more]
    other = write_campaign(
        tmp_path / "other", two_cells(partitions={**TWO_CELLS, ("t", 0): kept(*kept_moments)})
    )
    (source,) = history_of(other).glob(f"{table}.t.*")
    source.replace(history / source.name)
    result = checked(directory)
    # One record more, in one of the two, is a loss or a phantom beside.
    assert verdicts(result) == {"c": INCONCLUSIVE if more < 0 else FAIL, "d": PASS}
    assert "its writer closed it with" in told(result)


@pytest.mark.parametrize(
    "table", ["faults", "cluster", "phases", "servers", "recovery", "reads", "clocks"]
)
def test_a_table_that_is_gone_is_missed(tmp_path: Path, table: str) -> None:
    directory = write_campaign(tmp_path, run())
    (path,) = history_of(directory).glob(f"{table}.*")
    path.unlink()
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert f"{table} by " in told(result)


@pytest.mark.parametrize("table", ["faults", "cluster", "phases", "servers", "recovery"])
def test_a_table_that_is_gone_with_its_closing_is_missed(tmp_path: Path, table: str) -> None:
    directory = write_campaign(tmp_path, run())
    for path in history_of(directory).glob(f"*{table}*"):
        path.unlink()
    assert checked(directory).verdict is INCONCLUSIVE


def test_all_closings_gone_are_missed(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    for path in history_of(directory).glob("closings.*"):
        path.unlink()
    assert checked(directory).verdict is INCONCLUSIVE


def test_a_planned_fault_without_a_row_is_missed(tmp_path: Path) -> None:
    """Every row of the second fault was taken out, and the table closed as it is now."""
    plan = [
        PlannedFault(fault_id=n, fault="kill", target=f"leader({t}, 0)", start_ms=0, hold_ms=0)
        for n, t in ((1, "t"), (2, "u"))
    ]
    result = checked(write_campaign(tmp_path, two_cells(plan=plan)))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": INCONCLUSIVE}
    assert "kill#2 on leader(u, 0): the history has nothing of it" in told(result)


@pytest.mark.parametrize(
    ("rows", "gap"),
    [
        ([("inject", 10, None), ("failed", 11, None), ("heal", 12, None)], "was not injected"),
        ([("inject", 10, None), ("injected", 10, None), ("healed", 20, True)], "have bitten"),
        (
            [("inject", 10, None), ("injected", 10, None), ("verified", 11, False)],
            "is not proven to have bitten",
        ),
        (
            [("inject", 10, None), ("injected", 10, None), ("verified", 11, True)],
            "is not proven healed",
        ),
        (
            [
                ("inject", 10, None),
                ("injected", 10, None),
                ("verified", 11, True),
                ("healed", 20, False),
            ],
            "is not proven healed",
        ),
    ],
)
def test_a_fault_that_is_not_proven_costs_the_cells_it_touched(
    tmp_path: Path, rows: list[tuple[str, float, bool | None]], gap: str
) -> None:
    both = a_fault(30, 35, fault_id=2, partitions=("t-0", "u-0"))
    made = two_cells(faults=[*fault_rows(*rows), *both])
    result = checked(write_campaign(tmp_path, made))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert gap in told(result)
    assert "kill#1 on leader(t, 0)" in told(result)


def test_a_fault_whose_target_named_nobody_costs_every_cell(tmp_path: Path) -> None:
    failed = fault_rows(("failed", 30, None), fault_id=2, servers=None, partitions=None)
    made = two_cells(faults=[*a_fault(partitions=("t-0", "u-0")), *failed])
    result = checked(write_campaign(tmp_path, made))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": INCONCLUSIVE}
    assert "kill#2 on leader(t, 0) was not injected" in told(result, "d")
    assert "healed" not in told(result, "d")


def test_a_partition_without_a_final_read_costs_its_cell(tmp_path: Path) -> None:
    made = two_cells(partitions={**TWO_CELLS, ("t", 0): WELL.but(complete=False)})
    result = checked(write_campaign(tmp_path, made))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": PASS}
    assert "t-0: final read incomplete (timed out)" in told(result)
    assert result.cells[0].lost is None


def test_what_was_not_read_is_unknown_and_never_0(tmp_path: Path) -> None:
    """Ctrl-C in the middle: parts only, no final read, no row behind the heal."""
    made = run(closed=False, reads=False, phases=FINISHED[:9], recovery=())
    directory = write_campaign(tmp_path, made)
    for path in history_of(directory).glob("log.*"):
        path.unlink()
    result = checked(directory)
    (found,) = result.cells
    assert found.verdict is INCONCLUSIVE
    assert (found.sent, found.acked) == (3, 3)
    assert (found.lost, found.duplicated, found.reordered) == (None, None, None)
    assert "t-0: no final read" in told(result)
    assert "lost: none" not in told(result)
    assert result.infrastructure_failed


def test_too_few_acks_are_too_little(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run(cells=[cell(acked_min=4)])))
    assert result.verdict is INCONCLUSIVE
    assert "3 acked records, at least 4 are needed" in told(result)


def test_a_partition_that_nobody_is_planned_to_send_to(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    manifest = (directory / FILE).read_text()
    (directory / FILE).write_text(manifest.replace('"c-1"', '"c-7"').replace('"sends"', '"log"'))
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert "the manifest plans nobody who sends to t-0" in told(result)


# --- what the history has and the manifest does not plan ----------------------------------------


def test_rows_that_nobody_planned_are_findings(tmp_path: Path) -> None:
    second = a_fault(30, 35, fault_id=2, fault="pause")
    plan = [PlannedFault(fault_id=1, fault="kill", target="t", start_ms=0, hold_ms=0)]
    directory = write_campaign(tmp_path, run(faults=[*KILL, *second], plan=plan))
    stray = TableWriter(history_of(directory), "sends", "stranger", partition=("t", 0))
    stray.append(("c", "t", 0, 9, 0, "invoke", at(1), None, None))
    stray.close()
    result = checked(directory)
    assert result.verdict is PASS
    assert result.findings == (
        "run 1: sends of t-0 by stranger: the manifest plans no such writer",
        "run 1: pause#2 on leader(t, 0): the manifest plans no such fault",
    )


def test_another_fault_under_the_number_is_not_the_planned_one(tmp_path: Path) -> None:
    plan = [PlannedFault(fault_id=1, fault="isolate", target="t", start_ms=0, hold_ms=0)]
    result = checked(write_campaign(tmp_path, run(plan=plan)))
    assert result.verdict is INCONCLUSIVE
    assert "isolate#1 on t: the history has nothing of it" in told(result)
    assert any("kill#1" in finding and "no such fault" in finding for finding in result.findings)


def test_ends_that_differ_are_a_finding_and_no_gap(tmp_path: Path) -> None:
    made = run(partitions={("t", 0): WELL.but(end=7, met=3)})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is PASS
    assert result.findings == (
        "run 1: t-0: ListOffsets told the end 7, the final read met it at 3",
    )


# --- clocks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(600_000_000, 0), (-450_000_000, 100_000_000)])
def test_a_clock_beyond_what_is_allowed_is_a_finding(
    tmp_path: Path, bounds: tuple[int, int]
) -> None:
    result = checked(write_campaign(tmp_path, run(bounds=bounds)))
    assert result.verdict is PASS
    (finding,) = result.findings
    assert f"the clock of {CLIENT} is up to" in finding
    assert result.runs[0].clock_bound_ns == sum(map(abs, bounds))


def test_a_clock_that_was_not_compared_is_a_gap(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    history = history_of(directory)
    for path in (*history.glob("clocks.*"), *history.glob("closings.clocks*")):
        path.unlink()
    once = TableWriter(history, "clocks", "harness")
    once.write(node=CLIENT, moment="start", time=at(0), offset_ns=0, bound_ns=1)
    once.close()
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert f"the clock of {CLIENT} was not compared at start and end" in told(result)
    assert result.runs[0].clock_bound_ns is None


# --- steps --------------------------------------------------------------------------------------

EVIDENCE = ("deploy", "ready", "workload", "faults", "heal", "recover", "flush", "final-read")


@pytest.mark.parametrize("step", EVIDENCE)
@pytest.mark.parametrize("end", ["failed", "failed and ended", "never"])
def test_a_step_that_did_not_end_well_is_a_gap(tmp_path: Path, step: str, end: str) -> None:
    failed = {"phase": step, "event": "failed", "time": at(5), "detail": "took too long"}
    ended = (step, "end")
    phases = [r for r in FINISHED if "ended" in end or (r["phase"], r["event"]) != ended]
    made = run(phases=[*phases, failed] if "failed" in end else phases)
    result = checked(write_campaign(tmp_path, made))
    words = "failed: took too long" if "failed" in end else "did not end"
    assert result.verdict is INCONCLUSIVE
    assert f"the step {step} {words}" in told(result)


@pytest.mark.parametrize(
    ("step", "ours"),
    [
        ("deploy", True),
        ("ready", True),
        ("collect", True),
        ("teardown", True),
        ("faults", False),
        ("recover", False),
        ("final-read", False),
    ],
)
def test_which_steps_are_the_infrastructures(tmp_path: Path, step: str, ours: bool) -> None:
    failed = {"phase": step, "event": "failed", "time": at(5), "detail": None}
    result = checked(write_campaign(tmp_path, run(phases=[*FINISHED, failed])))
    assert result.infrastructure_failed is ours
    assert result.runs[0].infrastructure_failed is ours
    assert (result.verdict is PASS) == (step in ("collect", "teardown"))


def test_a_run_that_did_not_come_to_its_end(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run(phases=FINISHED[:-1])))
    assert result.infrastructure_failed


# --- liveness -----------------------------------------------------------------------------------


def test_a_cluster_that_never_recovers_fails(tmp_path: Path) -> None:
    recovery = [recovered(), recovered("u", leader=-1, isr=(2,), whole=False, seconds=85)]
    result = checked(write_campaign(tmp_path, two_cells(recovery=recovery)))
    assert verdicts(result) == {"c": PASS, "d": FAIL}
    assert "d: recovers: u-0 has no leader" in told(result, "d")
    assert result.verdict is FAIL


def test_an_isr_that_never_fills_again_fails_with_its_state(tmp_path: Path) -> None:
    recovery = [recovered(isr=(1, 2), whole=False, seconds=85)]
    result = checked(write_campaign(tmp_path, run(recovery=recovery)))
    assert "recovers: t-0 has the ISR [1, 2]" in told(result)
    assert result.verdict is FAIL


@pytest.mark.parametrize(
    "recovery",
    [
        [],
        # Ctrl-C four seconds after the heal: its minute was not up.
        [recovered(isr=(1,), whole=False, seconds=24)],
        # Whole, while the fault was on.
        [recovered(seconds=19)],
    ],
)
def test_recovery_that_nobody_saw_is_inconclusive(
    tmp_path: Path, recovery: list[dict[str, Any]]
) -> None:
    result = checked(write_campaign(tmp_path, run(recovery=recovery)))
    assert result.verdict is INCONCLUSIVE
    assert "recovers: t-0" in told(result)


def test_a_fault_that_is_not_healed_suspends_recovery(tmp_path: Path) -> None:
    unhealed = [row for row in KILL if row["event"] not in ("heal", "healed")]
    recovery = [recovered(isr=(2, 3), whole=False, seconds=300)]
    result = checked(write_campaign(tmp_path, run(faults=unhealed, recovery=recovery)))
    assert result.verdict is INCONCLUSIVE
    (recovers,) = [g for g in result.cells[0].guarantees if g.name == "recovers"]
    assert not recovers.promised


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        # Whole again at 50 s; looked at late, at 200 s.
        ([state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2, 3)), state(50, 2, 1, (1, 2, 3))], PASS),
        ([state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2, 3)), state(150, 2, 1, (1, 2, 3))], FAIL),
        ([state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2, 3))], INCONCLUSIVE),
    ],
)
def test_a_late_look_goes_by_what_was_observed(
    tmp_path: Path, cluster: list[dict[str, Any]], expected: Verdict
) -> None:
    made = run(recovery=[recovered(seconds=200)], cluster=cluster)
    assert checked(write_campaign(tmp_path, made)).verdict is expected


@pytest.mark.parametrize("moment", [2, 15, 95])
def test_a_server_that_ends_by_itself_fails_before_during_and_after_the_faults(
    tmp_path: Path, moment: float
) -> None:
    servers = [*two_servers(), ended(moment, "broker-2", 139)]
    result = checked(write_campaign(tmp_path, run(servers=servers)))
    assert result.verdict is FAIL
    assert "servers-stay-up: broker-2 ended by itself, exit code 139" in told(result)


def two_servers() -> list[dict[str, Any]]:
    return [
        {"time": at(-9), "server": name, "event": "started"} for name in ("broker-1", "broker-2")
    ]


def test_a_server_that_a_fault_ended_is_accounted_for(tmp_path: Path) -> None:
    servers = [*two_servers(), ended(10, "broker-1", -9, fault_id=1)]
    assert checked(write_campaign(tmp_path, run(servers=servers))).verdict is PASS


def test_a_server_concerns_the_cells_that_have_replicas_on_it(tmp_path: Path) -> None:
    """u-0 lives on 1, 2 and 3, t-0 on 4, 5 and 6. ZooKeeper concerns both."""
    cluster = [state(-5, 4, 0, (4, 5, 6)), state(-5, 1, 0, (1, 2, 3), topic="u")]
    recovery = [recovered(leader=4, isr=(4, 5, 6)), recovered("u")]
    whole = two_cells(cluster=cluster, recovery=recovery)
    for server, expected in (
        ("broker-2", {"c": PASS, "d": FAIL}),
        ("zookeeper-1", {"c": FAIL, "d": FAIL}),
    ):
        servers = [*two_servers(), ended(50, server, 1)]
        made = MadeRun(**{**vars(whole), "servers": servers})
        result = checked(write_campaign(tmp_path / server, made))
        assert verdicts(result) == expected


def test_a_server_of_which_nobody_knows_whose_replicas_it_held(tmp_path: Path) -> None:
    cluster = [state(-5, 1, 0, (1, 2))]
    made = run(
        cluster=cluster,
        recovery=[recovered(isr=(1, 2))],
        servers=[*two_servers(), ended(5, "broker-3", 1)],
    )
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is INCONCLUSIVE
    assert "whether it held a replica of this cell was not seen" in told(result)


def test_servers_that_nobody_watched_are_inconclusive(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run(servers=())))
    assert result.verdict is INCONCLUSIVE
    assert "servers-stay-up: nobody watched" in told(result)


# --- what was expected --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expect", "partitions", "campaign"),
    [
        ("fail", losing(WELL, 1), PASS),
        ("fail", WELL, FAIL),
        ("fail", WELL.but(complete=False), INCONCLUSIVE),
        ("pass", WELL, PASS),
        ("pass", losing(WELL, 1), FAIL),
        ("inconclusive", WELL.but(complete=False), INCONCLUSIVE),
        ("not-guaranteed", WELL, FAIL),
        ("sunshine", WELL, INCONCLUSIVE),
    ],
)
def test_a_cell_that_expects_passes_only_if_that_comes_true(
    tmp_path: Path, expect: str, partitions: Any, campaign: Verdict
) -> None:
    made = run(cells=[cell(expect=expect)], partitions={("t", 0): partitions})
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is campaign
    assert result.cells[0].expected == (expect if expect != "sunshine" else None)


# --- damage -------------------------------------------------------------------------------------


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize("table", sorted(TABLES.keys() - {"closings"} - MEASURES))
@pytest.mark.parametrize("spoil", [truncated, lambda _: b"", lambda _: b"PAR1 no parquet PAR1"])
def test_damage_is_named_and_never_raises_or_passes(
    tmp_path: Path, table: str, spoil: Callable[[bytes], bytes]
) -> None:
    directory = write_campaign(tmp_path, run())
    for path in history_of(directory).glob(f"{table}.*"):
        path.write_bytes(spoil(path.read_bytes()))
        result = checked(directory)
        assert result.verdict is INCONCLUSIVE
        assert path.name in told(result)


@pytest.mark.parametrize("table", ["phases", "faults", "servers", "recovery", "cluster", "sends"])
def test_a_broken_guarantee_wins_over_damage(tmp_path: Path, table: str) -> None:
    """Of two producers one's records are lost; what is damaged is the other's, or the harness's."""
    theirs = [send("invoke", 2, 0, at(15)), send("ok", 2, 0, at(15.1), 3)]
    lost = WELL.but(sends=[*WELL.sends, *theirs])
    directory = write_campaign(tmp_path, run(partitions={("t", 0): lost}))
    name = "sends.t.0.c-1" if table == "sends" else table
    (path,) = history_of(directory).glob(f"{name}.*")
    path.write_bytes(b"no parquet")
    result = checked(directory)
    assert result.verdict is FAIL
    assert "no-acked-record-lost" in result.cells[0].reasons[0]


def test_a_file_of_unknown_name_costs_its_run(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run(), run())
    (history_of(directory) / "log.whose.parquet").write_bytes(b"")
    result = checked(directory)
    assert [found.verdict for found in result.cells] == [INCONCLUSIVE, PASS]
    assert "log.whose.parquet" in told(result)


def test_contradictory_events_are_no_evidence(tmp_path: Path) -> None:
    twice = WELL.but(sends=[*WELL.sends, send("invoke", 1, 1, at(16))])
    result = checked(write_campaign(tmp_path, run(partitions={("t", 0): twice})))
    assert result.verdict is INCONCLUSIVE


def test_a_log_that_lacks_rows_is_a_gap_and_no_loss(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    next(history_of(directory).glob("log.*")).unlink()
    result = checked(directory)
    assert result.verdict is INCONCLUSIVE
    assert result.cells[0].lost is None
    assert result.anomalies["lost"] == 0


def test_an_alien_payload_is_a_phantom(tmp_path: Path) -> None:
    made = WELL.but(log=[*WELL.log, entry(3)], end=4)
    result = checked(write_campaign(tmp_path, run(partitions={("t", 0): made})))
    assert result.verdict is FAIL
    assert "c: no-phantom: promised by every configuration: 1 phantom" in told(result)
