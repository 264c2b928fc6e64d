"""Servers with too little of something: what the kernel counts proves it, and that it is over."""

import pytest

from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import ProcessState
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.servers import MemoryServer

FAULTS = ["starve-cpu", "starve-memory"]
TARGETS = ["leader(orders, 0)", "all", "zookeeper"]


def broker(nemesis: Nemesis) -> MemoryServer:
    return nemesis.memory.system.brokers[0]


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("expression", TARGETS)
@pytest.mark.parametrize("hold_ms", [None, 0])
def test_starvation_takes_effect_and_heals(
    nemesis: Nemesis, name: str, expression: str, hold_ms: int | None
) -> None:
    nemesis.through(name, expression, hold_ms=hold_ms)
    servers = [*nemesis.memory.system.zookeepers, *nemesis.memory.system.brokers]
    assert not any(server.node.limits or server.starts for server in servers)


@pytest.mark.parametrize("name", FAULTS)
def test_server_that_needs_no_more_is_not_starved(nemesis: Nemesis, name: str) -> None:
    broker(nemesis).node.content = True
    proof = nemesis.bitten(nemesis.strike(name, "broker-1"))
    assert not proof.proven
    assert "missing" in proof.observations


@pytest.mark.parametrize("name", FAULTS)
def test_a_limit_that_is_still_there_is_not_healed(nemesis: Nemesis, name: str) -> None:
    entry = nemesis.strike(name, "broker-1")
    nemesis.executor.heal(entry)
    for what in LimitedResource:
        broker(nemesis).node.limit(what, 1)
    assert not nemesis.healed(entry).proven


def test_starvation_sets_the_requested_limits(nemesis: Nemesis) -> None:
    nemesis.strike("starve-cpu", "broker-1", percent=5)
    nemesis.strike("starve-memory", "broker-1", kib=2)
    assert broker(nemesis).node.limits == {LimitedResource.CPU: 50, LimitedResource.MEMORY: 2048}


class TestWhoNeedsMoreMemoryIsKilled:
    def test_by_the_fault(self, nemesis: Nemesis) -> None:
        entry = nemesis.strike("starve-memory", "broker-1")
        assert nemesis.ledger.holding("broker-1") == entry.fault_id
        broker(nemesis).process.signal(9)
        assert nemesis.bitten(entry).proven
        nemesis.executor.heal(entry)
        assert broker(nemesis).starts == 1
        assert broker(nemesis).node.limits == {}
        assert nemesis.healed(entry).proven

    def test_and_stays_down_for_another_fault(self, nemesis: Nemesis) -> None:
        starved = nemesis.strike("starve-memory", "broker-1")
        killed = nemesis.strike("kill", "broker-1")
        nemesis.executor.heal(starved)
        assert broker(nemesis).process.state() is ProcessState.EXITED
        assert nemesis.healed(starved).proven, "kill#2 is active"
        nemesis.executor.heal(killed)
        assert broker(nemesis).starts == 1

    def test_starved_cpu_does_not_hold_a_server(self, nemesis: Nemesis) -> None:
        nemesis.strike("starve-cpu", "broker-1")
        assert nemesis.ledger.holding("broker-1") is None


def test_two_faults_share_a_limit(nemesis: Nemesis) -> None:
    """The last one lifts it. The second has changed nothing, and proves nothing."""
    first = nemesis.strike("starve-cpu", "broker-1")
    second = nemesis.strike("starve-cpu", "broker-1")
    assert not nemesis.bitten(second).proven
    nemesis.executor.heal(first)
    assert broker(nemesis).node.limits
    assert nemesis.healed(first).proven
    nemesis.executor.heal(second)
    assert broker(nemesis).node.limits == {}
