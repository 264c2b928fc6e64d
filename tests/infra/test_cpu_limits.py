"""CPU limits of brokers in pods, without a cluster: what a resize would ask for, and refusals."""

import json
from pathlib import Path

import pytest
from kubernetes import client as kube

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes import cpu_limits
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod, BrokerPods
from ackproof.infra.systems.external.description import BrokerControl, DescribedCluster
from ackproof.infra.systems.external.journal import FILE, Journal
from ackproof.infra.systems.external.restoration import undo
from tests.support.fakes.silent_kubernetes import silent_kubeconfig

PODS = BrokerPods(namespace="n", selector="app=kafka", container="kafka")


def pod(
    limit: str | None = "2",
    request: str | None = "500m",
    *,
    qos: str = "Burstable",
    policy: str = "NotRequired",
    before: str | None = None,
) -> "kube.V1Pod":
    """A pod whose container ``kafka`` has that CPU."""
    limits = {} if limit is None else {"cpu": limit}
    requests = {} if request is None else {"cpu": request}
    policies = [kube.V1ContainerResizePolicy(resource_name="cpu", restart_policy=policy)]
    container = kube.V1Container(
        name="kafka",
        resize_policy=policies,
        resources=kube.V1ResourceRequirements(limits=limits, requests=requests),
    )
    annotations = {} if before is None else {cpu_limits.BEFORE: before}
    return kube.V1Pod(
        metadata=kube.V1ObjectMeta(name="kafka-0", annotations=annotations),
        spec=kube.V1PodSpec(containers=[kube.V1Container(name="other"), container]),
        status=kube.V1PodStatus(qos_class=qos),
    )


@pytest.mark.parametrize(
    ("found", "requested"),
    [
        (pod("2", "500m"), "49m"),
        (pod("2", "50m"), "49m"),
        (pod("2", "0.01"), "0.01"),
        (pod("1", None), "49m"),
        (pod("1", "1", qos="Guaranteed"), "50m"),
    ],
)
def test_request_goes_down_so_that_the_qos_class_stays(found, requested: str) -> None:
    lowered = cpu_limits.lowered(PODS, found, 50)
    assert lowered.resources == {"limits": {"cpu": "50m"}, "requests": {"cpu": requested}}


LIMITED = json.dumps({"by": "run", "limit": "40m", "request": "10m"})


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (pod(), None),
        (pod("0.051"), None),
        (pod(None, "1"), "kafka of kafka-0 has no CPU limit, and one that is set cannot be"),
        (pod(policy="RestartContainer"), "is restarted by each change of its CPU (resizePolicy)"),
        (pod("50m"), "has a CPU limit of 50m, which is not more than 50m: choose a smaller"),
        (pod("2", before=LIMITED), "has a CPU limit of 40m"),
    ],
)
def test_container_that_cannot_be_limited_for_a_while_is_refused(found, reason) -> None:
    told = cpu_limits.unlimitable(PODS, found, 50)
    assert told is None if reason is None else reason in str(told)


def test_container_that_is_not_there_is_refused() -> None:
    pods = PODS.model_copy(update={"container": "broker"})
    assert cpu_limits.unlimitable(pods, pod(), 50) == "kafka-0 has no container broker"


def test_limit_of_a_pod_of_a_silent_cluster_stays_in_the_journal(tmp_path: Path) -> None:
    """A limit that was lifted does not."""
    pods = BrokerPods(namespace="n", selector="a=b", kubeconfig=silent_kubeconfig(tmp_path))
    controls = {n: BrokerControl(pod=BrokerPod(pods=pods, broker=n)) for n in (1, 2)}
    described = DescribedCluster(bootstrap_servers="none:1", brokers=(1, 2), handles=controls)
    journal = Journal.begin(tmp_path / FILE, described)
    for broker in (1, 2):
        journal.limited(broker, "run")
    journal.lifted(1)
    with pytest.raises(InfraError, match=r"broker-2: its pod still has less CPU: .* not answer"):
        undo(journal, print, within_s=1)
    assert journal.left().limited == {2: "run"}
    assert journal.left().anything
