"""Three broker processes and a real ZooKeeper, for unmodified clients: they see no
difference between the two ways in which the brokers are coordinated."""

import re

import pytest

from tests.support.clients.consumer_groups import OVERRIDES
from tests.support.clusters.bundled import running_cluster


# The same code answers clients in both. tests/integration/test_leader_coordination.py has clients
# on a cluster without a controller in make test.
@pytest.fixture(
    scope="module", params=["controller", pytest.param("leader", marks=pytest.mark.long)]
)
def coordination(request):
    return request.param


@pytest.fixture(scope="module")
def cluster(coordination, tmp_path_factory):
    """For tests that leave the cluster as they found it, apart from topics and groups."""
    overrides = {**OVERRIDES, "ackproof.coordination": coordination}
    with running_cluster(tmp_path_factory.mktemp("cluster"), overrides=overrides) as cluster:
        yield cluster


@pytest.fixture
def topic(request):
    """A name that no other test has."""
    return re.sub(r"[^a-z0-9.-]+", "-", request.node.name.removeprefix("test_")).strip("-")
