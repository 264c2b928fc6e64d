"""Clients whose library forgets all brokers when one of them tells of none: they start over.

librdkafka's own cluster, behind a way that has it tell of none now and then. Whether a client
forgets for good is a race, the sooner lost the more brokers there are; it is run until it is.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from ackproof.history.payload import Encoder
from ackproof.history.reader import read
from ackproof.history.sessions import LIBRARY, NO_BROKERS, session_number
from ackproof.infra.machine.waiting import wait_until
from ackproof.workloads.known_brokers import LOOKS, KnownBrokers
from tests.support.fakes.brokerless_proxy import BlinkingWay
from tests.support.fakes.mock_cluster import MockCluster
from tests.support.processes.deadlines import PATIENCE_S

TOPIC = "t"
COUNT = 50
OFTEN = {"topic.metadata.refresh.interval.ms": 300}
QUICKLY = {**OFTEN, "session.timeout.ms": 6_000, "socket.timeout.ms": 1_000}


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with closing(MockCluster(brokers=5)) as cluster:
        cluster.create(TOPIC, 1)
        yield cluster


@pytest.fixture
def way(cluster: MockCluster) -> Iterator[BlinkingWay]:
    with closing(BlinkingWay(cluster.bootstrap_servers)) as way:
        yield way


def wait_for(process, condition: Callable[[], bool]) -> None:
    def holds() -> bool:
        assert process.process.poll() is None, process.log()
        return condition()

    wait_until(holds, PATIENCE_S, f"{process.figures()}, {process.log()[-2000:]}")


def forgets(process, way: BlinkingWay) -> None:
    """Has it forget all brokers, and waits until it has started over."""
    way.blinks = True
    wait_for(process, lambda: process.figures()["sessions_ended"] > 0)
    way.blinks = False


def why(process) -> str:
    return json.loads(process.progress.read_text())["fatal"]


def test_client_with_brokers_still_has_them() -> None:
    brokers = KnownBrokers()
    told: list[str] = []
    client = Producer(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "log_level": 0,
            "statistics.interval.ms": 1,
            "stats_cb": told.append,
        }
    )

    def has_brokers() -> bool:
        """Not with its first statistics, which may come before it has added any."""
        client.poll(0.01)
        return bool(told) and bool(json.loads(told[-1])["brokers"])

    wait_until(has_brokers, PATIENCE_S, "statistics that name brokers")
    brokers.on_statistics('{"brokers":{}}')
    for _ in range(LOOKS):
        brokers.on_statistics(told[-1])
    assert not brokers.none_left
    for _ in range(LOOKS):
        assert not brokers.none_left
        brokers.on_statistics('{"brokers":{"GroupCoordinator":{"source":"logical"}}}')
    assert brokers.none_left


@pytest.mark.integration
@pytest.mark.parametrize("idempotent", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_producer_goes_on_in_another_session(way: BlinkingWay, client, idempotent: bool) -> None:
    producer = client(
        "ackproof.workloads.producing.producer",
        {
            "cell": "one",
            "topic": TOPIC,
            "partitions": 1,
            "acks": "all",
            "producer": 0,
            "rate": 100,
            "record_bytes": 100,
            "bootstrap_servers": way.bootstrap_servers,
            "producer_config": {**OFTEN, "enable.idempotence": idempotent},
        },
    )
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    forgets(producer, way)
    assert why(producer) == NO_BROKERS
    acked = producer.figures()["acked"]
    wait_for(producer, lambda: producer.figures()["acked"] > acked + COUNT)
    assert producer.terminate() == 0, producer.log()
    rows = read(producer.history, "sends").to_pylist()
    numbers = {row["producer"] for row in rows}
    assert {0, session_number(0, 1)} <= numbers
    known = {row["sequence"]: row["type"] for row in rows if row["type"] != "invoke"}
    assert known.keys() == {row["sequence"] for row in rows}
    assert set(known.values()) == {"ok", "info"}


@pytest.mark.integration
@pytest.mark.long  # a race that is lost seldom: a minute
@pytest.mark.parametrize("delivery", ["at-most-once", "at-least-once"])
def test_member_restarts_after_its_brokers_are_forgotten(
    cluster, way: BlinkingWay, client, delivery: str
) -> None:
    send(cluster, 0)
    member = client(
        "ackproof.workloads.consuming.group_member",
        {
            "client": "one",
            "topic": TOPIC,
            "partitions": 1,
            "bootstrap_servers": way.bootstrap_servers,
            "group": "g",
            "delivery": delivery,
            "consumer_config": QUICKLY,
        },
    )
    wait_for(member, lambda: member.figures()["shown"] >= COUNT)
    forgets(member, way)
    assert why(member) in LIBRARY
    send(cluster, COUNT)
    last = 2 * COUNT - 1
    wait_for(member, lambda: last in shown(member.history))
    assert member.terminate() == 0, member.log()
    assert set(shown(member.history)) == set(range(2 * COUNT))
    events = [row["event"] for row in read(member.history, "assignments").to_pylist()]
    assert events.count("assigned") >= 2
    assert events.index("lost") < len(events) - 1
    rows = read(member.history, "commits").to_pylist()
    asked = {row["commit"] for row in rows if row["type"] == "invoke"}
    assert asked == {row["commit"] for row in rows if row["type"] in ("ok", "info")}


def send(cluster: MockCluster, first: int) -> None:
    """So many records more, from that sequence number on."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    encoder = Encoder("c", 0, 60)
    for sequence in range(first, first + COUNT):
        producer.produce(TOPIC, encoder.encode(sequence), partition=0)
    assert producer.flush(PATIENCE_S) == 0


def shown(directory: Path) -> list[int]:
    return read(directory, "polls", ["sequence"])["sequence"].to_pylist()
