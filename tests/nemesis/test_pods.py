"""Faults on nodes of Kubernetes: all brokers there are affected, and what is done is undone."""

import pytest

from ackproof.nemesis import FAULTS
from ackproof.nemesis.effects import EffectNotBegun
from ackproof.nemesis.process.pods import (
    Disappearance,
    Drained,
    drain_limit_ms,
    lost_with_pods,
    with_lost_storage,
)
from ackproof.nemesis.targets.expressions import parse
from ackproof.nemesis.targets.resolution import TargetUnavailable, resolve
from ackproof.testing.faults import Nemesis, check_fault
from ackproof.testing.memory.cluster import Memory, memory_cluster
from tests.support.fakes.remote_probe import put_into_pods


def in_pods() -> Memory:
    """A cluster of which node-1 has brokers 1 and 2, and node-3 has room for one more broker."""
    memory = memory_cluster()
    put_into_pods(memory, 2, 1, 1)
    return memory


def on_two_nodes() -> Memory:
    """A cluster whose brokers keep the metadata, without room for a broker that must move."""
    memory = memory_cluster(zookeepers=3, combined=True)
    put_into_pods(memory, 1, 2)
    return memory


@pytest.mark.parametrize("fault", ["drain", "node-failure"])
@pytest.mark.parametrize("cluster", [in_pods, on_two_nodes])
def test_fault_on_a_node_is_proven_and_undone(fault: str, cluster) -> None:
    check_fault(FAULTS[fault], "broker-1", cluster=cluster)


def test_all_brokers_of_a_node_are_affected_and_no_others() -> None:
    memory = in_pods()
    target = resolve(parse("broker-2"), memory.cluster, 1, FAULTS["drain"].aim)
    assert target.servers == ("broker-1", "broker-2")
    assert target.facts["pods"] == {
        "broker-1": {"node": "node-1", "uid": "broker-1-0"},
        "broker-2": {"node": "node-1", "uid": "broker-2-0"},
        "broker-3": {"node": "node-2", "uid": "broker-3-0"},
    }
    assert set(target.partitions or ()) == {"orders-0", "orders-1", "orders-2"}


def test_broker_without_a_node_is_no_target() -> None:
    memory = in_pods()
    memory.system.brokers[0].distant.pod.node = None
    with pytest.raises(TargetUnavailable, match="broker-1 is on no node"):
        resolve(parse("broker-1"), memory.cluster, 1, FAULTS["drain"].aim)


def test_drain_shows_where_brokers_went(tmp_path) -> None:
    nemesis = Nemesis(in_pods(), tmp_path / "ledger")
    entry = nemesis.strike("drain", "broker-1")
    seen = nemesis.bitten(entry).observations
    assert seen["pod replaced"] == {"broker-1": "on node-3", "broker-2": "waits for a node"}
    assert seen["cordoned"] == {"node-1": "cordoned"}
    nemesis.executor.heal(entry)
    seen = nemesis.healed(entry).observations
    assert seen["pod ready"] == {"broker-1": "on node-3", "broker-2": "on node-1"}


def test_refused_eviction_names_the_budget_and_leaves_the_node_as_it_was(tmp_path) -> None:
    memory = memory_cluster()
    kubernetes = put_into_pods(memory, 2, 2)
    kubernetes.budget = "The disruption budget kafka needs 2 healthy pods and has 2 currently"
    nemesis = Nemesis(memory, tmp_path / "ledger")
    entry = nemesis.aim("drain", "broker-1")
    with pytest.raises(EffectNotBegun, match="The disruption budget kafka"):
        nemesis.executor.inject(entry)
    assert not nemesis.bitten(entry).proven
    nemesis.executor.heal(entry)
    assert not kubernetes.cordoned
    deleted = nemesis.strike("drain", "broker-1", by="deletion")
    assert nemesis.bitten(deleted).proven


def test_node_that_another_has_cordoned_is_left_as_it_is(tmp_path) -> None:
    memory = memory_cluster()
    kubernetes = put_into_pods(memory, 2, 2)
    kubernetes.cordoned["node-1"] = "other"
    nemesis = Nemesis(memory, tmp_path / "ledger")
    entry = nemesis.aim("drain", "broker-1")
    with pytest.raises(EffectNotBegun, match="node-1 is cordoned already"):
        nemesis.executor.inject(entry)
    nemesis.executor.heal(entry)
    assert kubernetes.cordoned == {"node-1": "other"}
    assert all(server.starts == 0 for server in memory.system.brokers), "no broker was evicted"


