"""Evidence of a leader change on a real cluster: raw logs agree in each codec, and ZooKeeper,
brokers and acknowledgements are consistent. Tampered copies and invented states are detected."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ackproof.checkers.checks.replicas import Divergence
from ackproof.checkers.context.broker_logs import roles_of
from ackproof.checkers.index.raw_logs import RawLog, contents
from ackproof.history.payload import Encoder, Identity
from ackproof.infra.api.metadata import ChangeKind, ClusterChange
from ackproof.infra.systems.observer import ClusterObserver
from tests.support.builders.histories import Made, Send, entry, send
from tests.support.builders.timelines import PARTITION, Told
from tests.support.clients.confluent import create_topic, read_all
from tests.support.clusters.bundled import TIMEOUT_S, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

TOPIC, _ = PARTITION
CELL = "c"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PORTION = 50 * len(CODECS)
"""Records that are sent, and all acked, before anything else happens."""
END = 3 * PORTION


@dataclass(frozen=True)
class Recorded:
    """The evidence of three brokers. ``copies``: of each broker's log, taken while it runs."""

    copies: Path
    told: Told


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Before, after and once more after the leader was killed and came back."""
    directory, copies = tmp_path_factory.mktemp("cluster"), tmp_path_factory.mktemp("copies")
    seen: list[ClusterChange] = []
    with (
        running_cluster(directory, overrides={"log.segment.bytes": "20000"}) as cluster,
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
        assert len(read_all(cluster, TOPIC)) == next(numbers) == END
        for broker in cluster.brokers.values():
            shutil.copytree(broker.logs / f"{TOPIC}-0", copies / str(broker.id))
    log = [
        entry(offset, one.identity.producer, one.identity.sequence, batch.leader_epoch)
        for batch in RawLog(copies / str(leader.id)).batches(0, END)
        for offset, one in contents(batch).items()
        if one.identity is not None
    ]
    told = Told(
        made=Made(sends=sends, log=log, end=len(log)),
        rows=[asdict(change) | {"time": change.time_ns} for change in seen],
        words=roles_of(directory)[PARTITION],
    )
    return Recorded(copies, told)


@pytest.fixture
def copies(recorded: Recorded) -> Path:
    return recorded.copies


@pytest.fixture
def told(recorded: Recorded) -> Told:
    return recorded.told


def sent(cluster: Cluster, numbers: Iterator[int]) -> list[Send]:
    """Return the send events of a portion of records, divided among the codecs."""
    encoder, events = Encoder(CELL, 1, 100), []

    def heard(error: Any, message: Any, number: int) -> None:
        assert error is None, error
        events.append(send("ok", 1, number, time.time_ns(), message.offset()))

    for codec in CODECS:
        settings = {"enable.idempotence": True, "compression.type": codec, "log_level": 0}
        producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        for _ in range(PORTION // len(CODECS)):
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
    """The highest epoch in which a broker has claimed to lead."""
    words = roles_of(directory).get(PARTITION, ())
    return max((word.leader_epoch for word in words if word.leads), default=-1)


# --- raw logs ---------------------------------------------------------------------------------


def compared(copies: Path, end: int = END) -> tuple[list[dict[str, Any]], list[str]]:
    divergence = Divergence(
        cell=CELL,
        topic=TOPIC,
        partition=0,
        brokers=[1, 2, 3],
        directories=[copies / broker for broker in ("1", "2", "3")],
        end=end,
    )
    divergent_ranges = [one for some in divergence.divergent_ranges() for one in some]
    return divergence.rows(divergent_ranges).to_pylist(), divergence.not_compared


def test_replicas_of_a_cluster_agree(copies: Path) -> None:
    assert compared(copies) == ([], [])
    assert len(list((copies / "1").glob("*.log"))) > 1, "more than one segment"


def test_every_record_is_read_whatever_its_codec(copies: Path) -> None:
    batches = list(RawLog(copies / "1").batches(0, END))
    assert all(batch.intact for batch in batches)
    assert {batch.attributes & 7 for batch in batches} == {0, 1, 2, 3, 4}
    assert len({batch.leader_epoch for batch in batches}) > 1
    found = {offset: one.identity for batch in batches for offset, one in contents(batch).items()}
    assert found == {offset: Identity(CELL, 1, offset) for offset in range(END)}


def test_a_copy_that_was_tampered_with_is_found_out(copies: Path, tmp_path: Path) -> None:
    tampered = tmp_path / "copies"
    shutil.copytree(copies, tampered)
    last = max((tampered / "3").glob("*.log"))
    content = bytearray(last.read_bytes())
    content[-1] ^= 1
    last.write_bytes(content)
    ((row,), untold) = compared(tampered)
    batch = list(RawLog(tampered / "3").batches(0, END))[-1]
    assert not batch.intact
    assert row["offset"] == row["sequence"] == batch.base_offset
    assert f"broker-1 and broker-3 at offsets {batch.base_offset} to {END - 1}" in row["detail"]
    assert "broker-3 a batch whose CRC does not match" in row["detail"]
    assert untold == []


def test_a_copy_without_its_last_batch_lacks_it(copies: Path, tmp_path: Path) -> None:
    tampered = tmp_path / "copies"
    shutil.copytree(copies, tampered)
    last = max((tampered / "2").glob("*.log"))
    batch = list(RawLog(tampered / "2").batches(0, END))[-1]
    last.write_bytes(last.read_bytes()[: -len(batch.data)])
    ((row,), untold) = compared(tampered)
    assert row["detail"].startswith(
        f"lacks: broker-2 has no offsets {batch.base_offset} to {END - 1}"
    )
    assert untold == []
    assert compared(tampered, end=batch.base_offset) == ([], [])


# --- ZooKeeper, brokers and acks -----------------------------------------------------------------


def test_nothing_is_found_where_all_is_well(told: Told) -> None:
    assert told.all() == []
    assert len(told.made.log) == END


def test_every_witness_was_heard(told: Told) -> None:
    timeline = told.timeline
    assert (timeline.watched, timeline.versioned, timeline.in_broker_logs) == (True, True, True)
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
    assert f"broker-{other} (according to its own log)" in row["detail"]


def test_a_leader_that_began_too_low_is_found_out(told: Told) -> None:
    """The portion before the kill was acked more than a second before anybody else was elected."""
    words = [
        replace(word, log_end=PORTION - 1) if word.log_end == PORTION else word
        for word in told.words
    ]
    rows = told.but(words=words).all()
    assert {row["anomaly"] for row in rows} == {"watermark-regressed"}
    assert [row["offset"] for row in rows] == [PORTION - 1]
