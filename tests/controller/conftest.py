"""A real ZooKeeper, and a way to it that can be frozen."""

import pytest
from freezable_way import FreezableWay
from kazoo.client import KazooClient
from processes import TIMEOUT_S
from zookeeper import running_zookeeper


@pytest.fixture
def zookeeper(tmp_path):
    """A running ZooKeeper, killed at the test's end."""
    with running_zookeeper(tmp_path / "zookeeper") as server:
        yield server


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
    proxy = FreezableWay(zookeeper.port)
    yield proxy
    proxy.close()
