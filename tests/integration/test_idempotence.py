"""Idempotent producers: each record once and in order, whatever happens to its leader."""

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.produce.v9.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.static.primitive import i32Timedelta

from ackproof.broker.server.network.broker_connection import BrokerConnection
from ackproof.broker.server.zk.znodes import PRODUCER_IDS
from tests.support.builders.batches import encoded
from tests.support.clients.admin import zookeeper
from tests.support.clients.confluent import create_topic, read_all, wait_until_led
from tests.support.clients.kio_peer import ours
from tests.support.clusters.bundled import TIMEOUT_S, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

PATIENCE = i32Timedelta.parse(timedelta(seconds=TIMEOUT_S))


def call(cluster: Cluster, broker: int, *requests: Any) -> list[Any]:
    """Sends the requests, all at once, over one connection, and waits for the answers."""

    async def talk() -> list[Any]:
        connection = BrokerConnection("127.0.0.1", cluster.brokers[broker].port, "test")
        try:
            calls = [connection.call(ours(request), TIMEOUT_S) for request in requests]
            return list(await asyncio.gather(*calls))
        finally:
            await connection.close()

    return asyncio.run(talk())


def init() -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout=PATIENCE)


def produce(
    topic: str, producer: int, epoch: int, sequence: int, values: list[bytes], acks: int = -1
) -> ProduceRequest:
    records = encoded(values, producer=(producer, epoch, sequence))
    return ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout=PATIENCE,
        topic_data=(
            TopicProduceData(
                name=topic, partition_data=(PartitionProduceData(index=0, records=records),)
            ),
        ),
    )


def outcome(response: Any) -> ErrorCode | int:
    """The base offset, or the error."""
    ((partition,),) = (topic.partition_responses for topic in response.responses)
    return partition.base_offset if partition.error_code is ErrorCode.none else partition.error_code


