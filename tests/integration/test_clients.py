"""Unmodified clients on a healthy cluster."""

import socket
import struct

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.support.clients.confluent import create_topic, produce, read_all, watermarks
from tests.support.clusters.bundled import TIMEOUT_S, Cluster, until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_produced_records_are_consumed(shared_cluster: Cluster, acks: str) -> None:
    topic = f"produced-{acks}"
    create_topic(shared_cluster, topic, partitions=3)
    sent = {p: [f"{p}-{n}".encode() for n in range(500)] for p in range(3)}
    for partition, values in sent.items():
        outcomes = produce(shared_cluster, topic, values, partition, acks=acks)
        assert set(outcomes.values()) == {None}
    for partition, values in sent.items():
        until(
            f"partition {partition} is committed",
            lambda p=partition: watermarks(shared_cluster, topic, p) == (0, 500),
        )
        assert read_all(shared_cluster, topic, partition) == values


def test_leaders_are_spread_over_the_brokers(shared_cluster: Cluster) -> None:
    create_topic(shared_cluster, "spread", partitions=3)
    assert {shared_cluster.leader("spread", p) for p in range(3)} == {1, 2, 3}


def test_compressed_batches_pass_through(shared_cluster: Cluster) -> None:
    create_topic(shared_cluster, "compressed")
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        produce(shared_cluster, "compressed", [codec.encode() * 100] * 10, compression_type=codec)
    assert len(read_all(shared_cluster, "compressed")) == 40


def test_offsets_are_found_by_timestamp(shared_cluster: Cluster) -> None:
    create_topic(shared_cluster, "timed")
    produce(shared_cluster, "timed", [b"early"])
    produce(shared_cluster, "timed", [b"late"])
    consumer = Consumer({"bootstrap.servers": shared_cluster.bootstrap, "group.id": "unused"})
    try:
        (first,) = consumer.offsets_for_times([TopicPartition("timed", 0, 1)], timeout=TIMEOUT_S)
        (after,) = consumer.offsets_for_times(
            [TopicPartition("timed", 0, 2**50)], timeout=TIMEOUT_S
        )
    finally:
        consumer.close()
    assert first.offset == 0
    assert after.offset == -1


def test_a_record_that_is_too_large_is_refused(shared_cluster: Cluster) -> None:
    create_topic(shared_cluster, "small", config={"max.message.bytes": "1000"})
    outcomes = produce(shared_cluster, "small", [b"x" * 2000])
    assert [error.code() for error in outcomes.values()] == [KafkaError.MSG_SIZE_TOO_LARGE]


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("a/b", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("many", 1, 4), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("none", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("odd", 1, 1, config={"min.insync.replicas": "no"}), KafkaError.INVALID_CONFIG),
        (NewTopic("odd", 1, 1, config={"no.such.thing": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("odd", 1, replica_assignment=[[1, 9]]), KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_impossible_topics_are_refused(shared_cluster: Cluster, topic: NewTopic, code: int) -> None:
    admin = shared_cluster.admin()
    created = admin.create_topics([topic])[topic.topic]
    with pytest.raises(KafkaException) as caught:
        created.result(TIMEOUT_S)
    assert caught.value.args[0].code() == code


def test_a_topic_exists_once(shared_cluster: Cluster) -> None:
    create_topic(shared_cluster, "once")
    admin = shared_cluster.admin()
    again = admin.create_topics([NewTopic("once", 1, 1)])["once"]
    with pytest.raises(KafkaException) as caught:
        again.result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


UNSUPPORTED_VERSION = 35
API_VERSIONS_0 = struct.pack(">ihhih", 10, 18, 0, 7, -1)
"""A whole ApiVersions request, version 0, correlation id 7, no client id."""


@pytest.mark.parametrize(
    "nonsense",
    [
        pytest.param(struct.pack(">i", 2**31 - 1), id="oversized"),
        pytest.param(struct.pack(">i", -5), id="negative size"),
        pytest.param(struct.pack(">ihh", 4, 0, 9), id="no header"),
        pytest.param(struct.pack(">ihhih", 10, 999, 0, 1, -1), id="unknown API"),
        pytest.param(struct.pack(">ihhih", 10, 0, 99, 1, -1), id="unknown version"),
        pytest.param(struct.pack(">ihhihq", 18, 0, 3, 1, -1, -1), id="no produce request"),
    ],
)
def test_nonsense_closes_its_connection_only(shared_cluster: Cluster, nonsense: bytes) -> None:
    address = ("127.0.0.1", shared_cluster.brokers[1].port)
    with (
        socket.create_connection(address, timeout=TIMEOUT_S) as good,
        socket.create_connection(address, timeout=TIMEOUT_S) as bad,
    ):
        bad.sendall(nonsense)
        assert bad.recv(1) == b""
        good.sendall(API_VERSIONS_0)
        assert good.recv(8, socket.MSG_WAITALL)[4:] == struct.pack(">i", 7)


def test_an_api_versions_request_from_the_future_is_answered(shared_cluster: Cluster) -> None:
    address = ("127.0.0.1", shared_cluster.brokers[1].port)
    with socket.create_connection(address, timeout=TIMEOUT_S) as client:
        client.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
        _, correlation_id, error = struct.unpack(">iih", client.recv(10, socket.MSG_WAITALL))
    assert (correlation_id, error) == (7, UNSUPPORTED_VERSION)
