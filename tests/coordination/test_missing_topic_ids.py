"""Topics without an id: older than topic ids, or left by tools that do not know ids.

Suppose one replica's log has an id and its leader's has none. The replica asks by an id that the
leader does not know, and is rejected for ever. Therefore no broker is informed of a topic without
an id.
"""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ackproof.broker.controller.cluster import ReplicaAssignment, TopicAssignment
from ackproof.broker.server.coordination.nodes import decode_topic_id
from ackproof.broker.server.coordination.zk_nodes import Writer
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerZk
from ackproof.broker.types import BrokerId, TopicPartition
from simulation.zookeeper.client import ZkShell
from tests.support.fakes.swapped_functions import Mutation, Swap
from tests.support.worlds.simulated_cluster import CLIENT, PAUSE_S, Cluster

pytestmark = pytest.mark.simulation

ALL = (1, 2, 3)
TOPIC = "/brokers/topics/t"
LED = {"ackproof.coordination": "leader"}
ONE, TWO, THREE = ([b"%d" % number] for number in (1, 2, 3))


async def _as_they_are(_self: Any, _tenure: Any, topics: Any, _known: Any) -> Any:
    """Return the topics unchanged, like a controller without topic ids."""
    return dict(topics)


WITHOUT_IDS = Mutation(Swap(ControllerZk, "identified", _as_they_are))
LED_WITHOUT_IDS = Mutation(Swap(Writer, "_new_id", lambda _self: b""))


@contextmanager
def running(**properties: str) -> Iterator[Cluster]:
    cluster = Cluster(properties={"min.insync.replicas": "3", **properties})
    cluster.start()
    nodes = cluster.nodes.values()
    try:
        cluster.until(lambda: all(node.app and node.app.replicas for node in nodes))
        yield cluster
    finally:
        cluster.close()
    assert not cluster.loop.unhandled_errors
    assert not any(node.exits for node in nodes)


def shell(cluster: Cluster) -> ZkShell:
    return ZkShell(cluster.zookeeper, CLIENT, cluster.loop)


def without_id(*partitions: tuple[int, ...]) -> bytes:
    """Return the znode as ``kafka-topics --zookeeper`` without topic ids writes it."""
    assigned = (ReplicaAssignment(replicas=tuple(map(BrokerId, ids))) for ids in partitions)
    topic = TopicAssignment(topic_id=None, partitions=dict(enumerate(assigned)))
    return znodes.encode_topic(topic)


def stored(cluster: Cluster) -> bytes:
    data, _ = cluster.zookeeper.leader.tree.peek(TOPIC)
    return data or b""


def controllers_id(cluster: Cluster) -> uuid.UUID | None:
    return znodes.decode_topic("t", stored(cluster)).topic_id


def led_id(cluster: Cluster) -> uuid.UUID | None:
    return decode_topic_id(TOPIC, stored(cluster))


def ids_of_logs(cluster: Cluster, number: int = 0) -> set[uuid.UUID | None]:
    """Return the topic ids in the logs of the replicas. None stands for a log without an id, or a
    missing replica."""
    found = set()
    for node in cluster.nodes.values():
        assert node.app is not None
        replicas = node.app.replicas
        hosted = replicas.hosted(TopicPartition("t", number)) if replicas is not None else None
        named = hosted.id if isinstance(hosted, Partition) else None
        found.add(None if named is None else uuid.UUID(bytes=named.topic))
    return found


async def depose(cluster: Cluster) -> None:
    await shell(cluster).delete("/controller")
    while cluster.zookeeper.leader.tree.peek("/controller")[0] is None:
        await asyncio.sleep(PAUSE_S)


def test_topic_written_without_an_id_gets_one_before_it_is_hosted() -> None:
    with running() as cluster:
        cluster.run(shell(cluster).create(TOPIC, without_id(ALL)))
        cluster.run(cluster.client.produce("t", ONE))
        given = controllers_id(cluster)
        assert given is not None
        assert ids_of_logs(cluster) == {given}


def test_next_controller_assigns_missing_topic_ids() -> None:
    with running() as cluster:
        with WITHOUT_IDS.active():
            cluster.run(shell(cluster).create(TOPIC, without_id(ALL)))
            cluster.run(cluster.client.produce("t", ONE))
            assert ids_of_logs(cluster) == {None}
        cluster.run(depose(cluster))
        cluster.run(cluster.client.produce("t", TWO))
        cluster.until(lambda: ids_of_logs(cluster) == {controllers_id(cluster)} != {None})
        cluster.run(cluster.client.produce("t", THREE))
        assert cluster.run(cluster.client.consume("t")) == [*ONE, *TWO, *THREE]


def test_topic_that_loses_its_id_gets_the_same_id() -> None:
    """Test an old tool that adds a partition, and writes the node without the id (KAFKA-14190)."""
    with running() as cluster:
        cluster.run(cluster.client.create("t"))
        given = controllers_id(cluster)
        replicas = znodes.decode_topic("t", stored(cluster)).partitions[0].replicas
        cluster.run(shell(cluster).set(TOPIC, without_id(replicas, ALL)))
        cluster.run(cluster.client.produce("t", ONE, partition=1))
        assert controllers_id(cluster) == given
        assert ids_of_logs(cluster) == ids_of_logs(cluster, 1) == {given}
        cluster.run(depose(cluster))
        cluster.run(cluster.client.produce("t", TWO))
        assert controllers_id(cluster) == given


def test_topic_without_a_controller_is_created_with_an_id() -> None:
    with running(**LED) as cluster:
        cluster.run(cluster.client.create("t"))
        given = led_id(cluster)
        assert given is not None
        cluster.run(cluster.client.produce("t", ONE))
        assert ids_of_logs(cluster) == {given}


def test_starting_broker_without_a_controller_assigns_missing_ids() -> None:
    with running(**LED) as cluster:
        with LED_WITHOUT_IDS.active():
            cluster.run(cluster.client.create("t"))
            cluster.run(cluster.client.produce("t", ONE))
        assert stored(cluster) == b""
        assert ids_of_logs(cluster) == {None}
        for node in cluster.nodes.values():
            node.kill()
        cluster.start()
        cluster.run(cluster.client.produce("t", TWO))
        cluster.until(lambda: ids_of_logs(cluster) == {led_id(cluster)} != {None})
        assert cluster.run(cluster.client.consume("t")) == [*ONE, *TWO]
