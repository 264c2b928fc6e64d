"""Nodes of a real Kubernetes are cordoned and pods evicted, and what others do is left alone."""

import os
import secrets
import threading
from collections.abc import Iterator

import pytest
from kubernetes import client as kube

from ackproof.infra.api.interface import PodPlace, PodRefusal
from ackproof.infra.backends.kubernetes import broker_pods
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod, BrokerPods
from ackproof.infra.backends.kubernetes.cluster import IMAGE, connected
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S, TEST_S

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(TEST_S)]

LABELS = {"app": "sleeper"}


class Sleepers:
    """A StatefulSet with one pod that does nothing, in a namespace of its own."""

    def __init__(self, core: "kube.CoreV1Api") -> None:
        self.core = core
        self.namespace = f"ackproof-test-{secrets.token_hex(4)}"
        self.pods = BrokerPods(namespace=self.namespace, selector="app=sleeper")
        self.pod = BrokerPod(pods=self.pods, broker=0)

    def start(self) -> None:
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        sleeper = {"name": "s", "image": os.environ[IMAGE], "command": ["sleep", "infinity"]}
        spec = {"containers": [sleeper], "terminationGracePeriodSeconds": 1}
        template = {"metadata": {"labels": LABELS}, "spec": spec}
        kube.AppsV1Api(self.core.api_client).create_namespaced_stateful_set(
            self.namespace,
            {
                "metadata": {"name": "sleeper"},
                "spec": {"selector": {"matchLabels": LABELS}, "template": template},
            },
        )
        self.ready()

    def ready(self) -> PodPlace:
        """Return the place of the pod once it is ready."""

        def there() -> bool:
            found = broker_pods.place(self.pod)
            return found is not None and found.ready and not found.ends

        wait_until(there, PATIENCE_S, "a pod that is ready", 0.2)
        found = broker_pods.place(self.pod)
        assert found is not None
        return found

    def unschedulable(self, node: str, given: bool | None) -> None:
        """Cordon a node, or uncordon it, as an operator does."""
        self.core.patch_node(node, {"spec": {"unschedulable": given}})


@pytest.fixture(scope="module")
def sleepers() -> Iterator[Sleepers]:
    with connected() as user:
        found = Sleepers(kube.CoreV1Api(user))
        try:
            found.start()
            yield found
        finally:
            found.core.delete_namespace(found.namespace, grace_period_seconds=0)


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
