"""The real and the simulated ZooKeeper."""

import pytest

from tests.support.clusters.zookeeper import running_zookeeper
from tests.support.worlds.zookeeper_worlds import RealWorld, SimulatedWorld


@pytest.fixture(scope="module")
def real_zookeeper(tmp_path_factory):
    """Start a ZooKeeper for all tests of a module."""
    with running_zookeeper(tmp_path_factory.mktemp("real") / "zookeeper") as server:
        yield server


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.integration)])
def world(request):
    """Return a world with one of the two. Each case must have the same result in both."""
    if request.param == "simulated":
        return SimulatedWorld()
    return RealWorld(request.getfixturevalue("real_zookeeper"))
