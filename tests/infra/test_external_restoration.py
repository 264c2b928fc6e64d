"""Groups and topics that a run left on an external cluster, and clusters without a coordinator."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from ackproof.infra.api.interface import InfraError
from ackproof.infra.systems.external.description import DescribedCluster
from ackproof.infra.systems.external.journal import FILE, Journal
from ackproof.infra.systems.external.restoration import undo
from tests.support.fakes.mock_cluster import MockCluster

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


def test_cluster_without_an_offsets_topic_has_no_groups(
    tmp_path: Path, cluster: MockCluster
) -> None:
    journal = journal_of(tmp_path / "run", cluster.bootstrap_servers)
    undo(journal, print, within_s=1)
    assert journal.left().groups == []
