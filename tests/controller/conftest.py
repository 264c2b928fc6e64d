"""A real ZooKeeper, and a way to it that can be frozen."""

import pytest
from freezable_way import FreezableWay
from kazoo.client import KazooClient
from processes import TIMEOUT_S
from zookeeper import Tree, running_zookeeper


@pytest.fixture
def zookeeper():
    """A running ZooKeeper, with nothing in it yet."""
    tree = Tree()
    tree.start()
    return tree


@pytest.fixture
def own_zookeeper(tmp_path):
    """One that nobody else uses, for tests that pause it or end it."""
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
