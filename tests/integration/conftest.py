"""Three broker processes, a real ZooKeeper, unmodified clients."""

from collections.abc import Iterator

import pytest

from tests.support.clusters.bundled import PATIENT, Cluster, running_cluster


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory):
    """For tests that leave the cluster as they found it."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), overrides=PATIENT) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def breakable_cluster(tmp_path_factory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("breakable")) as cluster:
        yield cluster


@pytest.fixture
def cluster(breakable_cluster: Cluster) -> Iterator[Cluster]:
    """For tests that break it: the next one finds every broker running again."""
    yield breakable_cluster
    for broker in breakable_cluster.brokers.values():
        broker.resume()
        if not broker.running:
            broker.start()
    breakable_cluster.wait_until_complete()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has."""
    return request.node.name.removeprefix("test_")
