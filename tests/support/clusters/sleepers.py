"""A pod of a StatefulSet that is no broker, but stands for one."""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kubernetes import client as kube

from ackproof.infra.api.interface import PodPlace
from ackproof.infra.backends.kubernetes import broker_pods
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod, BrokerPods
from ackproof.infra.backends.kubernetes.cluster import IMAGE, connected
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

LABELS = {"app": "sleeper"}


class Sleepers:
    """A StatefulSet with one pod, in a namespace of its own.

    Args:
        command: The program of its container; one that does nothing by default.
        resources: The requests and limits of its container.
    """

    def __init__(
        self,
        core: "kube.CoreV1Api",
        command: Sequence[str] = ("sleep", "infinity"),
        resources: Mapping[str, Any] = {},
    ) -> None:
        self.core = core
        self._command, self._resources = command, resources
        self.namespace = f"ackproof-test-{secrets.token_hex(4)}"
        self.pods = BrokerPods(namespace=self.namespace, selector="app=sleeper")
        self.pod = BrokerPod(pods=self.pods, broker=0)

    def start(self) -> None:
        self.core.create_namespace({"metadata": {"name": self.namespace}})
        sleeper = {
            "name": "s",
            "image": os.environ[IMAGE],
            "imagePullPolicy": "IfNotPresent",
            "command": list(self._command),
            "resources": dict(self._resources),
        }
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

    def present(self) -> Any:
        """Return the pod (``V1Pod``)."""
        (found,) = self.core.list_namespaced_pod(self.namespace).items
        return found


@contextmanager
def sleepers_in_pods(**how: Any) -> Iterator[Sleepers]:
    """Yield a StatefulSet whose pod is ready."""
    with connected() as user:
        found = Sleepers(kube.CoreV1Api(user), **how)
        try:
            found.start()
            yield found
        finally:
            found.core.delete_namespace(found.namespace, grace_period_seconds=0)
