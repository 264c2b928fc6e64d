"""Apache Kafka reads what a whole cluster leaves on disk, kill -9 and torn tails included."""

import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.clients.confluent import create_topic, read_all
from tests.support.clusters.bundled import TIMEOUT_S, Cluster, running_cluster, until
from tests.support.clusters.kafka_dump import kafka_reads

pytestmark = pytest.mark.kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC = "t"


class Producers:
    """One idempotent producer for each codec, all writing to one partition."""

    def __init__(self, cluster: Cluster) -> None:
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
        }
        self._producers = [Producer(settings | {"compression.type": codec}) for codec in CODECS]
        self._numbers = count()
        self.acked = 0

    def send(self, each: int) -> None:
        for producer in self._producers:
            for _ in range(each):
                value = b"a word that comes again %d" % next(self._numbers)
                producer.produce(TOPIC, value, partition=0, on_delivery=self._heard)
            producer.poll(0)

    def acked_more(self, number: int) -> None:
        enough = self.acked + number

        def enough_acked() -> bool:
            self.send(20)
            return self.acked >= enough

        until(f"{number} more are acknowledged", enough_acked)

    def finish(self) -> None:
        for producer in self._producers:
            assert producer.flush(TIMEOUT_S) == 0

    def _heard(self, error: Any, _message: Any) -> None:
        assert error is None, error
        self.acked += 1


def tear(logs: Path) -> None:
    """Tear the last segment as a power failure may: with a part of a batch at its end."""
    last = max((logs / f"{TOPIC}-0").glob("*.log"))
    content = last.read_bytes()
    with last.open("ab") as file:
        file.write(content[: len(content) // 2][:100] or bytes(100))


def test_kafka_reads_every_replica(tmp_path: Path) -> None:
    small = {"log.segment.bytes": "40000", "log.index.interval.bytes": "1000"}
    with running_cluster(tmp_path, overrides=small) as cluster:
        create_topic(cluster, TOPIC, config={"min.insync.replicas": "2"})
        producers = Producers(cluster)
        producers.acked_more(2000)
        for _ in range(2):
            leader = cluster.brokers[cluster.leader(TOPIC)]
            producers.send(100)
            leader.kill()
            tear(leader.logs)
            until("another one leads", lambda old=leader.id: cluster.leader(TOPIC) not in (-1, old))
            producers.acked_more(500)
            leader.start()
            until("all are in sync", lambda: len(cluster.isr(TOPIC)) == 3)
        producers.finish()
        assert len(read_all(cluster, TOPIC)) == producers.acked
        for broker in cluster.brokers.values():
            broker.signal(signal.SIGTERM)
        for broker in cluster.brokers.values():
            assert broker.wait() == 0

        views = [kafka_reads(broker.logs / f"{TOPIC}-0") for broker in cluster.brokers.values()]
        for view in views:
            assert not view.complaints, view.complaints
            assert view.batches == views[0].batches
            assert set(view.producers) == set(views[0].producers)
            assert view.record_offsets == tuple(range(producers.acked))
            assert view.index_entries
            assert view.time_index_entries
        assert {batch.codec for batch in views[0].batches} == set(CODECS)
        assert len({producer for producer, *_ in views[0].producers}) == len(CODECS)
