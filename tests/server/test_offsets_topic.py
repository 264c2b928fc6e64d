"""The location of a group: independent of the metadata that a broker has received."""

import asyncio

import pytest
from kazoo.client import KazooClient

from ackproof.broker.coordination.nodes import Kind, Node
from ackproof.broker.server.admin import Topics
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.coordination.topics import LedTopics
from ackproof.broker.server.coordination.zk_nodes import Reader
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic, count_partitions
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.types import BrokerId, TopicPartition
from tests.support.clusters.zookeeper import Tree


@pytest.fixture
def zookeeper():
    tree = Tree()
    tree.start()
    return tree


def test_a_group_stays_where_it_is_while_a_new_controller_tells_of_the_topic(
    config, metadata, updated
):
    topic = OffsetsTopic(config, metadata, Topics(config, KafkaZk("x:1", 1_000), metadata), 50)
    groups = [f"group-{number}" for number in range(100)]
    before = [topic.of(group) for group in groups]
    for told in (20, 50):
        metadata.update(updated({OFFSETS_TOPIC: dict.fromkeys(range(told), 1)}))
        assert [topic.of(group) for group in groups] == before
    assert {tp.partition for tp in before} > set(range(20, 30))


@pytest.mark.integration
def test_partition_count_is_read_from_zookeeper_or_the_setting(zookeeper, config):
    async def main():
        zk = KafkaZk(zookeeper.connect, 6_000, connection_timeout_ms=20_000)
        await zk.start()
        try:
            assert await count_partitions(zk, config) == 50
            await zk.create_topic(OFFSETS_TOPIC, {number: [1] for number in range(7)}, {})
            assert await count_partitions(zk, config) == 7
        finally:
            await zk.close()

    asyncio.run(main())


@pytest.mark.integration
def test_topic_with_partial_partitions_is_counted_by_its_final_number(zookeeper, config):
    """Without a controller, as seed 001 creates topics. A broker that started just then counted one
    of three, and looked for groups where no other broker did, for as long as it ran."""

    async def main():
        zk = KafkaZk(zookeeper.connect, 6_000, connection_timeout_ms=20_000)
        await zk.start()
        unused = None
        store = LedTopics(BrokerId(1), Reader(zk.session), unused, unused, unused)
        try:
            seen = [await count_partitions(store, config)]
            for kind in (Kind.REASSIGNED, Kind.REPLICAS):
                for number in range(3):
                    node = Node(kind, TopicPartition(OFFSETS_TOPIC, number))
                    write.create(nodes.path(node), nodes.encode_ids([BrokerId(1)]), makepath=True)
                    seen.append(await count_partitions(store, config))
        finally:
            await zk.close()
        return seen

    write = KazooClient(zookeeper.connect)
    write.start(timeout=20)
    try:
        assert asyncio.run(main()) == [*[50] * 4, *[3] * 3]
    finally:
        write.stop()
        write.close()
