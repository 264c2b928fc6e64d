"""Settings of topics that decide what is kept, how, and with which timestamp."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.support.clients.confluent import create_topic, produce, read_all, watermarks
from tests.support.clusters.bundled import PATIENT, TIMEOUT_S, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture(scope="module")
def tidy_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Looks at retention and flushes often."""
    overrides = PATIENT | {
        "log.retention.check.interval.ms": "300",
        "log.flush.scheduler.interval.ms": "200",
        "log.flush.interval.ms": str(2**60),
        "log.flush.offset.checkpoint.interval.ms": "200",
    }
    with running_cluster(tmp_path_factory.mktemp("tidy"), overrides=overrides) as cluster:
        yield cluster


def messages(cluster: Cluster, topic: str) -> list[Message]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    try:
        _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Message] = []

        def read() -> bool:
            found.extend(consumer.consume(100, timeout=0.5))
            return len(found) >= high

        until(f"{topic} is read", read)
        return found
    finally:
        consumer.close()


def send_one(cluster: Cluster, topic: str, timestamp: int) -> Any:
    """The error or the delivered message."""
    outcome: list[Any] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce(
        topic, b"v", timestamp=timestamp, on_delivery=lambda e, m: outcome.append(e or m)
    )
    assert producer.flush(TIMEOUT_S) == 0
    return outcome[0]


def logs_of(cluster: Cluster, topic: str) -> list[bytes]:
    """Each replica's log on disk, read again where retention took a segment meanwhile."""
    logs: list[bytes] = []

    def read() -> bool:
        directories = [broker.logs / f"{topic}-0" for broker in cluster.brokers.values()]
        with suppress(FileNotFoundError):
            logs[:] = [
                b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
                for directory in directories
            ]
            return True
        return False

    until("every segment that is listed can be read", read)
    return logs


@pytest.mark.parametrize("codec", CODECS)
def test_batches_stay_compressed_as_they_came(tidy_cluster: Cluster, codec: str) -> None:
    topic = f"codec-{codec}"
    create_topic(tidy_cluster, topic)
    values = [b"a word that comes again " * 20 + b"%d" % n for n in range(200)]
    outcomes = produce(tidy_cluster, topic, values, compression_type=codec, linger_ms=100)
    assert set(outcomes.values()) == {None}
    assert read_all(tidy_cluster, topic) == values
    until("the replicas are equal", lambda: len(set(logs_of(tidy_cluster, topic))) == 1)
    (stored, *_) = logs_of(tidy_cluster, topic)
    assert {stored[22] & 7} == {CODECS.index(codec)}
    assert (len(stored) < 30_000) == (codec != "none")


def test_log_append_time(tidy_cluster: Cluster) -> None:
    create_topic(tidy_cluster, "lat", config={"message.timestamp.type": "LogAppendTime"})
    before = time.time_ns() // 1_000_000
    delivered = send_one(tidy_cluster, "lat", timestamp=1_000_000)
    kind, moment = delivered.timestamp()
    (read,) = messages(tidy_cluster, "lat")
    assert read.timestamp() == (kind, moment)
    assert kind == 2, "TIMESTAMP_LOG_APPEND_TIME"
    assert before <= moment <= time.time_ns() // 1_000_000


def test_create_time_within_its_limits(tidy_cluster: Cluster) -> None:
    limits = {
        "message.timestamp.before.max.ms": "60000",
        "message.timestamp.after.max.ms": "60000",
    }
    create_topic(tidy_cluster, "limited", config=limits)
    now = time.time_ns() // 1_000_000
    assert send_one(tidy_cluster, "limited", now - 5_000).timestamp() == (1, now - 5_000)
    for wrong in (now - 3_600_000, now + 3_600_000):
        assert send_one(tidy_cluster, "limited", wrong).code() == KafkaError.INVALID_TIMESTAMP


