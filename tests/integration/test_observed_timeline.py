"""Of a real cluster in which a leader was killed, ZooKeeper, brokers and acks tell one story; what
is made up is found out."""

import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_clients import create_topic
from kafka_cluster import TIMEOUT_S, Cluster, running_cluster, until
from made_histories import Made, Send, entry, send
from made_timelines import PARTITION, Told

from ackproof.checkers.raw_logs.records import contents
from ackproof.checkers.raw_logs.segments import RawLog
from ackproof.checkers.timeline.words import words_of
from ackproof.history.payload import Encoder
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.systems.observer import ClusterObserver

pytestmark = pytest.mark.integration

TOPIC, _ = PARTITION
PORTION = 50
"""Records that are sent, and all acked, before anything else happens."""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Before, after and once more after its leader was killed and came back."""
    directory = tmp_path_factory.mktemp("cluster")
    seen: list[ClusterChange] = []
    with (
        running_cluster(directory) as cluster,
        ClusterObserver(cluster.zookeeper_connect, seen.append),
    ):
        create_topic(cluster, TOPIC, config={"min.insync.replicas": "2"})
        numbers = count()
        sends = sent(cluster, numbers)
        leader = cluster.brokers[cluster.leader(TOPIC)]
        leader.kill()
        until("another one leads", lambda: cluster.leader(TOPIC) not in (-1, leader.id))
        sends += sent(cluster, numbers)
        leader.start()
        until("all are in sync", lambda: len(cluster.isr(TOPIC)) == 3)
        sends += sent(cluster, numbers)
        until("it was seen, too", lambda: len(last_of(seen).isr or ()) == 3)
        until("who leads has said so", lambda: spoken(directory) == last_of(seen).leader_epoch)
        log = [
            entry(offset, one.identity.producer, one.identity.sequence, batch.leader_epoch)
            for batch in RawLog(leader.logs / f"{TOPIC}-0").batches(0, len(sends))
            for offset, one in contents(batch).items()
            if one.identity is not None
        ]
    return Told(
        made=Made(sends=sends, log=log, end=len(log)),
        rows=[asdict(change) | {"time": change.time_ns} for change in seen],
        words=words_of(directory)[PARTITION],
    )


def sent(cluster: Cluster, numbers: Iterator[int]) -> list[Send]:
    """What a client records of a portion."""
    encoder, events = Encoder("c", 1, 100), []

    def heard(error: Any, message: Any, number: int) -> None:
        assert error is None, error
        events.append(send("ok", 1, number, time.time_ns(), message.offset()))

    settings = {"enable.idempotence": True, "log_level": 0}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for _ in range(PORTION):
        number = next(numbers)
        events.append(send("invoke", 1, number, time.time_ns()))
        producer.produce(
            TOPIC,
            encoder.encode(number),
            partition=0,
            on_delivery=lambda error, message, number=number: heard(error, message, number),
        )
    assert producer.flush(TIMEOUT_S) == 0
    return events


def last_of(seen: list[ClusterChange]) -> ClusterChange:
    return [c for c in list(seen) if c.kind is ChangeKind.PARTITION and c.topic == TOPIC][-1]


def spoken(directory: Path) -> int:
    """The highest epoch of which somebody has said that it leads in it."""
    words = words_of(directory).get(PARTITION, ())
    return max((word.leader_epoch for word in words if word.leads), default=-1)


def test_nothing_is_found_where_all_is_well(told: Told) -> None:
    assert told.all() == []
    assert len(told.made.log) == 3 * PORTION


def test_every_witness_was_heard(told: Told) -> None:
    timeline = told.timeline
    assert (timeline.watched, timeline.versioned, timeline.spoken) == (True, True, True)
    assert len(timeline.epochs) > 1
    assert -1 not in timeline.log_ends, "each epoch's leader said where its log ended"
    assert set(timeline.log_ends) <= {0, PORTION, 2 * PORTION}
    assert PORTION in timeline.log_ends


def test_a_second_leader_is_found_out(told: Told) -> None:
    leads = next(word for word in told.words if word.leads)
    other = leads.broker % 3 + 1
    made_up = replace(leads, broker=other, leader=other)
    ((row),) = told.but(words=[*told.words, made_up]).all()
    assert row["anomaly"] == "two-leaders"
    assert f"broker-{other} (by its own word)" in row["detail"]


def test_a_leader_that_began_too_low_is_found_out(told: Told) -> None:
    """The portion before the kill was acked more than a second before anybody else was elected."""
    words = [
        replace(word, log_end=PORTION - 1) if word.log_end == PORTION else word
        for word in told.words
    ]
    rows = told.but(words=words).all()
    assert {row["anomaly"] for row in rows} == {"watermark-regressed"}
    assert [row["offset"] for row in rows] == [PORTION - 1]
