"""Both ZooKeepers."""

import pytest
from zookeeper import ZooKeeper
from zookeeper_worlds import RealWorld, SimulatedWorld


@pytest.fixture(scope="module")
def real_zookeeper(tmp_path_factory):
    """A running ZooKeeper for all the tests of a module."""
    server = ZooKeeper(tmp_path_factory.mktemp("real") / "zookeeper")
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.integration)])
def world(request):
    """A case must come out the same in both."""
    if request.param == "simulated":
        return SimulatedWorld()
    return RealWorld(request.getfixturevalue("real_zookeeper"))
