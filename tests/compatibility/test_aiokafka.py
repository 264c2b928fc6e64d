"""aiokafka: the protocol in Python, from another hand than librdkafka and the Java clients."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from tests.support.clients.confluent import create_topic, read_all
from tests.support.clusters.bundled import TIMEOUT_S, Cluster, until

pytestmark = pytest.mark.integration

VALUES = [b"%d" % number for number in range(100)]


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, TIMEOUT_S))


@asynccontextmanager
async def producer(cluster: Cluster, **config: object) -> AsyncIterator[AIOKafkaProducer]:
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, **config) as client:
        yield client


@asynccontextmanager
async def admin(cluster: Cluster) -> AsyncIterator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    await client.start()
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_produces(cluster: Cluster, topic: str, acks: object) -> None:
    create_topic(cluster, topic)

    async def story() -> None:
        async with producer(cluster, acks=acks) as client:
            for value in VALUES:
                await client.send(topic, value, partition=0)
            await client.flush()

    run(story())
    until("all is readable", lambda: len(read_all(cluster, topic)) == len(VALUES))
    assert read_all(cluster, topic) == VALUES


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_produces_idempotently_and_consumes(
    cluster: Cluster, topic: str, codec: str | None
) -> None:
    create_topic(cluster, topic)
    tp = TopicPartition(topic, 0)

    async def story() -> None:
        async with producer(cluster, enable_idempotence=True, compression_type=codec) as client:
            sent = [await client.send(topic, value, partition=0) for value in VALUES]
            assert [(await record).offset for record in sent] == list(range(len(VALUES)))
        async with AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap) as client:
            client.assign([tp])
            await client.seek_to_beginning(tp)
            assert [(await client.getone()).value for _ in VALUES] == VALUES
            assert await client.end_offsets([tp]) == {tp: len(VALUES)}
            found = await client.offsets_for_times({tp: 1})
            assert found[tp].offset == 0

    run(story())


def test_consumes_in_a_group(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, partitions=2)
    group = {
        "bootstrap_servers": cluster.bootstrap,
        "group_id": f"{topic}-group",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }

    async def story() -> None:
        async with producer(cluster) as client:
            for number, value in enumerate(VALUES):
                await client.send_and_wait(topic, value, partition=number % 2)
        async with (
            AIOKafkaConsumer(topic, **group) as first,
            AIOKafkaConsumer(topic, **group) as second,
        ):
            got = await asyncio.gather(*(_read(member, 50) for member in (first, second)))
            assert sorted(got[0] + got[1]) == sorted(VALUES)
            assert len(first.assignment()) == len(second.assignment()) == 1
        async with AIOKafkaConsumer(topic, **group) as third:
            assert [await third.committed(tp) for tp in third.assignment()] == [50, 50]

    run(story())


async def _read(member: AIOKafkaConsumer, count: int) -> list[bytes]:
    values = [(await member.getone()).value for _ in range(count)]
    await member.commit()
    return values


def test_administers(cluster: Cluster, topic: str) -> None:
    tp = TopicPartition(topic, 0)

    async def story() -> None:
        async with admin(cluster) as client:
            await client.create_topics([NewTopic(topic, 2, 3)])
            await client.create_partitions({topic: NewPartitions(3)})
            until("all have heard of it", lambda: len(cluster.topic(topic).partitions) == 3)
            (described,) = await client.describe_topics([topic])
            assert [len(p["replicas"]) for p in described["partitions"]] == [3, 3, 3]
            assert len((await client.describe_cluster())["brokers"]) == 3
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"segment.bytes": "12345"})
            await client.alter_configs([resource])
            (answer,) = await client.describe_configs([resource])
            ((_, _, _, _, entries),) = answer.resources
            assert "12345" in {entry[1] for entry in entries if entry[0] == "segment.bytes"}
            await _fill(cluster, topic)
            deleted = await client.delete_records({tp: RecordsToDelete(before_offset=40)})
            assert deleted == {tp: 40}
            await client.delete_topics([topic])
            until("all have heard of it", lambda: cluster.topic(topic) is None)
            assert topic not in await client.list_topics()

    run(story())


async def _fill(cluster: Cluster, topic: str) -> None:
    async with producer(cluster, acks="all") as client:
        for value in VALUES:
            await client.send_and_wait(topic, value, partition=0)


def test_administers_groups(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic)
    group = f"{topic}-group"

    async def story() -> None:
        config = {"bootstrap_servers": cluster.bootstrap, "group_id": group}
        async with admin(cluster) as client, AIOKafkaConsumer(topic, **config) as member:
            tp = TopicPartition(topic, 0)
            await member.commit({tp: 7})
            assert (group, "consumer") in await client.list_consumer_groups()
            (described,) = await client.describe_consumer_groups([group])
            ((_, name, state, *_),) = described.groups
            assert (name, state) == (group, "Stable")
            offsets = await client.list_consumer_group_offsets(group)
            assert offsets[tp].offset == 7

    run(story())
