"""NetworkPolicies that cut brokers off from each other: what they allow, without a cluster."""

from pathlib import Path

import pytest
from kubernetes import client as kube

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod, BrokerPods
from ackproof.infra.backends.kubernetes.network_policies import NamedPod, apart, named, without_port
from ackproof.infra.systems.external.description import BrokerControl, DescribedCluster
from ackproof.infra.systems.external.journal import FILE, Journal
from ackproof.infra.systems.external.restoration import undo
from tests.support.fakes.silent_kubernetes import silent_kubeconfig

OF_SET = "statefulset.kubernetes.io/pod-name"
OF_STRIMZI = "strimzi.io/pod-name"
FIRST = NamedPod("kafka-0", OF_SET, ("10.0.0.1",))
SECOND = NamedPod("kafka-1", OF_SET, ("10.0.0.2", "fd00::2"))
THIRD = NamedPod("pool-2", OF_STRIMZI, ("10.0.0.3",))


def test_policy_allows_everything_but_the_peers_by_address_and_by_label() -> None:
    policy = apart("run", "kafka", FIRST, [SECOND, THIRD])
    assert policy["metadata"] == {"name": "ackproof-kafka-0", "labels": {"ackproof/run": "run"}}
    spec = policy["spec"]
    assert spec["podSelector"] == {"matchLabels": {OF_SET: "kafka-0"}}
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    allowed = [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.2/32", "10.0.0.3/32"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fd00::2/128"]}},
        {
            "namespaceSelector": {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "NotIn",
                        "values": ["kafka"],
                    }
                ]
            }
        },
        {
            "podSelector": {
                "matchExpressions": [
                    {"key": OF_SET, "operator": "NotIn", "values": ["kafka-1"]},
                    {"key": OF_STRIMZI, "operator": "NotIn", "values": ["pool-2"]},
                ]
            }
        },
    ]
    assert (spec["ingress"], spec["egress"]) == ([{"from": allowed}], [{"to": allowed}])


def test_policy_of_a_trial_forbids_one_port_alone() -> None:
    spec = without_port(FIRST, 5000)["spec"]
    assert spec["policyTypes"] == ["Egress"]
    (rule,) = spec["egress"]
    assert "to" not in rule, "wherever it is"
    tcp = [(one["port"], one["endPort"]) for one in rule["ports"] if one["protocol"] == "TCP"]
    assert tcp == [(1, 4999), (5001, 65535)]


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        ({"app": "kafka", OF_SET: "kafka-0"}, OF_SET),
        ({OF_STRIMZI: "kafka-0"}, OF_STRIMZI),
        ({"app": "kafka"}, None),
        (None, None),
    ],
)
def test_pod_is_selected_by_the_label_that_has_its_name(labels, label: str | None) -> None:
    pod = kube.V1Pod(
        metadata=kube.V1ObjectMeta(name="kafka-0", labels=labels),
        status=kube.V1PodStatus(pod_ip="10.0.0.1"),
    )
    assert named(pod) == (label and NamedPod("kafka-0", label, ("10.0.0.1",)))


def test_policies_of_a_silent_cluster_stay_in_the_journal(tmp_path: Path) -> None:
    pods = BrokerPods(namespace="n", selector="a=b", kubeconfig=silent_kubeconfig(tmp_path))
    control = BrokerControl(pod=BrokerPod(pods=pods, broker=1))
    described = DescribedCluster(bootstrap_servers="none:1", brokers=(1,), handles={1: control})
    journal = Journal.begin(tmp_path / FILE, described)
    journal.policies("run")
    with pytest.raises(InfraError, match=r"may still be in force: .* does not answer"):
        undo(journal, print, within_s=1)
    assert journal.left().policies == "run"
    assert journal.left().anything
    journal.policies(None)
    assert not journal.left().anything
