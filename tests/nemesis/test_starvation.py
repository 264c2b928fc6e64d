"""Servers with too little of something: what the kernel counts proves it, and that it is over."""

from collections.abc import Mapping

import pytest

from ackproof.infra.api.capabilities import LimitedResource, NotCounted
from ackproof.infra.api.interface import PodRefusal, ProcessState
from ackproof.nemesis.effects import EffectNotBegun
from ackproof.testing.faults import Nemesis
from ackproof.testing.memory.servers import MemoryNode, MemoryServer
from tests.support.fakes.remote_probe import put_into_pods

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


# --- brokers in pods ------------------------------------------------------------------------------


class UncountedNode(MemoryNode):
    """A node in which no program can be started, so that the kernel's counters are unknown."""

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
        if what not in self.limits:
            return {}
        raise NotCounted("pods/exec is forbidden")


class RefusingNode(MemoryNode):
    """A node whose pod Kubernetes does not resize."""

    def limit(self, what: LimitedResource, amount: int) -> None:
        raise PodRefusal(f"its container has no {what} limit above {amount}")


@pytest.fixture
def in_pods(nemesis: Nemesis) -> Nemesis:
    put_into_pods(nemesis.memory, 3)
    return nemesis


def test_limit_of_a_pod_is_proven_by_the_kubelet_and_the_kernel(in_pods: Nemesis) -> None:
    in_pods.through("starve-cpu", "broker-1", percent=5)
    seen = in_pods.bitten(in_pods.strike("starve-cpu", "broker-2", percent=3)).observations
    assert seen["limit in force"] == {"broker-2": "30m"}
    assert seen["short of cpu"] == {"broker-2": {"throttled": 1, "throttled_us": 1000}}


def test_limit_that_the_kubelet_does_not_apply_is_not_proven(in_pods: Nemesis) -> None:
    broker(in_pods).distant.pod.held_back = True
    proof = in_pods.bitten(in_pods.strike("starve-cpu", "broker-1"))
    assert not proof.proven
    assert proof.observations["missing"] == {"limit in force": ["broker-1"]}


def test_unreadable_counters_leave_the_kubelets_report_as_proof(in_pods: Nemesis) -> None:
    broker(in_pods).node = UncountedNode("broker-1", "10.0.0.1")
    entry = in_pods.strike("starve-cpu", "broker-1")
    proof = in_pods.bitten(entry)
    assert proof.proven
    assert proof.observations == {
        "limit in force": {"broker-1": "20m"},
        "not observed": {"short of cpu": {"broker-1": "pods/exec is forbidden"}},
    }
    assert not in_pods.healed(entry).proven
    in_pods.executor.heal(entry)
    assert in_pods.healed(entry).proven


def test_broker_in_a_pod_that_is_never_throttled_is_not_starved(in_pods: Nemesis) -> None:
    broker(in_pods).node.content = True
    assert not in_pods.bitten(in_pods.strike("starve-cpu", "broker-1")).proven


def test_limit_that_kubernetes_refuses_was_not_injected(in_pods: Nemesis) -> None:
    broker(in_pods).node = RefusingNode("broker-1", "10.0.0.1")
    entry = in_pods.aim("starve-cpu", "broker-1")
    with pytest.raises(EffectNotBegun, match="has no cpu limit above 20"):
        in_pods.executor.inject(entry)
    assert not in_pods.bitten(entry).proven