def test_records_are_deleted_on_every_replica(tidy_cluster: Cluster) -> None:
    create_topic(tidy_cluster, "deleted", config={"segment.bytes": "2000"})
    values = [b"%d" % n * 50 for n in range(100)]
    produce(tidy_cluster, "deleted", values, batch_num_messages=5)
    admin = tidy_cluster.admin()
    here = TopicPartition("deleted", 0, 40)
    assert admin.delete_records([here])[here].result(TIMEOUT_S).low_watermark == 40
    assert watermarks(tidy_cluster, "deleted") == (40, 100)
    assert read_all(tidy_cluster, "deleted") == values[40:]

    for broker in tidy_cluster.brokers.values():
        directory = broker.logs / "deleted-0"
        until(
            f"broker {broker.id} gave up the segments",
            lambda d=directory: min(int(path.stem) for path in d.glob("*.log")) > 0,
        )
    far = TopicPartition("deleted", 0, 101)
    with pytest.raises(KafkaException) as caught:
        admin.delete_records([far])[far].result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE

    everything = TopicPartition("deleted", 0, -1)
    assert admin.delete_records([everything])[everything].result(TIMEOUT_S).low_watermark == 100
    assert watermarks(tidy_cluster, "deleted") == (100, 100)
    produce(tidy_cluster, "deleted", [b"after"])
    assert read_all(tidy_cluster, "deleted") == [b"after"]


@pytest.mark.parametrize(
    "limit", [{"retention.bytes": "6000"}, {"retention.ms": "1500", "segment.ms": "500"}], ids=str
)
def test_retention(tidy_cluster: Cluster, limit: dict[str, str]) -> None:
    topic = "kept-" + "-".join(key.replace(".", "-") for key in limit)
    create_topic(tidy_cluster, topic, config={"segment.bytes": "2000", **limit})
    produce(tidy_cluster, topic, [b"%d" % n * 50 for n in range(200)], batch_num_messages=5)
    until("the oldest are gone", lambda: watermarks(tidy_cluster, topic)[0] > 100)
    low, high = watermarks(tidy_cluster, topic)
    assert high == 200
    if "retention.bytes" in limit:
        assert low < 200
        assert all(len(stored) >= 6000 for stored in logs_of(tidy_cluster, topic))
    else:
        until("all are gone", lambda: watermarks(tidy_cluster, topic) == (200, 200))
        until("on all replicas", lambda: set(logs_of(tidy_cluster, topic)) == {b""})


def test_offsets_by_specification(tidy_cluster: Cluster) -> None:
    create_topic(tidy_cluster, "spec")
    now = time.time_ns() // 1_000_000
    for timestamp in (now + 1_000, now + 5_000, now + 3_000):
        send_one(tidy_cluster, "spec", timestamp)
    admin, here = tidy_cluster.admin(), TopicPartition("spec", 0)

    def listed(spec: OffsetSpec) -> tuple[int, int]:
        found = admin.list_offsets({here: spec})[here].result(TIMEOUT_S)
        return found.offset, found.timestamp

    assert listed(OffsetSpec.earliest())[0] == 0
    assert listed(OffsetSpec.latest())[0] == 3
    assert listed(OffsetSpec.max_timestamp()) == (1, now + 5_000)
    assert listed(OffsetSpec.for_timestamp(now + 2_000)) == (1, now + 5_000)
    assert listed(OffsetSpec.for_timestamp(now + 9_000))[0] == -1


def test_a_topics_flush_ms_moves_the_recovery_point(tidy_cluster: Cluster) -> None:
    create_topic(tidy_cluster, "flushed", config={"flush.ms": "300"})
    create_topic(tidy_cluster, "unflushed")
    for topic in ("flushed", "unflushed"):
        produce(tidy_cluster, topic, [b"v"] * 10)
    for broker in tidy_cluster.brokers.values():
        until("it is fsynced", lambda b=broker: recovery_point(b.logs, "flushed") == 10)
        until("the other is noted", lambda b=broker: recovery_point(b.logs, "unflushed") >= 0)
        assert recovery_point(broker.logs, "unflushed") == 0


def recovery_point(logs: Path, topic: str) -> int:
    lines = (logs / "recovery-point-offset-checkpoint").read_text().splitlines()
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), -1)