def test_producer_ids_are_unique_in_the_cluster(shared_cluster: Cluster) -> None:
    answers = [a for broker in (1, 2, 3) for a in call(shared_cluster, broker, *[init()] * 400)]
    assert {(a.error_code, a.producer_epoch) for a in answers} == {(ErrorCode.none, 0)}
    assert len({a.producer_id for a in answers}) == 1200
    blocks = {a.producer_id // 1000 for a in answers}
    assert len(blocks) == 3, "each broker has a block of its own"


def test_malformed_id_block_yields_no_producer_id(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 1) as cluster, zookeeper(cluster) as client:
        client.set(PRODUCER_IDS, b'{"block_end": "much"}')
        answers = call(cluster, 1, init(), init())
        assert [(a.error_code, a.producer_id, a.producer_epoch) for a in answers] == [
            (ErrorCode.unknown_server_error, -1, -1)
        ] * 2
        client.set(PRODUCER_IDS, b'{"block_end": "4999"}')
        (answer,) = call(cluster, 1, init())
        assert (answer.error_code, answer.producer_id) == (ErrorCode.none, 5000)


def test_a_repetition_has_its_first_answer_from_every_leader(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, config={"min.insync.replicas": "1"})
    leader = cluster.leader(topic)
    (answer,) = call(cluster, 1, init())
    producer = answer.producer_id
    sent = [produce(topic, producer, 0, 2 * n, [b"%d" % n, b"and"]) for n in range(7)]
    assert [outcome(a) for a in call(cluster, leader, *sent)] == [2 * n for n in range(7)]

    def send_again(leader: int) -> None:
        again = [outcome(a) for a in call(cluster, leader, *sent)]
        assert again == [*[ErrorCode.out_of_order_sequence_number] * 2, 4, 6, 8, 10, 12]
        gap = call(cluster, leader, produce(topic, producer, 0, 20, [b"gap"]))
        assert outcome(*gap) is ErrorCode.out_of_order_sequence_number

    send_again(leader)
    cluster.brokers[leader].kill()
    until("another broker leads", lambda: cluster.leader(topic) not in (-1, leader))
    wait_until_led(cluster, topic)
    leader = cluster.leader(topic)
    send_again(leader)

    assert outcome(*call(cluster, leader, produce(topic, producer, 1, 0, [b"new epoch"]))) == 14
    fenced = call(cluster, leader, produce(topic, producer, 0, 14, [b"old epoch"]))
    assert outcome(*fenced) is ErrorCode.invalid_producer_epoch
    assert len(read_all(cluster, topic)) == 15


def test_producer_state_survives_kill_9(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, replication_factor=1)
    leader = cluster.leader(topic)
    (answer,) = call(cluster, leader, init())
    sent = [produce(topic, answer.producer_id, 0, n, [b"%d" % n]) for n in range(6)]
    first = [outcome(a) for a in call(cluster, leader, *sent)]
    cluster.brokers[leader].kill()
    cluster.brokers[leader].start()
    wait_until_led(cluster, topic)
    again = [outcome(a) for a in call(cluster, leader, *sent)]
    assert again == [ErrorCode.out_of_order_sequence_number, *first[1:]]
    assert read_all(cluster, topic) == [b"%d" % n for n in range(6)]


class Sender:
    """An idempotent librdkafka producer that sends numbers as long as it is asked to."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.topic = topic
        self.acked: list[bytes] = []
        self.errors: list[KafkaError] = []
        self._sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "request.timeout.ms": 500,
                "retry.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def until(self, what: str, condition: Callable[[], object]) -> None:
        """Sends on until ``condition`` is true and 100 further records were acknowledged."""
        until(what, lambda: self.send(20) and condition())
        enough = len(self.acked) + 100
        until("records are acknowledged", lambda: self.send(10) and len(self.acked) >= enough)

    def finish(self) -> int:
        assert self._producer.flush(TIMEOUT_S) == 0
        return self._sent

    def send(self, count: int) -> bool:
        for _ in range(count):
            self._producer.produce(
                self.topic, b"%d" % self._sent, partition=0, on_delivery=self._heard
            )
            self._sent += 1
            self._producer.poll(0)
        return True

    def _heard(self, error: KafkaError | None, message: Any) -> None:
        if error is None:
            self.acked.append(message.value())
        else:
            self.errors.append(error)


def check(cluster: Cluster, sender: Sender) -> None:
    """All that was sent is there, once and in order."""
    sent = sender.finish()
    stored = [int(value) for value in read_all(cluster, sender.topic)]
    assert not sender.errors
    assert len(sender.acked) == sent
    assert all(a < b for a, b in pairwise(stored)), "twice, or out of order"
    assert len(stored) == sent


def test_no_duplicates_when_acknowledgements_come_too_late(cluster: Cluster, topic: str) -> None:
    """The leader has the records and cannot say so in time: the client sends them again."""
    create_topic(cluster, topic, config={"min.insync.replicas": "2"})
    leader = cluster.leader(topic)
    followers = [broker for broker in cluster.brokers.values() if broker.id != leader]
    sender = Sender(cluster, topic)
    sender.until("sending has begun", lambda: sender.acked)
    for _ in range(2):
        for follower in followers:
            follower.pause()
        try:
            late = time.monotonic() + 1.5
            until("requests timed out", lambda: sender.send(1) and time.monotonic() > late)  # noqa: B023
        finally:
            for follower in followers:
                follower.resume()
        sender.until("all are in sync", lambda: cluster.isr(topic) == {1, 2, 3})
    check(cluster, sender)


def test_no_duplicates_and_no_reordering_through_a_leader_kill(
    cluster: Cluster, topic: str
) -> None:
    create_topic(cluster, topic, config={"min.insync.replicas": "2"})
    sender = Sender(cluster, topic)
    sender.until("sending has begun", lambda: sender.acked)
    leader = cluster.leader(topic)
    cluster.brokers[leader].kill()
    sender.until("another leads", lambda: cluster.leader(topic) not in (-1, leader))
    cluster.brokers[leader].start()
    sender.until("all are in sync", lambda: cluster.isr(topic) == {1, 2, 3})
    check(cluster, sender)
