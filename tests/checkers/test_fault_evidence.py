"""Required evidence of each fault: its proof, and acknowledgements before, during and after it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.verdict import Verdict
from ackproof.history.manifest import PlannedFault
from tests.support.builders.checked_runs import (
    INCONCLUSIVE,
    PASS,
    checked,
    run,
    told,
    two_cells,
    verdicts,
)
from tests.support.builders.histories import (
    AFTER,
    BEFORE,
    DURING,
    KILL,
    Made,
    MadeRun,
    a_fault,
    cell,
    connection,
    fault_rows,
    kept,
    office,
    state,
    write_campaign,
)


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


BOTH = ("t-0", "t-1")


@pytest.mark.parametrize(
    ("stuck", "touched", "lacking"),
    [
        ((BEFORE,), BOTH, "after"),
        ((BEFORE,), ("t-0",), "after"),
        ((BEFORE, DURING), ("t-0",), "after"),
        ((DURING, AFTER), BOTH, "before"),
        ((BEFORE, AFTER), BOTH, "during"),
        ((), BOTH, "before"),
    ],
)
def test_partition_without_acks_lacks_evidence_though_its_neighbour_is_acked(
    tmp_path: Path, stuck: tuple[float, ...], touched: tuple[str, ...], lacking: str
) -> None:
    """The kill of broker 1 touches t-0, which 2 leads from 13 s on with an ISR of 2 and 3."""
    elected = [state(-5, 1, 0, (1, 2, 3)), state(13, 2, 1, (2, 3)), state(21, 2, 1, (2, 3, 1))]
    made = run(
        partitions={("t", 0): kept(*stuck), ("t", 1): kept(BEFORE, DURING, AFTER)},
        cells=(cell(partitions=2),),
        cluster=[*elected, *({**row, "partition": 1} for row in elected)],
        faults=a_fault(partitions=touched),
    )
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is INCONCLUSIVE
    assert f"no ack {lacking} kill#1 on leader(t, 0), which affected t-0" in told(result)
    silent = "recovers: t-0: nothing was acknowledged after the last heal" in told(result)
    assert silent == (AFTER not in stuck)
    (recovers,) = [one for one in result.cells[0].guarantees if one.name == "recovers"]
    assert recovers.held is None


def test_partition_that_acks_only_between_two_heals_lacks_evidence_of_the_second(
    tmp_path: Path,
) -> None:
    second = a_fault(50, 60, fault_id=2, partitions=BOTH)
    made = run(
        partitions={("t", 0): kept(BEFORE, AFTER), ("t", 1): kept(BEFORE, AFTER, 100)},
        cells=(cell(partitions=2),),
        faults=[*a_fault(partitions=BOTH), *second],
    )
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is INCONCLUSIVE
    assert "no ack after kill#2 on leader(t, 0), which affected t-0" in told(result)
    assert "t-1" not in told(result)


def test_partition_that_no_fault_touched_needs_an_ack_and_no_more(tmp_path: Path) -> None:
    for name, moments, verdict in (("once", (1,), PASS), ("never", (), INCONCLUSIVE)):
        partitions = {("t", 0): kept(BEFORE, DURING, AFTER), ("t", 1): kept(*moments)}
        made = run(partitions=partitions, cells=(cell(partitions=2),), faults=KILL)
        result = checked(write_campaign(tmp_path / name, made))
        assert result.verdict is verdict
        assert ("t-1: nothing was acknowledged" in told(result)) == (not moments)


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
        # It was not observed.
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


def test_no_acks_are_wanted_where_a_leader_waits_for_another_partition(tmp_path: Path) -> None:
    """Both are led by 2. It waits for 1, which was killed, with t-1, and answers a producer in the
    order in which it was asked."""
    waits = [state(-5, 2, 0, (2, 3)), state(-5, 2, 0, (2, 1), partition=1)]
    refuses = [state(-5, 2, 0, (2, 3)), state(-5, 2, 0, (2,), partition=1)]
    for name, cluster, verdict in (("waits", waits, PASS), ("refuses", refuses, INCONCLUSIVE)):
        partitions = {("t", n): kept(BEFORE, AFTER) for n in (0, 1)}
        made = run(partitions=partitions, cells=(cell(partitions=2),), cluster=cluster)
        result = checked(write_campaign(tmp_path / name, made))
        assert result.verdict is verdict, told(result)


def test_acks_are_not_required_while_the_next_leader_waits_for_another_partition(
    tmp_path: Path,
) -> None:
    """1 is killed, which led t-0; since then 2 leads it. With t-1, 3 waits for 1, too, and who asks
    3 hears of 2 after that."""
    elected = [state(-5, 1, 0, (1, 2, 4)), state(12, 2, 1, (2, 4))]
    waits = [*elected, state(-5, 3, 0, (3, 1), partition=1)]
    refuses = [*elected, state(-5, 3, 0, (3,), partition=1)]
    shrinks = [*waits, state(14, 3, 1, (3,), partition=1)]
    for name, cluster, verdict in (
        ("waits", waits, PASS),
        ("refuses", refuses, INCONCLUSIVE),
        ("shrinks", shrinks, INCONCLUSIVE),
    ):
        partitions = {("t", n): kept(BEFORE, AFTER) for n in (0, 1)}
        cells = (cell(partitions=2),)
        made = run(partitions=partitions, cells=cells, cluster=cluster)
        result = checked(write_campaign(tmp_path / name, made))
        assert result.verdict is verdict, told(result)


@pytest.mark.parametrize(
    ("fault", "until", "verdict"),
    [
        # Its connections end with it: clients know at once.
        ("kill", 20, INCONCLUSIVE),
        ("pause", 20, PASS),
        ("isolate", 20, PASS),
        ("pause", 25, INCONCLUSIVE),
    ],
)
def test_clients_take_their_time_to_notice_that_a_leader_is_silent(
    tmp_path: Path, fault: str, until: float, verdict: Verdict
) -> None:
    cluster = [state(-5, 1, 0, (1, 2, 3)), state(13, 2, 1, (2, 3))]
    made = run(
        partitions={("t", 0): kept(BEFORE, AFTER)},
        cluster=cluster,
        faults=a_fault(10, until, fault=fault),
    )
    assert checked(write_campaign(tmp_path, made)).verdict is verdict


@pytest.mark.parametrize(
    ("controller", "elected", "next_one", "verdict"),
    [
        (1, 9.9, 19, PASS),
        # Seen a little later than it was written.
        (1, 10.3, 19, PASS),
        (1, 9.9, 15, INCONCLUSIVE),
        (1, 8, 19, INCONCLUSIVE),
        (3, 9.9, 19, INCONCLUSIVE),
    ],
)
def test_leader_elected_by_a_controller_that_died_at_once_may_not_know(
    tmp_path: Path, controller: int, elected: float, next_one: float, verdict: Verdict
) -> None:
    """t-0 is led by 2, with all that the kill of 1 has left."""
    cluster = [
        office(-5, controller),
        state(-5, 4, 0, (4, 2, 3)),
        state(elected, 2, 1, (2, 3)),
        office(next_one, 2),
    ]
    made = run(partitions={("t", 0): kept(BEFORE, AFTER)}, cluster=cluster)
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is verdict, told(result)


@pytest.mark.parametrize(("set_to", "verdict"), [(3, PASS), (1, INCONCLUSIVE), (2, INCONCLUSIVE)])
def test_acks_are_wanted_where_the_highest_min_insync_replicas_allows_them(
    tmp_path: Path, set_to: int, verdict: Verdict
) -> None:
    """Two are in sync, of a cell with min.insync.replicas=2: with 3 in force nothing is acked."""
    altered = {"fault_id": 1, "fault": "alter-min-isr", "target": "topic(t)"}
    planned = PlannedFault(
        **altered, parameters={"min_insync_replicas": set_to}, start_ms=0, hold_ms=0
    )
    made = run(
        partitions={("t", 0): kept(BEFORE, AFTER)},
        cluster=[state(-5, 2, 0, (2, 3))],
        faults=a_fault(servers=(), **altered),
        plan=[planned],
    )
    assert checked(write_campaign(tmp_path, made)).verdict is verdict


def deleting(before: int, begun: Made, partitions: tuple[str, ...] = ("t-0",)) -> MadeRun:
    """A run in which records were deleted below that offset by order, of these partitions."""
    ordered = {"fault_id": 2, "fault": "advance-log-start", "target": "topic(t)"}
    planned = PlannedFault(**ordered, parameters={"before_offset": before}, start_ms=0, hold_ms=0)
    kill = PlannedFault(fault_id=1, fault="kill", target="leader(t, 0)", start_ms=0, hold_ms=0)
    ordering = a_fault(servers=(), partitions=partitions, **ordered)
    return run(partitions={("t", 0): begun}, faults=[*KILL, *ordering], plan=[kill, planned])


def test_records_deleted_by_order_are_not_lost_and_further_records_are(tmp_path: Path) -> None:
    whole = kept(BEFORE, BEFORE + 1, DURING, AFTER)
    begun = whole.but(log=whole.log[2:], start=2)
    assert checked(write_campaign(tmp_path / "all", deleting(2, begun))).verdict is PASS
    for where, made in (
        ("more", deleting(1, begun)),
        ("another", deleting(2, begun, ("u-0",))),
    ):
        result = checked(write_campaign(tmp_path / where, made))
        assert result.verdict is Verdict.FAIL, where
        assert "records lost" in told(result)


def test_record_without_offset_that_is_lost_or_deleted_is_inconclusive(tmp_path: Path) -> None:
    whole = kept(BEFORE, BEFORE + 1, DURING, AFTER)
    unnamed = [replace(s, offset=None) if s.offset == 1 else s for s in whole.sends]
    begun = whole.but(sends=unnamed, log=whole.log[2:], start=2)
    result = checked(write_campaign(tmp_path, deleting(2, begun)))
    assert result.verdict is INCONCLUSIVE
    assert (
        "1 records without an offset are lost, or were deleted by a DeleteRecords request"
        in told(result)
    )


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
    assert "no fault that is proven to have taken effect touched a partition of this cell" in told(
        result, "d"
    )


def test_a_zookeeper_coordinates_every_partition(tmp_path: Path) -> None:
    faults = a_fault(servers=("zookeeper-1",), partitions=())
    assert checked(write_campaign(tmp_path, two_cells(faults=faults))).verdict is PASS


def test_a_campaign_without_faults_is_a_baseline_only_if_it_says_so(tmp_path: Path) -> None:
    one_ack = run(partitions={("t", 0): kept(1)}, faults=())
    silent = checked(write_campaign(tmp_path / "silent", one_ack))
    assert silent.verdict is INCONCLUSIVE
    assert "does not declare itself a baseline" in told(silent)
    declared = checked(write_campaign(tmp_path / "declared", one_ack, baseline=True))
    assert declared.verdict is PASS
    assert declared.baseline
    assert "a baseline: no fault was ordered" in told(declared)


def test_a_baseline_that_plans_faults_is_none(tmp_path: Path) -> None:
    made = run(partitions={("t", 0): kept(1)})
    result = checked(write_campaign(tmp_path, made, baseline=True))
    assert result.verdict is INCONCLUSIVE
    assert not result.baseline


def test_a_planned_fault_without_a_row_is_missed(tmp_path: Path) -> None:
    """Every row of the second fault was taken out, and the table closed as it is now."""
    plan = [
        PlannedFault(fault_id=n, fault="kill", target=f"leader({t}, 0)", start_ms=0, hold_ms=0)
        for n, t in ((1, "t"), (2, "u"))
    ]
    result = checked(write_campaign(tmp_path, two_cells(plan=plan)))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": INCONCLUSIVE}
    assert "kill#2 on leader(u, 0): the history has no record of it" in told(result)


@pytest.mark.parametrize(
    ("rows", "gap"),
    [
        ([("inject", 10, None), ("failed", 11, None), ("heal", 12, None)], "was not injected"),
        ([("inject", 10, None), ("injected", 10, None), ("healed", 20, True)], "have taken effect"),
        (
            [("inject", 10, None), ("injected", 10, None), ("verified", 11, False)],
            "is not proven to have taken effect",
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


def test_fault_with_an_unresolved_target_leaves_every_cell_inconclusive(tmp_path: Path) -> None:
    failed = fault_rows(("failed", 30, None), fault_id=2, servers=None, partitions=None)
    made = two_cells(faults=[*a_fault(partitions=("t-0", "u-0")), *failed])
    result = checked(write_campaign(tmp_path, made))
    assert verdicts(result) == {"c": INCONCLUSIVE, "d": INCONCLUSIVE}
    assert "kill#2 on leader(t, 0) was not injected" in told(result, "d")
    assert "healed" not in told(result, "d")


def test_another_fault_under_the_number_is_not_the_planned_one(tmp_path: Path) -> None:
    plan = [PlannedFault(fault_id=1, fault="isolate", target="t", start_ms=0, hold_ms=0)]
    result = checked(write_campaign(tmp_path, run(plan=plan)))
    assert result.verdict is INCONCLUSIVE
    assert "isolate#1 on t: the history has no record of it" in told(result)
    assert any("kill#1" in finding and "no such fault" in finding for finding in result.findings)