def test_node_of_two_drains_is_cordoned_until_the_last_one_ends(tmp_path) -> None:
    memory = memory_cluster()
    kubernetes = put_into_pods(memory, 2, 2)
    nemesis = Nemesis(memory, tmp_path / "ledger")
    first = nemesis.strike("drain", "broker-1")
    memory.system.brokers[0].distant.pod.node = "node-1"  # as if it had been put there by hand
    second = nemesis.strike("drain", "broker-1")
    nemesis.executor.heal(first)
    assert kubernetes.cordoned == {"node-1": "run"}
    nemesis.executor.heal(second)
    assert not kubernetes.cordoned


def test_operator_rolls_brokers_one_after_another(tmp_path) -> None:
    memory = in_pods()
    nemesis = Nemesis(memory, tmp_path / "ledger")
    entry = nemesis.aim("operator-roll", "all")
    assert not nemesis.bitten(entry).proven
    nemesis.executor.inject(entry)
    seen = nemesis.bitten(entry)
    assert seen.proven
    assert seen.observations["pod replaced"] == {
        "broker-1": "on node-1",
        "broker-2": "on node-1",
        "broker-3": "on node-2",
    }
    reason = memory.system.brokers[0].distant.pod.kubernetes.events
    assert seen.observations["restarted by"] == dict.fromkeys(entry.target.servers, reason)
    nemesis.executor.heal(entry)
    assert nemesis.healed(entry).proven


def test_roll_of_one_broker_leaves_others_on_its_node(tmp_path) -> None:
    memory = in_pods()
    nemesis = Nemesis(memory, tmp_path / "ledger")
    entry = nemesis.strike("operator-roll", "broker-2")
    assert entry.target.servers == ("broker-2",)
    assert [server.starts for server in memory.system.brokers] == [0, 1, 0]


@pytest.mark.parametrize(
    ("operator", "error", "words"),
    [
        ("paused", TimeoutError, "has not rolled broker-1, broker-3 within 0.001 s: it may be pau"),
        ("hasty", RuntimeError, "took down broker-1 and broker-3 at once"),
    ],
)
def test_operator_that_does_not_roll_in_order_fails_the_fault(
    operator: str, error: type[Exception], words: str, tmp_path
) -> None:
    memory = in_pods()
    kubernetes = memory.system.brokers[0].distant.pod.kubernetes
    kubernetes.operator = operator
    nemesis = Nemesis(memory, tmp_path / "ledger")
    entry = nemesis.aim("operator-roll", "broker-1 + broker-3", within_ms=1)
    with pytest.raises(error, match=words):
        nemesis.executor.inject(entry)
    nemesis.executor.heal(entry)
    assert not any(pod.ordered for pod in kubernetes.pods), "no order stands"


def test_broker_that_is_still_reached_does_not_vanish(tmp_path) -> None:
    """Its end would be heard."""
    memory = in_pods()
    nemesis = Nemesis(memory, tmp_path / "ledger")
    with pytest.raises(EffectNotBegun, match="broker-1 is still reached"):
        Disappearance("broker-1").apply(nemesis.memory.cluster)
    assert memory.disturbances == []


def test_failed_node_is_silent_before_its_brokers_end(tmp_path) -> None:
    memory = on_two_nodes()
    nemesis = Nemesis(memory, tmp_path / "ledger")
    entry = nemesis.strike("node-failure", "broker-1")
    seen = nemesis.bitten(entry).observations
    assert seen["fenced without a goodbye"] == {"broker-1": "by its silence"}
    assert list(map(str, entry.plan.effects)) == ["silence broker-1", "kill broker-1 unheard"]
    nemesis.executor.heal(entry)
    assert not memory.system.brokers[0].distant.pod.silent


@pytest.mark.parametrize(
    "fault", ["kill", "terminate", "restart", "drain", "operator-roll", "node-failure"]
)
def test_fault_destroys_the_storage_that_is_lost_with_pods(fault: str, tmp_path) -> None:
    memory = in_pods()
    plan = Nemesis(memory, tmp_path / "ledger").aim(fault, "broker-1+broker-2").plan
    assert with_lost_storage(plan, memory.cluster) == plan, "all storage stays"
    pods = [server.distant.pod for server in memory.system.brokers]
    pods[0].lost_storage = "the emptyDir volume data"
    assert with_lost_storage(plan, memory.cluster) == plan, "that of broker-2 stays"
    pods[1].lost_storage = "the emptyDir volume data"
    assert with_lost_storage(plan, memory.cluster).destroys == "all"
    assert lost_with_pods(plan, memory.cluster).keys() == {"broker-1", "broker-2"}


def test_paused_broker_keeps_the_storage_of_its_pod(tmp_path) -> None:
    memory = in_pods()
    memory.system.brokers[0].distant.pod.lost_storage = "the emptyDir volume data"
    plan = Nemesis(memory, tmp_path / "ledger").aim("pause", "broker-1").plan
    assert with_lost_storage(plan, memory.cluster) == plan


def test_limit_of_a_drain_covers_each_refused_eviction() -> None:
    assert drain_limit_ms(Drained(within_ms=10), 3) == 30
