"""The raw logs of a real cluster agree over a change of leader, in every codec; a copy that was
tampered with afterwards does not."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka_clients import create_topic, read_all
from kafka_cluster import TIMEOUT_S, Cluster, running_cluster, until

from ackproof.checkers.raw_logs.records import contents
from ackproof.checkers.raw_logs.segments import RawLog
from ackproof.checkers.replicas.divergence import Divergence
from ackproof.history.payload import Encoder, Identity

pytestmark = pytest.mark.integration

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPIC = "t"
CELL = "c"


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is copied of three brokers that run, after one of them was killed and came back."""
    copied = tmp_path_factory.mktemp("copies")
    small = {"log.segment.bytes": "20000"}
    with running_cluster(tmp_path_factory.mktemp("cluster"), overrides=small) as cluster:
        create_topic(cluster, TOPIC, config={"min.insync.replicas": "2"})
        numbers = count()
        send(cluster, numbers)
        leader = cluster.brokers[cluster.leader(TOPIC)]
        leader.kill()
        until("another one leads", lambda: cluster.leader(TOPIC) not in (-1, leader.id))
        send(cluster, numbers)
        leader.start()
        until("all are in sync", lambda: len(cluster.isr(TOPIC)) == 3)
        assert len(read_all(cluster, TOPIC)) == next(numbers)
        for broker in cluster.brokers.values():
            shutil.copytree(broker.logs / f"{TOPIC}-0", copied / str(broker.id))
    return copied


def send(cluster: Cluster, numbers: Iterator[int]) -> None:
    """A hundred records with each codec, all acknowledged."""
    encoder = Encoder(CELL, 1, 100)
    for codec in CODECS:
        settings = {"enable.idempotence": True, "compression.type": codec, "log_level": 0}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        for _ in range(100):
            producer.produce(TOPIC, encoder.encode(next(numbers)), partition=0, on_delivery=heard)
        assert producer.flush(TIMEOUT_S) == 0


def heard(error: Any, _message: Any) -> None:
    assert error is None, error


def compared(copies: Path, end: int = 1_000) -> tuple[list[dict[str, Any]], list[str]]:
    divergence = Divergence(
        cell=CELL,
        topic=TOPIC,
        partition=0,
        brokers=[1, 2, 3],
        directories=[copies / broker for broker in ("1", "2", "3")],
        end=end,
    )
    partings = [one for some in divergence.partings() for one in some]
    return divergence.rows(partings).to_pylist(), divergence.untold


def test_replicas_of_a_cluster_agree(copies: Path) -> None:
    assert compared(copies) == ([], [])
    assert len(list((copies / "1").glob("*.log"))) > 1, "more than one segment"


def test_every_record_is_read_whatever_its_codec(copies: Path) -> None:
    batches = list(RawLog(copies / "1").batches(0, 1_000))
    assert all(batch.intact for batch in batches)
    assert {batch.attributes & 7 for batch in batches} == {0, 1, 2, 3, 4}
    assert len({batch.leader_epoch for batch in batches}) > 1
    found = {offset: one.identity for batch in batches for offset, one in contents(batch).items()}
    assert found == {offset: Identity(CELL, 1, offset) for offset in range(1_000)}


def test_a_copy_that_was_tampered_with_is_found_out(copies: Path, tmp_path: Path) -> None:
    tampered = tmp_path / "copies"
    shutil.copytree(copies, tampered)
    last = max((tampered / "3").glob("*.log"))
    content = bytearray(last.read_bytes())
    content[-1] ^= 1
    last.write_bytes(content)
    ((row,), untold) = compared(tampered)
    batch = list(RawLog(tampered / "3").batches(0, 1_000))[-1]
    assert not batch.intact
    assert row["offset"] == row["sequence"] == batch.base_offset
    assert f"broker-1 and broker-3 at offsets {batch.base_offset} to 999" in row["detail"]
    assert "broker-3 a batch that its CRC does not fit" in row["detail"]
    assert untold == []


def test_a_copy_without_its_last_batch_lacks_it(copies: Path, tmp_path: Path) -> None:
    tampered = tmp_path / "copies"
    shutil.copytree(copies, tampered)
    last = max((tampered / "2").glob("*.log"))
    batch = list(RawLog(tampered / "2").batches(0, 1_000))[-1]
    last.write_bytes(last.read_bytes()[: -len(batch.data)])
    ((row,), untold) = compared(tampered)
    assert row["detail"].startswith(f"lacks: broker-2 has no offsets {batch.base_offset} to 999")
    assert untold == []
    assert compared(tampered, end=batch.base_offset) == ([], [])
