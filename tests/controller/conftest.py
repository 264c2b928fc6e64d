"""A real ZooKeeper, and a way to it that can be frozen."""

from itertools import count

import pytest
from freezable_way import FreezableWay
from kazoo.client import KazooClient
from processes import TIMEOUT_S
from zookeeper import Chroot, running_zookeeper

trees = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A running ZooKeeper, which takes longer to start than most tests to end."""
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper") / "server") as running:
        yield running


@pytest.fixture
def zookeeper(server):
    """What looks to the test like a ZooKeeper of its own."""
    tree = Chroot(server, f"/tree-{next(trees)}")
    tree.make()
    return tree


@pytest.fixture
def own_zookeeper(tmp_path):
    """One that is, for tests that pause it or end it."""
    with running_zookeeper(tmp_path / "zookeeper") as running:
        yield running


@pytest.fixture
def admin(zookeeper):
    """A ZooKeeper client of an administrator."""
    client = KazooClient(zookeeper.connect, timeout=20)
    client.start(TIMEOUT_S)
    yield client
    client.stop()
    client.close()


@pytest.fixture
def way(zookeeper):
    """A :class:`FreezableWay` to the ZooKeeper of this test."""
    proxy = FreezableWay(zookeeper.port, zookeeper.path)
    yield proxy
    proxy.close()
