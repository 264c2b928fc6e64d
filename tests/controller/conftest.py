"""A real ZooKeeper, and a way to it that can be frozen."""

import pytest
from kazoo.client import KazooClient

from tests.support.clusters.zookeeper import Tree, running_zookeeper
from tests.support.fakes.freezing_proxy import FreezableWay
from tests.support.processes.process import TIMEOUT_S


@pytest.fixture
def zookeeper():
    """A running ZooKeeper, with nothing in it yet."""
    tree = Tree()
    tree.start()
    return tree


@pytest.fixture
def own_zookeeper(tmp_path):
    """A server of their own, for tests that pause it or end it."""
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
    proxy = FreezableWay(zookeeper.port, zookeeper.chroot)
    yield proxy
    proxy.close()
