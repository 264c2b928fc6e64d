"""The znodes of KRaft's controllers in a real ZooKeeper, and their removal on the way back."""

import json
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from ackproof.infra.systems.kafka.migration import MigrationZnodes
from ackproof.infra.systems.view import ViewReader
from tests.support.clusters.zookeeper import Tree
from tests.support.processes.process import TIMEOUT_S

pytestmark = pytest.mark.integration


@pytest.fixture
def client() -> Iterator[KazooClient]:
    """A client of a tree with a partition whose state KRaft wrote in epoch 7, and what the
    controllers of Apache Kafka 3.9 write."""
    tree = Tree()
    tree.start()
    client = KazooClient(tree.connect, timeout=20)
    client.start(TIMEOUT_S)
    state = {"controller_epoch": 7, "leader": 1, "version": 1, "leader_epoch": 4, "isr": [1, 2]}
    for path, content in {
        "/brokers/ids/1": {},
        "/brokers/topics/orders": {"partitions": {"0": [1, 2]}, "version": 3},
        "/brokers/topics/orders/partitions/0/state": state,
        "/controller_epoch": 3,
        "/controller": {"version": 2, "brokerid": 101, "kraftControllerEpoch": 6},
        "/migration": {"version": 0, "kraft_metadata_offset": 12},
    }.items():
        client.create(path, json.dumps(content).encode(), makepath=True)
    yield client
    client.stop()
    client.close()


def znodes(client: KazooClient) -> MigrationZnodes:
    return MigrationZnodes(lambda: client, lambda: ViewReader(client, TIMEOUT_S).read())


@pytest.mark.parametrize(("raises", "epoch"), [(True, b"7"), (False, b"3")])
def test_traces_of_removed_controllers_are_cleared(
    client: KazooClient, raises: bool, epoch: bytes
) -> None:
    found = znodes(client).traces()
    assert (found.controller, found.epoch, found.newest_epoch) == (101, 3, 7)
    assert found.migration is not None
    for _ in range(2):
        znodes(client).clear(raises_epoch=raises)
        assert not client.exists("/controller")
        assert not client.exists("/migration")
        assert client.get("/controller_epoch")[0] == epoch


def test_broker_that_is_controller_stays_controller(client: KazooClient) -> None:
    there = {"version": 2, "brokerid": 2, "kraftControllerEpoch": -1}
    client.set("/controller", json.dumps(there).encode())
    client.set("/controller_epoch", b"8")
    znodes(client).clear(raises_epoch=True)
    found = znodes(client).traces()
    assert (found.controller, found.migration) == (2, None)
    assert (found.epoch, found.newest_epoch) == (8, 7)
