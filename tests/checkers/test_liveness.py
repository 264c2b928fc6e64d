"""Liveness: the cluster recovers from the faults, and no server ends by itself."""

from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.verdict import Verdict
from tests.support.builders.checked_runs import (
    FAIL,
    INCONCLUSIVE,
    PASS,
    checked,
    run,
    told,
    two_cells,
    verdicts,
)
from tests.support.builders.histories import (
    KILL,
    STARTED,
    MadeRun,
    at,
    ended,
    fault_rows,
    recovered,
    state,
    write_campaign,
)


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
def test_unobserved_recovery_is_inconclusive(
    tmp_path: Path, recovery: list[dict[str, Any]]
) -> None:
    result = checked(write_campaign(tmp_path, run(recovery=recovery)))
    assert result.verdict is INCONCLUSIVE
    assert "recovers: t-0" in told(result)


@pytest.mark.parametrize(("left", "held"), [(0, False), (1, None)])
def test_partition_without_brokers_did_not_recover_before_its_time_was_up(
    tmp_path: Path, left: int, held: bool | None
) -> None:
    """All brokers crash 22 s after the workload began, and nothing starts them again."""
    ends = [ended(22, f"broker-{number}", 1) for number in range(1, 4 - left)]
    recovery = [recovered(leader=-1, isr=(), whole=False, seconds=24)]
    made = run(recovery=recovery, servers=[*STARTED, *ends])
    result = checked(write_campaign(tmp_path, made))
    (recovers,) = (one for one in result.cells[0].guarantees if one.name == "recovers")
    assert recovers.held is held
    assert result.verdict is FAIL


def test_a_fault_that_is_not_healed_suspends_recovery(tmp_path: Path) -> None:
    unhealed = [row for row in KILL if row["event"] not in ("heal", "healed")]
    recovery = [recovered(isr=(2, 3), whole=False, seconds=300)]
    result = checked(write_campaign(tmp_path, run(faults=unhealed, recovery=recovery)))
    assert result.verdict is INCONCLUSIVE
    (recovers,) = [g for g in result.cells[0].guarantees if g.name == "recovers"]
    assert not recovers.promised


@pytest.mark.parametrize(
    ("attempts", "seconds", "expected"),
    [
        ([("healed", 20, False), ("lifted", 20, False)], 85, FAIL),
        ([("healed", 20, False), ("lifted", 20, False)], 60, INCONCLUSIVE),
        ([("healed", 20, False)], 300, INCONCLUSIVE),
        # Healed once more in the end, and something of it was found.
        ([("lifted", 20, False), ("heal", 21, None), ("healed", 30, False)], 300, INCONCLUSIVE),
    ],
)
def test_a_system_that_does_not_answer_when_nothing_of_a_fault_is_left_has_to_recover(
    tmp_path: Path, attempts: list[Any], seconds: float, expected: Verdict
) -> None:
    """A broker was killed, runs again and does not register: that is the broker's fault."""
    begun = [row for row in KILL if row["event"] != "healed"]
    recovery = [recovered(isr=(2, 3), whole=False, seconds=seconds)]
    made = run(faults=[*begun, *fault_rows(*attempts)], recovery=recovery)
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is expected
    assert ("recovers: t-0 has the ISR [2, 3]" in told(result)) == (expected is FAIL)


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        # Whole again at 50 s; looked at late, at 200 s.
        ([state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2, 3)), state(50, 2, 1, (1, 2, 3))], PASS),
        ([state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2, 3)), state(150, 2, 1, (1, 2, 3))], FAIL),
        ([state(-5, 1, 0, (1, 2, 3)), state(12, 2, 1, (2, 3))], INCONCLUSIVE),
    ],
)
def test_late_probe_is_judged_by_observed_states(
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


@pytest.mark.parametrize(
    ("moment", "exit_code", "expected"),
    [
        (30, 143, PASS),  # Java, as it was asked to
        (30, 0, PASS),  # the bundled broker
        (30, -9, PASS),  # it did not end in time
        (30, 1, FAIL),  # it crashed while it left
        (15, 143, FAIL),  # it had not been asked yet
    ],
)
def test_added_broker_that_leaves_in_order_did_not_end_by_itself(
    tmp_path: Path, moment: float, exit_code: int, expected: Verdict
) -> None:
    added = fault_rows(
        *(("inject", 10, None), ("injected", 12, None), ("verified", 13, True)),
        *(("heal", 20, None), ("healed", 31, True)),
        fault="add-broker",
        target="partition(t, 0)",
        servers=(),
    )
    joined = {"time": at(11), "server": "broker-4", "event": "started"}
    servers = [*two_servers(), joined, ended(moment, "broker-4", exit_code, fault_id=1)]
    isr = (1, 2, 4)
    made = run(
        faults=added,
        servers=servers,
        cluster=[state(-5, 1, 0, isr)],
        recovery=[recovered(isr=isr, seconds=40)],
    )
    assert checked(write_campaign(tmp_path, made)).verdict is expected


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


def test_ended_server_with_unknown_replicas_is_inconclusive(tmp_path: Path) -> None:
    cluster = [state(-5, 1, 0, (1, 2))]
    made = run(
        cluster=cluster,
        recovery=[recovered(isr=(1, 2))],
        servers=[*two_servers(), ended(5, "broker-3", 1)],
    )
    result = checked(write_campaign(tmp_path, made))
    assert result.verdict is INCONCLUSIVE
    assert "it was not observed whether it held a replica of this cell" in told(result)


def test_unwatched_servers_are_inconclusive(tmp_path: Path) -> None:
    result = checked(write_campaign(tmp_path, run(servers=())))
    assert result.verdict is INCONCLUSIVE
    assert "servers-stay-up: the servers' processes were not observed" in told(result)
