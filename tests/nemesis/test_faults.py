"""Every fault is proven when it bit and when it healed, and not proven when it did not."""

import random

import pytest
from memory_cluster import Memory, MemoryServer

from infra.interface import ProcessState
from nemesis import FAULTS
from nemesis.interface import Fault, Target
from nemesis.targets import parse, resolve

CASES = [
    ("kill", "leader(orders, 0)"),
    ("kill", "majority"),
    ("pause", "controller"),
    ("pause", "zookeeper"),
    ("isolate", "leader(orders, 1)"),
    ("isolate", "minority"),
]


def target_of(memory: Memory, expression: str) -> Target:
    return resolve(parse(expression), memory.cluster, random.Random(1))


@pytest.mark.parametrize(("name", "expression"), CASES)
def test_it_bites_and_heals(memory: Memory, name: str, expression: str) -> None:
    fault, cluster = FAULTS[name], memory.cluster
    target = target_of(memory, expression)
    fault.inject(cluster, target)
    assert fault.verify(cluster, target, timeout=0.0).proven
    assert not fault.verify_healed(cluster, target, timeout=0.0).proven
    fault.heal(cluster, target)
    assert fault.verify_healed(cluster, target, timeout=0.0).proven
    assert not fault.verify(cluster, target, timeout=0.0).proven


@pytest.mark.parametrize(("name", "expression"), CASES)
def test_healing_is_idempotent_and_needs_no_injection(
    memory: Memory, name: str, expression: str
) -> None:
    fault, cluster = FAULTS[name], memory.cluster
    target = target_of(memory, expression)
    for _ in range(2):
        fault.heal(cluster, target)
        assert fault.verify_healed(cluster, target, timeout=0.0).proven
    assert all(isinstance(s, MemoryServer) and s.starts == 0 for s in target.servers)


@pytest.mark.parametrize(("name", "expression"), CASES)
def test_what_did_not_bite_is_not_proven(memory: Memory, name: str, expression: str) -> None:
    memory.backend.leaky = True
    for server in (*memory.system.brokers, *memory.system.zookeepers):
        server.process.deaf = True
    fault, cluster = FAULTS[name], memory.cluster
    target = target_of(memory, expression)
    fault.inject(cluster, target)
    evidence = fault.verify(cluster, target, timeout=0.0)
    assert not evidence.proven
    assert "missing" in evidence.observations


def test_isolation_is_not_proven_when_clients_are_cut_off_too(memory: Memory) -> None:
    target = target_of(memory, "leader(orders, 0)")
    FAULTS["isolate"].inject(memory.cluster, target)
    memory.backend.cut(memory.cluster.clients[0], target.servers[0].node)
    assert not FAULTS["isolate"].verify(memory.cluster, target, timeout=0.0).proven


def test_isolation_is_not_proven_when_the_process_died(memory: Memory) -> None:
    target = target_of(memory, "leader(orders, 0)")
    FAULTS["isolate"].inject(memory.cluster, target)
    target.servers[0].process.signal(9)
    assert not FAULTS["isolate"].verify(memory.cluster, target, timeout=0.0).proven


def test_pause_tells_whose_session_was_lost(memory: Memory) -> None:
    target = target_of(memory, "zookeeper")
    FAULTS["pause"].inject(memory.cluster, target)
    memory.system.sessions[2] = 0xBEEF
    FAULTS["pause"].heal(memory.cluster, target)
    evidence = FAULTS["pause"].verify_healed(memory.cluster, target, timeout=0.0)
    assert evidence.observations["sessions_lost"] == ["broker-2"]


def test_kill_starts_only_what_died(memory: Memory) -> None:
    target = target_of(memory, "leader(orders, 0)")
    FAULTS["kill"].inject(memory.cluster, target)
    FAULTS["kill"].heal(memory.cluster, target)
    assert [broker.starts for broker in memory.system.brokers] == [1, 0, 0]
    assert memory.system.brokers[0].process.state() is ProcessState.RUNNING


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_waits_are_derived_from_the_cluster(memory: Memory, fault: Fault) -> None:
    short = fault.hold_ms_min(memory.system)
    memory.system.zookeeper_session_timeout_ms *= 10
    assert short >= 1000
    assert fault.hold_ms_min(memory.system) >= 10 * short
