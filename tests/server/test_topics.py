"""Permitted topic names."""

import asyncio
from collections import Counter

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin import Refused, Topics, TopicSpec
from ackproof.broker.server.zk.kafka_zk import KafkaZk


@pytest.fixture
def topics(config, metadata) -> Topics:
    return Topics(config, KafkaZk(config.zookeeper_connect, 1000), metadata)


def test_defaults_are_the_brokers(topics) -> None:
    (replicas,) = topics.validate(TopicSpec(name="t")).values()
    assert len(replicas) == 1


def test_replicas_are_spread(topics) -> None:
    spec = TopicSpec(name="t", partitions=3, replication_factor=2)
    assigned = topics.validate(spec)
    assert {leader for leader, _ in assigned.values()} == {1, 2, 3}
    assert {follower for _, follower in assigned.values()} == {1, 2, 3}


def test_an_assignment_is_taken_as_it_is(topics) -> None:
    assert topics.validate(TopicSpec(name="t", assignment={0: (3, 1)})) == {0: (3, 1)}


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (TopicSpec(name=""), ErrorCode.invalid_topic_exception),
        (TopicSpec(name=".."), ErrorCode.invalid_topic_exception),
        (TopicSpec(name="x" * 250), ErrorCode.invalid_topic_exception),
        (TopicSpec(name="ä"), ErrorCode.invalid_topic_exception),
        (TopicSpec(name="known"), ErrorCode.topic_already_exists),
        (TopicSpec(name="t", partitions=0), ErrorCode.invalid_partitions),
        (TopicSpec(name="t", partitions=10_001), ErrorCode.policy_violation),
        (TopicSpec(name="t", replication_factor=4), ErrorCode.invalid_replication_factor),
        (TopicSpec(name="t", replication_factor=0), ErrorCode.invalid_replication_factor),
        (TopicSpec(name="t", config={"retention.ms": "x"}), ErrorCode.invalid_config),
        (TopicSpec(name="t", assignment={1: (1,)}), ErrorCode.invalid_replica_assignment),
        (TopicSpec(name="t", assignment={0: (1, 1)}), ErrorCode.invalid_replica_assignment),
        (TopicSpec(name="t", assignment={0: (9,)}), ErrorCode.invalid_replica_assignment),
        (TopicSpec(name="t", assignment={0: ()}), ErrorCode.invalid_replica_assignment),
        (
            TopicSpec(name="t", assignment={0: (1,), 1: (1, 2)}),
            ErrorCode.invalid_replica_assignment,
        ),
        (TopicSpec(name="t", assignment={0: (1,)}, partitions=1), ErrorCode.invalid_request),
    ],
)
def test_impossible_topics_are_refused(topics, spec: TopicSpec, error: ErrorCode) -> None:
    with pytest.raises(Refused) as caught:
        topics.validate(spec)
    assert caught.value.error is error


@pytest.mark.parametrize("name", ["", "..", "known/partitions", "a\0b"])
def test_no_name_leads_elsewhere_in_zookeeper(topics, name: str) -> None:
    """There is no ZooKeeper here: what is not refused before it is asked waits for it."""
    with pytest.raises(Refused) as caught:
        asyncio.run(asyncio.wait_for(topics.delete(name), 5))
    assert caught.value.error is ErrorCode.unknown_topic_or_partition


def test_names_that_collide_in_metrics_are_refused(topics, metadata, updated) -> None:
    metadata.update(updated({"a.b": {0: 1}}))
    with pytest.raises(Refused, match="collides"):
        topics.validate(TopicSpec(name="a_b"))


def test_topics_of_one_partition_are_led_by_all_brokers_in_turn(topics) -> None:
    specs = [TopicSpec(name=f"cell-{number}", replication_factor=3) for number in range(6)]
    assigned = [topics.validate(spec)[0] for spec in specs]
    assert Counter(replicas[0] for replicas in assigned) == {1: 2, 2: 2, 3: 2}
    assert assigned == [topics.validate(spec)[0] for spec in specs], "the same in every run"
