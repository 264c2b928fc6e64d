"""Reading from followers (KIP-392) by an unmodified client: ``client.rack``, by the metrics."""

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from ackproof.broker.replication.leader import RACK_AWARE
from tests.support.clients.confluent import create_topic, produce
from tests.support.clients.metrics_page import scrape
from tests.support.clusters.bundled import Broker, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

OVERRIDES = {
    "metrics.listener": "http://127.0.0.1:0",
    "min.insync.replicas": "2",
    "replica.selector.class": RACK_AWARE,
}
RACKS = {number: {"broker.rack": f"rack-{number}"} for number in (1, 2, 3)}
BYTES_OUT = "kafka_server_brokertopicmetrics_bytesout_total"
REQUESTS = "kafka_network_requestmetrics_requests_total"


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, overrides=OVERRIDES, own=RACKS) as cluster:
        yield cluster


class Reader:
    """Reads partition 0 of a topic from its beginning. Where there is nothing at its offset, it
    says so and does not start over."""

    def __init__(self, cluster: Cluster, topic: str, rack: str) -> None:
        self.values: list[bytes] = []
        self.errors: list[KafkaError] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": "unused",
                "client.rack": rack,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def until_read(self, count: int) -> None:
        def read() -> bool:
            for message in self._consumer.consume(500, timeout=0.2):
                if (error := message.error()) is not None:
                    self.errors.append(error)
                else:
                    self.values.append(message.value())
            return len(self.values) >= count

        until(f"{count} records are read", read)

    def close(self) -> None:
        self._consumer.close()


def filled(cluster: Cluster, topic: str) -> list[bytes]:
    create_topic(cluster, topic)
    return more(cluster, topic, 0)


def more(cluster: Cluster, topic: str, number: int) -> list[bytes]:
    values = [f"{topic}-{number}-{n}".encode() for n in range(100)]
    assert set(produce(cluster, topic, values).values()) == {None}
    return values


def bytes_out(cluster: Cluster, topic: str) -> dict[int, float]:
    """Return the bytes of the topic sent to consumers, by each broker that is not paused."""
    return {broker.id: scrape(broker)(BYTES_OUT, topic=topic) for broker in cluster.awake}


def validations(broker: Broker) -> float:
    """Requests OffsetForLeaderEpoch in the version of librdkafka; followers' is another."""
    return scrape(broker)(REQUESTS, request="OffsetForLeaderEpoch", version="2")


def test_each_replica_serves_the_consumers_of_its_rack_and_no_others(cluster: Cluster) -> None:
    for broker in cluster.brokers:
        topic = f"near-{broker}"
        sent = filled(cluster, topic)
        with contextlib.closing(Reader(cluster, topic, f"rack-{broker}")) as reader:
            reader.until_read(len(sent))
        assert (reader.values, reader.errors) == (sent, [])
        served = bytes_out(cluster, topic)
        assert {one for one, size in served.items() if size} == {broker}


def test_reader_of_a_follower_that_dies_continues_elsewhere(cluster: Cluster) -> None:
    sent = filled(cluster, "dies")
    leader = cluster.leader("dies")
    near = next(number for number in cluster.brokers if number != leader)
    with contextlib.closing(Reader(cluster, "dies", f"rack-{near}")) as reader:
        reader.until_read(len(sent))
        assert bytes_out(cluster, "dies")[leader] == 0
        cluster.brokers[near].kill()
        sent += more(cluster, "dies", 1)
        reader.until_read(len(sent))
    assert reader.values == sent
    assert bytes_out(cluster, "dies")[leader] > 0


# The other two tests read from a follower, and from another broker when it is gone.
@pytest.mark.long
def test_reader_of_a_follower_that_is_elected_continues_there(cluster: Cluster) -> None:
    sent = filled(cluster, "elected")
    leader = cluster.leader("elected")
    near = next(number for number in cluster.brokers if number != leader)
    with contextlib.closing(Reader(cluster, "elected", f"rack-{near}")) as reader:
        reader.until_read(len(sent))
        cluster.brokers[leader].kill()
        until("another leads", lambda: cluster.leader("elected") not in (leader, -1))
        elected = cluster.brokers[cluster.leader("elected")]
        sent += more(cluster, "elected", 1)
        reader.until_read(len(sent))
        # One that reads from a follower hears of its election by the leader epoch alone. Did it
        # believe in none, it would read on, and turn to the former leader when that one dies.
        until("it asks who leads now how far they share a log", lambda: validations(elected))
    assert reader.values == sent
    assert bytes_out(cluster, "elected")[near] > 0
