"""Groups and topics that a run left on an external cluster, and clusters without a coordinator."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPod, BrokerPods
from ackproof.infra.systems.external.description import BrokerControl, DescribedCluster
from ackproof.infra.systems.external.journal import FILE, Journal
from ackproof.infra.systems.external.restoration import undo
from tests.support.fakes.mock_cluster import MockCluster
from tests.support.fakes.silent_kubernetes import silent_kubeconfig

FIND_COORDINATOR = 10
GROUP = "ackproof-readers"


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    """A cluster whose brokers know no coordinator."""
    cluster = MockCluster()
    cluster.fail(FIND_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, 10_000)
    yield cluster
    cluster.close()


def journal_of(directory: Path, bootstrap_servers: str) -> Journal:
    directory.mkdir(parents=True)
    described = DescribedCluster(bootstrap_servers=bootstrap_servers, brokers=(1,))
    journal = Journal.begin(directory / FILE, described)
    journal.group(GROUP)
    return journal


def test_group_without_a_coordinator_stays_in_the_journal(
    tmp_path: Path, cluster: MockCluster
) -> None:
    """Just after a restart the coordinator is not available, and the group still exists."""
    cluster.create("__consumer_offsets", 1)
    journal = journal_of(tmp_path / "run", cluster.bootstrap_servers)
    with pytest.raises(InfraError, match=GROUP):
        undo(journal, print, within_s=1)
    assert journal.left().groups == [GROUP]


def test_node_of_a_silent_cluster_stays_in_the_journal(tmp_path: Path) -> None:
    """A node that was uncordoned does not."""
    pods = BrokerPods(namespace="n", selector="a=b", kubeconfig=silent_kubeconfig(tmp_path))
    control = BrokerControl(pod=BrokerPod(pods=pods, broker=1))
    described = DescribedCluster(bootstrap_servers="none:1", brokers=(1,), handles={1: control})
    journal = Journal.begin(tmp_path / FILE, described)
    for node in ("node-1", "node-2"):
        journal.cordoned(node, "run")
    journal.uncordoned("node-1")
    with pytest.raises(InfraError, match=r"node node-2 is still cordoned: .* does not answer"):
        undo(journal, print, within_s=1)
    assert journal.left().cordoned == {"node-2": "run"}
    assert journal.left().anything


def test_cluster_without_an_offsets_topic_has_no_groups(
    tmp_path: Path, cluster: MockCluster
) -> None:
    journal = journal_of(tmp_path / "run", cluster.bootstrap_servers)
    undo(journal, print, within_s=1)
    assert journal.left().groups == []
