"""Restarts of pods that no fault has ordered are recorded as faults, and explain the ends of
brokers. Those by the run's own faults are not recorded twice."""

import json
import signal
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ackproof.harness.running import servers
from ackproof.harness.running.context import Run
from ackproof.history import reader
from ackproof.history.manifest import UNORDERED
from ackproof.history.schema import LOST_WITH_POD, RESTARTED_BY
from ackproof.nemesis.execution import OpenFault
from ackproof.nemesis.interface import Plan, Target
from ackproof.nemesis.process.pods import OPERATOR_ROLL, RollOrder
from ackproof.testing.memory.cluster import Memory
from tests.support.fakes.remote_probe import KubernetesInMemory, put_into_pods


@pytest.fixture
def kubernetes(run: Run, memory: Memory) -> KubernetesInMemory:
    found = put_into_pods(memory, 3)
    found.operator = "paused"
    run.pod_restarts.look()
    return found


def rows_of(run: Run) -> list[Mapping[str, Any]]:
    return reader.read(run.history, "faults").to_pylist()


def evidence_of(rows: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {k: v for row in rows for k, v in json.loads(row["evidence"] or "{}").items()}


def end_pod(memory: Memory) -> None:
    memory.system.brokers[0].process.signal(signal.SIGTERM)


def order_roll(run: Run) -> int:
    effect = RollOrder("broker-1", "broker-1-0")
    target = Target(expression="broker-1", nodes=("broker-1",), servers=("broker-1",))
    plan = Plan(effects=(effect,))
    entry = OpenFault(fault_id=7, fault=OPERATOR_ROLL, target=target, plan=plan, hold_ms=0)
    run.ledger.open(entry)
    run.ledger.doing(7, effect)
    return 7


def test_unordered_restart_is_recorded_as_a_fault(
    run: Run, memory: Memory, kubernetes: KubernetesInMemory
) -> None:
    numbers = {fault.fault_id for fault in run.plan}
    end_pod(memory)
    for _ in range(2):
        run.pod_restarts.look()
    assert [row["event"] for row in rows_of(run)] == ["inject", "injected", "verified"]
    memory.system.brokers[0].start()
    for _ in range(2):
        run.pod_restarts.look()
    rows = rows_of(run)
    assert [row["event"] for row in rows][3:] == ["heal", "healed"]
    assert {row["fault"] for row in rows} == {UNORDERED}
    assert {row["fault_id"] for row in rows} == {max(numbers) + 1}
    assert [row["proven"] for row in rows] == [None, None, True, None, True]
    assert all(row["servers"] == ["broker-1"] and row["partitions"] for row in rows)
    assert all(row["destroys"] is None for row in rows)
    assert evidence_of(rows)[RESTARTED_BY] == {"broker-1": kubernetes.events}
    assert "broker-1 is back in another pod; restarted by: an operator" in run.findings[-1]


def test_unordered_restart_records_the_storage_that_it_takes(
    run: Run, memory: Memory, kubernetes: KubernetesInMemory
) -> None:
    kubernetes.pods[0].lost_storage = "the emptyDir volume data"
    end_pod(memory)
    run.pod_restarts.look()
    rows = rows_of(run)
    assert all(row["destroys"] == "all" for row in rows)
    assert evidence_of(rows)[LOST_WITH_POD] == {"broker-1": "the emptyDir volume data"}


@pytest.mark.usefixtures("kubernetes")
def test_replaced_pod_explains_the_end_of_its_broker(run: Run, memory: Memory) -> None:
    server = memory.system.brokers[0]
    process = server.process
    server.distant.found = lambda: process
    watch = servers._WatchedServer(run, server)
    watch.look()
    end_pod(memory)
    watch.look()
    started, ended = reader.read(run.history, "servers").to_pylist()
    assert (started["event"], ended["event"]) == ("started", "ended")
    assert ended["fault_id"] == rows_of(run)[0]["fault_id"]
    assert run.ended_by_themselves == []


def test_broker_that_ends_in_its_pod_has_ended_by_itself(
    run: Run, memory: Memory, kubernetes: KubernetesInMemory
) -> None:
    server = memory.system.brokers[0]
    process = server.process
    place = server.distant.pod.place()
    server.distant.found = lambda: process
    watch = servers._WatchedServer(run, server)
    watch.look()
    kubernetes.pods[0].place = lambda: place  # the container restarts
    end_pod(memory)
    watch.look()
    assert rows_of(run) == []
    assert run.ended_by_themselves == ["broker-1"]


@pytest.mark.parametrize("ordered", [False, True])
def test_container_that_is_started_again_is_the_end_of_a_broker(
    run: Run, memory: Memory, kubernetes: KubernetesInMemory, *, ordered: bool
) -> None:
    fault = order_roll(run) if ordered else None
    place = memory.system.brokers[0].distant.pod.place()
    again = replace(place, restarts=1, last_end="OOMKilled", last_status=137)
    kubernetes.pods[0].place = lambda: again
    for _ in range(2):
        run.pod_restarts.look()
    assert rows_of(run) == []
    ended, started = reader.read(run.history, "servers").to_pylist()
    assert (ended["event"], started["event"]) == ("ended", "started")
    assert (ended["exit_code"], ended["detail"], ended["fault_id"]) == (137, "OOMKilled", fault)
    assert any("exit code 137 (OOMKilled)" in one for one in run.findings) is not ordered
    if fault is not None:
        run.ledger.close(fault)


@pytest.mark.usefixtures("kubernetes")
def test_ordered_restart_is_not_recorded_twice_but_the_next_one_is(
    run: Run, memory: Memory
) -> None:
    number = order_roll(run)
    for expected in (0, 1):
        end_pod(memory)
        run.pod_restarts.look()
        memory.system.brokers[0].start()
        run.pod_restarts.look()
        assert len({row["fault_id"] for row in rows_of(run)}) == expected
    run.ledger.close(number)


@pytest.mark.usefixtures("kubernetes")
def test_pod_that_is_replaced_between_two_looks_is_recorded(run: Run, memory: Memory) -> None:
    end_pod(memory)
    memory.system.brokers[0].start()
    for _ in range(2):
        run.pod_restarts.look()
    assert [row["event"] for row in rows_of(run)][-1] == "healed"


def test_brokers_outside_pods_are_left_alone(run: Run) -> None:
    run.pod_restarts.look()
    assert run.pod_restarts.explaining("broker-1") is None
    assert rows_of(run) == []
