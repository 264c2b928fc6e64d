"""A real ZooKeeper, and a way to it that can be frozen."""

import pytest
from freezable_way import FreezableWay
from kazoo.client import KazooClient
from processes import TIMEOUT_S
from zookeeper import ZooKeeper


@pytest.fixture
def zookeeper(tmp_path):
    """A running ZooKeeper, killed at the test's end."""
    server = ZooKeeper(tmp_path / "zookeeper")
    try:
        server.start()
        yield server
    finally:
        server.kill()


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
