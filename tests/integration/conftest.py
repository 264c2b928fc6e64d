"""Three broker processes, a real ZooKeeper, unmodified clients."""

import pytest
from kafka_cluster import PATIENT, running_cluster


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory):
    """For tests that leave the cluster as they found it."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), overrides=PATIENT) as cluster:
        yield cluster


@pytest.fixture
def cluster(tmp_path):
    """For tests that break it."""
    with running_cluster(tmp_path) as cluster:
        yield cluster
