"""Nodes of a real Kubernetes are cordoned and pods evicted, and what others do is left alone."""

import threading
from collections.abc import Iterator

import pytest
from kubernetes import client as kube

from ackproof.infra.api.interface import PodRefusal
from ackproof.infra.backends.kubernetes import broker_pods
from tests.support.clusters.sleepers import LABELS, Sleepers, sleepers_in_pods
from tests.support.processes.deadlines import PATIENCE_S, TEST_S

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(TEST_S)]


@pytest.fixture(scope="module")
def sleepers() -> Iterator[Sleepers]:
    with sleepers_in_pods() as found:
        yield found


@pytest.fixture
def node(sleepers: Sleepers) -> Iterator[str]:
    found = sleepers.ready().node
    assert found is not None
    yield found
    sleepers.unschedulable(found, None)


def test_cordon_is_undone_by_its_own_run_alone(sleepers: Sleepers, node: str) -> None:
    assert broker_pods.cordon(sleepers.pods, node, "run") is True
    assert broker_pods.cordon(sleepers.pods, node, "run") is False
    with pytest.raises(PodRefusal, match=f"the node {node} is cordoned already, by another run"):
        broker_pods.cordon(sleepers.pods, node, "other")
    assert broker_pods.uncordon(sleepers.pods, node, "other") is False
    assert broker_pods.is_cordoned(sleepers.pods, node)
    assert broker_pods.uncordon(sleepers.pods, node, "run") is True
    assert not broker_pods.is_cordoned(sleepers.pods, node)
    assert broker_pods.uncordon(sleepers.pods, node, "run") is False


def test_node_that_its_operator_has_cordoned_stays_so(sleepers: Sleepers, node: str) -> None:
    sleepers.unschedulable(node, True)
    with pytest.raises(PodRefusal, match="not by Ackproof"):
        broker_pods.cordon(sleepers.pods, node, "run")
    assert broker_pods.uncordon(sleepers.pods, node, "run") is False
    assert broker_pods.is_cordoned(sleepers.pods, node)


def test_missing_node_has_nothing_to_undo(sleepers: Sleepers) -> None:
    assert broker_pods.uncordon(sleepers.pods, "no-such-node", "run") is False
    with pytest.raises(PodRefusal, match="no-such-node"):
        broker_pods.cordon(sleepers.pods, "no-such-node", "run")


def test_evicted_pod_is_replaced_on_another_node(sleepers: Sleepers, node: str) -> None:
    before = sleepers.ready()
    broker_pods.cordon(sleepers.pods, node, "run")
    assert broker_pods.evict(sleepers.pod, before.uid, 5, budgets=True) is True
    after = sleepers.ready()
    assert after.uid != before.uid
    assert after.node != node
    assert broker_pods.evict(sleepers.pod, before.uid, 5, budgets=True) is False, "it is gone"
    assert sleepers.ready().uid == after.uid
    broker_pods.uncordon(sleepers.pods, node, "run")


def test_forbidden_eviction_names_the_budget_and_is_repeated_until_it_is_allowed(
    sleepers: Sleepers,
) -> None:
    before = sleepers.ready()
    policies = kube.PolicyV1Api(sleepers.core.api_client)
    spec = {"minAvailable": 1, "selector": {"matchLabels": LABELS}}
    policies.create_namespaced_pod_disruption_budget(
        sleepers.namespace, {"metadata": {"name": "budget"}, "spec": spec}
    )
    with pytest.raises(PodRefusal, match="The disruption budget budget needs 1 healthy pods"):
        broker_pods.evict(sleepers.pod, before.uid, 2, budgets=True)
    assert sleepers.ready() == before
    assert broker_pods.evict(sleepers.pod, before.uid, 2, budgets=False) is True, "is deleted"

    second = sleepers.ready()
    ended: list[bool] = []
    waiting = threading.Thread(
        target=lambda: ended.append(
            broker_pods.evict(sleepers.pod, second.uid, PATIENCE_S, budgets=True)
        )
    )
    waiting.start()
    policies.delete_namespaced_pod_disruption_budget("budget", sleepers.namespace)
    waiting.join(PATIENCE_S)
    assert ended == [True]
    assert sleepers.ready().uid != second.uid
