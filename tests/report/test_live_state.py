"""The state of a run that goes on, from the rows of its history so far."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.harness.report.live import state
from ackproof.history.manifest import PlannedCell, PlannedFault, PlannedRun
from ackproof.testing import histories
from ackproof.testing.histories import TOPIC

S = 1_000_000_000
KILL = PlannedFault(fault_id=1, fault="kill", target="leader(t, any)", start_ms=0, hold_ms=8_000)
PLANNED = PlannedRun(
    number=1,
    seed=1,
    session_timeout_ms=1,
    replica_lag_ms=1,
    recovery_ms=1,
    cells=(PlannedCell(cell=histories.sound_history().cell),),
    faults=(KILL,),
    writers=(),
)


def phase(name: str, event: str, detail: str | None = None, at_s: int = 0) -> Mapping[str, object]:
    return {"phase": name, "event": event, "time": at_s * S, "detail": detail}


def fault(event: str, at_s: int, **more: object) -> Mapping[str, object]:
    row = {"fault_id": 1, "fault": "kill", "event": event, "time": at_s * S, "evidence": None}
    where = {"target": "leader(t, any)", "servers": ["broker-2"], "partitions": ["t-0", "t-1"]}
    return {**row, **where, "facts": None, "proven": None, **more}


@pytest.mark.parametrize(
    ("events", "step"),
    [
        ([], "start"),
        ([("deploy", "start")], "deploy"),
        ([("deploy", "start"), ("deploy", "end"), ("ready", "start")], "ready"),
        ([("deploy", "start"), ("deploy", "failed")], "deploy"),
        ([("teardown", "start"), ("teardown", "end")], "check"),
        ([("teardown", "start"), ("teardown", "failed")], "check"),
    ],
)
def test_step_is_the_last_that_began(events: list[tuple[str, str]], step: str) -> None:
    assert state.step_of([phase(*one) for one in events]) == step


@pytest.mark.parametrize(
    ("events", "words", "is_open", "is_due"),
    [
        ([fault("inject", 10)], "being injected", True, True),
        (
            [fault("inject", 10), fault("injected", 11)],
            "injected, effect not yet verified",
            True,
            True,
        ),
        ([fault("inject", 10), fault("verified", 11, proven=True)], "verified", True, True),
        (
            [fault("inject", 10), fault("verified", 11, proven=False)],
            "effect not proven",
            True,
            True,
        ),
        ([fault("inject", 10), fault("heal", 18)], "being healed", True, False),
        (
            [fault("inject", 10), fault("heal", 18), fault("healed", 19, proven=False)],
            "not proven healed",
            True,
            False,
        ),
        (
            [
                *(fault("inject", 10), fault("heal", 18), fault("healed", 19, proven=False)),
                fault("lifted", 19, proven=False),
            ],
            "not proven healed",
            True,
            False,
        ),
        (
            [fault("inject", 10), fault("heal", 18), fault("healed", 19, proven=True)],
            "healed",
            False,
            False,
        ),
        (
            [fault("inject", 10), fault("failed", 11, evidence='{"error": "InfraError: no nft"}')],
            "failed: InfraError: no nft",
            True,
            True,
        ),
    ],
)
def test_state_of_a_fault_follows_its_events(
    events: list[Mapping[str, object]], words: str, is_open: bool, is_due: bool
) -> None:
    (found,) = state.faults_of(events, PLANNED)
    assert (found.state, found.end is None) == (words, is_open)
    assert found.due == (18 * S if is_due else None)
    assert (found.label, found.target, found.start) == ("kill#1", "broker-2", 10 * S)


def test_fault_that_failed_before_its_injection_is_not_listed() -> None:
    row = fault("failed", 10, servers=None, partitions=None)
    assert state.faults_of([row], PLANNED) == []


@pytest.mark.parametrize(
    ("more", "target"),
    [
        ({"facts": json.dumps({"links": ["broker-1->broker-2"]})}, "broker-1->broker-2"),
        ({"servers": ["broker-1", "client-1"]}, "broker-1, client-1"),
        ({"servers": []}, "t-0, t-1"),
        ({"servers": None, "partitions": None}, "leader(t, any)"),
        ({"facts": "{broken"}, "broker-2"),
    ],
)
def test_fault_names_its_links_or_servers_or_partitions(
    more: Mapping[str, object], target: str
) -> None:
    assert state.faults_of([fault("inject", 1, **more)], None)[0].target == target


def test_findings_are_those_that_the_run_reports_in_the_order_of_time() -> None:
    phases = [phase("ready", "start", at_s=1), phase("ready", "failed", "no quorum", at_s=5)]
    ended = {"time": 3 * S, "event": "ended", "exit_code": 70}
    servers = [
        {**ended, "server": "broker-1", "fault_id": None},
        {**ended, "server": "broker-2", "fault_id": 1},
        {**ended, "server": "broker-3", "fault_id": None, "event": "started"},
    ]
    gone = {"time": 4 * S, "exit_code": None, "session": None, "detail": None, "fault_id": None}
    clients = [
        {**gone, "client": "p-1", "detail": "was silent for 40 s"},
        {**gone, "client": "p-2", "fault_id": 3, "exit_code": -9},
        {**gone, "client": "p-3", "exit_code": 1},
        {**gone, "client": "p-4", "session": 2, "detail": "_FENCED"},
    ]
    assert [one.text for one in state.findings_of(phases, servers, clients)] == [
        "servers: broker-1 ended by itself, status 70",
        "workload: the client p-1 was silent for 40 s",
        "workload: the client p-3 ended with status 1",
        "workload: the client p-4 ended session 2: _FENCED",
        "ready: no quorum",
    ]


def led(
    at_s: int, leader: int | None, isr: list[int], kind: str = "partition"
) -> dict[str, object]:
    row = {"time": at_s * S, "kind": kind, "topic": TOPIC, "partition": 0, "leader": leader}
    return {**row, "leader_epoch": 1, "isr": isr, "controller_epoch": 1, "version": 1, "elr": None}


def test_partition_is_shown_as_last_observed_and_another_not_at_all() -> None:
    rows = [led(1, 1, [1, 2, 3]), led(2, 2, [2, 3])]
    (found,) = state.partitions_of(rows, [phase("faults", "start")], PLANNED)
    assert (found.topic, found.partition, found.leader, found.isr) == (TOPIC, 0, 2, (2, 3))


@pytest.mark.parametrize(("leader", "shown"), [(-1, -1), (None, None)])
def test_missing_leader_is_minus_one_and_unknown_leader_is_none(
    leader: int | None, shown: int | None
) -> None:
    assert state.partitions_of([led(1, leader, [1])], [], PLANNED)[0].leader == shown


def test_partitions_are_not_shown_while_nothing_is_observed() -> None:
    seen = led(1, 1, [1, 2, 3])
    lost, back = led(2, None, [], "zookeeper-lost"), led(3, None, [], "zookeeper-back")
    assert state.partitions_of([seen, lost], [], PLANNED) == []
    assert len(state.partitions_of([seen, lost, back], [], PLANNED)) == 1
    assert state.partitions_of([seen], [phase("teardown", "start")], PLANNED) == []


def test_server_states_name_the_fault_that_ended_a_server() -> None:
    row = {"time": 1, "exit_code": -9, "fault_id": 1}
    rows = [
        {**row, "server": "broker-1", "event": "started"},
        {**row, "server": "broker-2", "event": "ended"},
        {**row, "server": "broker-3", "event": "ended", "fault_id": None},
    ]
    faults = state.faults_of([fault("inject", 1)], PLANNED)
    assert [(one.name, one.state, one.ended_alone) for one in state.servers_of(rows, faults)] == [
        ("broker-1", "runs", False),
        ("broker-2", "ended by kill#1, status -9", False),
        ("broker-3", "ended by itself, status -9", True),
    ]


def test_client_that_has_not_reported_is_not_shown_and_a_late_report_is_dated() -> None:
    reports = {
        "p-1": {"acked": 1200, "failed": 0, "indeterminate": 2, "time": 9 * S},
        "r-1": {"shown": 0, "assigned": 1, "time": 1 * S},
    }
    found = state.clients_of(["p-1", "r-1", "p-2"], reports, [], 10 * S)
    assert [(one.name, one.state) for one in found] == [
        ("p-1", "1,200 acked, 2 unknown"),
        ("r-1", "0 read, last report 9 s ago"),
    ]


@given(
    st.dictionaries(st.integers(0, 20_000), st.integers(1, 9), min_size=1),
    st.none() | st.integers(0, 25_000),
)
def test_curves_have_few_points_and_count_each_outcome_that_is_complete(
    acks: dict[int, int], until: int | None
) -> None:
    curves = state.curves_of({"ok": acks}, until)
    if curves is None:
        assert until is not None
        assert until <= min(acks) + 3600
        return
    (rates,) = curves.rates.values()
    assert len(rates) <= state.POINTS_MAX
    end = curves.start + len(rates) * curves.width_s
    assert round(sum(rates) * curves.width_s) == sum(n for at, n in acks.items() if at < end)
    assert until is None or end <= until
