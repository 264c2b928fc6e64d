"""Consumer groups of unmodified clients on three brokers."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AIOTopicPartition
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.support.clients.confluent import create_topic, produce
from tests.support.clients.consumer_groups import (
    OFFSETS_TOPIC,
    OVERRIDES,
    TIMEOUT_S,
    Member,
    committed,
    coordinator,
    describe,
    members,
    poll_until,
    process_member,
    shared,
)
from tests.support.clusters.bundled import Cluster, running_cluster, until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with running_cluster(tmp_path_factory.mktemp("groups"), overrides=OVERRIDES) as cluster:
        yield cluster


def filled(cluster: Cluster, topic: str, partitions: int = 4, count: int = 25) -> set[bytes]:
    """A topic with that many records in each partition; what they are."""
    create_topic(cluster, topic, partitions)
    sent = set()
    for partition in range(partitions):
        values = [f"{topic}-{partition}-{n}".encode() for n in range(count)]
        assert not any(produce(cluster, topic, values, partition).values())
        sent.update(values)
    return sent


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_shares_and_takes_over(cluster: Cluster, assignor: str) -> None:
    topic = f"shared-{assignor}"
    sent = filled(cluster, topic)
    settings = {"partition_assignment_strategy": assignor}
    first = Member(cluster, topic, topic, **settings)
    second = Member(cluster, topic, topic, **settings)
    with members(first, second):
        poll_until("two share", shared(4, first, second), first, second)
        poll_until("all is read", lambda: {*first.values, *second.values} == sent, first, second)
        first.close()
        poll_until("the other has all", shared(4, second), second)


# tests/workloads/test_consumers.py kills a member, and looks at what the others are given.
@pytest.mark.long
def test_a_killed_member_is_replaced(cluster: Cluster) -> None:
    sent = filled(cluster, "killed")
    with process_member(cluster, "killed", "killed") as other:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "4"
        member = Member(cluster, "killed", "killed")
        with members(member):
            poll_until("they share", lambda: len(member.partitions) == 2, member)
            other.kill()
            poll_until("it has all", shared(4, member), member)
            poll_until("all is read", lambda: set(member.values) == sent, member)


def test_reading_goes_on_where_it_was_committed(cluster: Cluster) -> None:
    filled(cluster, "resumed", 1, 10)
    with members(Member(cluster, "resumed", "resumed")) as (member,):
        poll_until("all is read", lambda: len(member.values) == 10, member)
        stored = member.consumer.commit(
            offsets=[TopicPartition("resumed", 0, 7, "why", 0)], asynchronous=False
        )
        assert stored[0].error is None
    assert committed(cluster, "resumed", "resumed") == 7
    with members(Member(cluster, "resumed", "resumed")) as (member,):
        poll_until("the rest is read", lambda: len(member.values) == 3, member)
        assert member.values == [b"resumed-0-7", b"resumed-0-8", b"resumed-0-9"]
        (found,) = member.consumer.committed([TopicPartition("resumed", 0)], TIMEOUT_S)
        assert (found.offset, found.metadata) == (7, "why")


def test_auto_commit_commits_the_read_records(cluster: Cluster) -> None:
    filled(cluster, "auto", 1, 10)
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 200}
    with members(Member(cluster, "auto", "auto", **settings)) as (member,):
        poll_until("it is committed", lambda: committed(cluster, "auto", "auto") == 10, member)


def test_a_static_member_restarts_without_a_rebalance(cluster: Cluster) -> None:
    filled(cluster, "static")
    first = Member(cluster, "static", "static", group_instance_id="one")
    second = Member(cluster, "static", "static", group_instance_id="two")
    with members(first, second):
        poll_until("two share", shared(4, first, second), first, second)
        before, had = first.rebalances, second.partitions
        second.close()  # librdkafka's static members do not leave (KIP-345)
        again = Member(cluster, "static", "static", group_instance_id="two")
        with members(again):
            poll_until("it is back", lambda: again.partitions == had, first, again)
            assert first.rebalances == before
            ids = {m.group_instance_id for m in describe(cluster, "static").members}
            assert ids == {"one", "two"}


def test_an_administrator_sees_and_deletes_groups(cluster: Cluster) -> None:
    filled(cluster, "seen", 2, 5)
    admin = cluster.admin()
    with members(Member(cluster, "seen", "seen", client_id="me")) as (member,):
        poll_until("all is read", lambda: len(member.values) == 10, member)
        member.consumer.commit(asynchronous=False)
        listed = admin.list_consumer_groups().result(TIMEOUT_S)
        assert not listed.errors
        states = {group.group_id: group.state for group in listed.valid}
        assert states["seen"] is ConsumerGroupState.STABLE
        described = describe(cluster, "seen")
        assert described.partition_assignor == "range"
        (one,) = described.members
        assert (one.client_id, one.host) == ("me", "/127.0.0.1")
        assert {tp.partition for tp in one.assignment.topic_partitions} == {0, 1}
        with pytest.raises(KafkaException) as caught:
            admin.delete_consumer_groups(["seen"])["seen"].result(TIMEOUT_S)
        assert caught.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    all_topics = [ConsumerGroupTopicPartitions("seen")]
    offsets = admin.list_consumer_group_offsets(all_topics)["seen"].result(TIMEOUT_S)
    assert [(tp.partition, tp.offset) for tp in offsets.topic_partitions] == [(0, 5), (1, 5)]
    moved = [ConsumerGroupTopicPartitions("seen", [TopicPartition("seen", 0, 2)])]
    admin.alter_consumer_group_offsets(moved)["seen"].result(TIMEOUT_S)
    assert committed(cluster, "seen", "seen") == 2
    admin.delete_consumer_groups(["seen"])["seen"].result(TIMEOUT_S)
    assert describe(cluster, "seen").state is ConsumerGroupState.DEAD


def test_an_offset_of_an_unknown_topic_is_not_committed(cluster: Cluster) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "lost"})
    try:
        with pytest.raises(KafkaException) as caught:
            consumer.commit(offsets=[TopicPartition("nowhere", 0, 1)], asynchronous=False)
        assert caught.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    finally:
        consumer.close()


def test_offsets_and_membership_survive_the_coordinator(cluster: Cluster) -> None:
    filled(cluster, "survivor", 2, 10)
    with members(Member(cluster, "survivor", "survivor")) as (member,):
        poll_until("all is read", lambda: len(member.values) == 20, member)
        member.consumer.commit(asynchronous=False)
        (before,) = describe(cluster, "survivor").members
        killed = coordinator(cluster, "survivor")
        cluster.brokers[killed].kill()
        try:
            poll_until(
                "another broker coordinates",
                lambda: coordinator(cluster, "survivor") != killed,
                member,
            )
            until("offsets are there", lambda: committed(cluster, "survivor", "survivor") == 10)
            described = describe(cluster, "survivor")
            assert described.state is ConsumerGroupState.STABLE
            assert [m.member_id for m in described.members] == [before.member_id]
            assert member.rebalances == 1
            produce(cluster, "survivor", [b"after"])
            poll_until("it reads on", lambda: b"after" in member.values, member)
            member.consumer.commit(asynchronous=False)
            assert committed(cluster, "survivor", "survivor") == 11
        finally:
            cluster.brokers[killed].start()
            cluster.wait_until_complete()
            for topic in ("survivor", OFFSETS_TOPIC):
                until("it is back", lambda topic=topic: cluster.isr(topic) == {1, 2, 3})


def test_too_few_brokers_have_no_coordinator(tmp_path) -> None:
    with running_cluster(tmp_path, brokers=1) as alone:
        create_topic(alone, "t", replication_factor=1)
        admin = alone.admin()  # must outlive its futures
        with pytest.raises(KafkaException) as caught:
            admin.describe_consumer_groups(["g"], request_timeout=3)["g"].result(TIMEOUT_S)
        assert caught.value.args[0].code() in {
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError._TIMED_OUT,
        }


def test_another_client_library_is_a_member_like_any_other(cluster: Cluster) -> None:
    sent = filled(cluster, "aio")

    async def consume() -> set[bytes]:
        consumer = AIOKafkaConsumer(
            "aio",
            bootstrap_servers=cluster.bootstrap,
            group_id="aio",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                values = {(await consumer.getone()).value for _ in sent}
            await consumer.commit()
            found = await consumer.committed(AIOTopicPartition("aio", 0))
            assert found == 25
            return values
        finally:
            await consumer.stop()

    assert asyncio.run(consume()) == sent
    assert committed(cluster, "aio", "aio") == 25


def test_asking_for_the_offsets_topic_makes_it_as_it_must_be(tmp_path) -> None:
    overrides = OVERRIDES | {"auto.create.topics.enable": "true"}
    with running_cluster(tmp_path, overrides=overrides) as cluster:
        admin = cluster.admin()

        def replicas() -> list[int]:
            topic = admin.list_topics(OFFSETS_TOPIC, timeout=TIMEOUT_S).topics[OFFSETS_TOPIC]
            return [len(partition.replicas) for partition in topic.partitions.values()]

        until("it is there", lambda: replicas() == [3] * 4)
