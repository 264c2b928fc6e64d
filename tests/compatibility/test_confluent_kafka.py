"""confluent-kafka's administrator; its producers, consumers and groups are in integration/."""

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import NewPartitions, NewTopic, OffsetSpec

from tests.support.clients.admin import TOPIC, configs, delete_topic, set_configs
from tests.support.clients.confluent import create_topic, produce
from tests.support.clients.consumer_groups import Member, members
from tests.support.clusters.bundled import TIMEOUT_S, Cluster, until

pytestmark = pytest.mark.integration

VALUES = [b"%d" % number for number in range(100)]


def test_administers_topics(cluster: Cluster, topic: str) -> None:
    admin = cluster.admin()
    shape = NewTopic(topic, 2, 3, config={"segment.bytes": "12345"})
    admin.create_topics([shape], operation_timeout=30)[topic].result(TIMEOUT_S)
    growth = admin.create_partitions([NewPartitions(topic, 3)], operation_timeout=30)
    growth[topic].result(TIMEOUT_S)
    until("all have heard of it", lambda: len(cluster.topic(topic).partitions) == 3)
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(TIMEOUT_S)
    assert len(described.partitions) == 3
    assert configs(cluster, TOPIC, topic)["segment.bytes"][0] == "12345"
    assert set_configs(cluster, TOPIC, topic, {"segment.bytes": None}) is None
    assert configs(cluster, TOPIC, topic)["segment.bytes"][0] != "12345"
    assert delete_topic(cluster, topic) is None
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_sees_the_cluster(cluster: Cluster) -> None:
    admin = cluster.admin()
    described = admin.describe_cluster().result(TIMEOUT_S)
    assert {node.id for node in described.nodes} == set(cluster.brokers)
    assert described.controller.id in cluster.brokers
    assert described.cluster_id == admin.list_topics(timeout=TIMEOUT_S).cluster_id


def test_asks_for_offsets_and_deletes_records(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic)
    produce(cluster, topic, VALUES)
    admin, tp = cluster.admin(), TopicPartition(topic, 0)

    def offset(specification: OffsetSpec) -> int:
        return admin.list_offsets({tp: specification})[tp].result(TIMEOUT_S).offset

    cut = admin.delete_records([TopicPartition(topic, 0, 40)])
    assert [future.result(TIMEOUT_S).low_watermark for future in cut.values()] == [40]
    assert (offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())) == (40, 100)
    assert 40 <= offset(OffsetSpec.max_timestamp()) < 100


def test_administers_groups(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic)
    produce(cluster, topic, VALUES)
    group, admin = f"{topic}-group", cluster.admin()
    with members(Member(cluster, group, topic)) as (member,):

        def all_read() -> bool:
            member.poll()
            return member.values == VALUES

        until("all is read", all_read)
        member.consumer.commit(asynchronous=False)
        described = admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        assert [len(m.assignment.topic_partitions) for m in described.members] == [1]
    back = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 30)])
    admin.alter_consumer_group_offsets([back])[group].result(TIMEOUT_S)
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    assert [tp.offset for tp in asked[group].result(TIMEOUT_S).topic_partitions] == [30]

    def groups() -> set[str]:
        return {g.group_id for g in admin.list_consumer_groups().result(TIMEOUT_S).valid}

    assert group in groups()
    admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)
    assert group not in groups()


def test_a_transaction_gets_no_coordinator(cluster: Cluster, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "log_level": 0}
    )
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(5)
    assert caught.value.args[0].retriable()
