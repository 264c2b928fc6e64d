"""Errors from brokers to consumers, on librdkafka's own mock cluster: errors at will, without CPU
load."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from ackproof.history.payload import Encoder
from ackproof.history.reader import read
from ackproof.infra.machine.waiting import wait_until
from tests.support.fakes.mock_cluster import MockCluster
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

FETCH, OFFSET_COMMIT = 1, 8
"""API keys."""
TOPIC = "t"
COUNT = 50


def send(cluster: MockCluster, first: int) -> None:
    """So many records more, from that sequence number on."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    encoder = Encoder("c", 0, 60)
    for sequence in range(first, first + COUNT):
        producer.produce(TOPIC, encoder.encode(sequence), partition=0)
    assert producer.flush(PATIENCE_S) == 0


@pytest.fixture
def consumer(mock_cluster: MockCluster, client) -> Callable:
    """Starts a consumer of a topic that has records, and waits until it was shown them."""

    def start(module: str, **further: object):
        mock_cluster.create(TOPIC, 1)
        send(mock_cluster, 0)
        specification = {
            "client": "one",
            "topic": TOPIC,
            "partitions": 1,
            "bootstrap_servers": mock_cluster.bootstrap_servers,
            **further,
        }
        process = client(module, specification)
        is_shown(process, COUNT)
        return process

    return start


def is_shown(process, count: int) -> None:
    def holds() -> bool:
        assert process.process.poll() is None, process.log()
        return process.figures()["shown"] >= count

    wait_until(holds, PATIENCE_S, f"{count} records, {process.figures()}")


def sequences(directory: Path) -> list[int]:
    return read(directory, "polls", ["sequence"])["sequence"].to_pylist()


def test_a_tail_reader_goes_on_where_its_place_is_refused(consumer, mock_cluster) -> None:
    reader = consumer("ackproof.workloads.consuming.tail_reader")
    mock_cluster.fail(FETCH, KafkaError.OFFSET_OUT_OF_RANGE, 1)
    send(mock_cluster, COUNT)
    is_shown(reader, 2 * COUNT)
    assert reader.terminate() == 0, reader.log()
    assert sequences(reader.history) == list(range(2 * COUNT))
    rows = read(reader.history, "assignments", ["event", "group", "partition"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("assigned", None, 0),
        ("out-of-range", None, 0),
    ]


def test_a_commit_that_was_refused_is_unknown_and_asked_for_again(consumer, mock_cluster) -> None:
    member = consumer(
        "ackproof.workloads.consuming.group_member", group="g", delivery="at-most-once"
    )
    mock_cluster.fail(OFFSET_COMMIT, KafkaError.INVALID_COMMIT_OFFSET_SIZE, 1)
    send(mock_cluster, COUNT)
    is_shown(member, 2 * COUNT)
    assert member.terminate() == 0, member.log()
    rows = read(member.history, "commits").to_pylist()
    assert rows[0]["type"] == "fetched"
    assert rows[0]["offset"] == -1
    refused = [row for row in rows if row["type"] == "info"]
    assert {row["error"] for row in refused} == {"INVALID_COMMIT_OFFSET_SIZE"}
    told = [row for row in rows if row["type"] == "looked"]
    assert {row["offset"] for row in told} <= {-1, COUNT, 2 * COUNT}
    assert told
    last = [row for row in rows if row["type"] != "looked"][-1]
    assert (last["type"], last["offset"]) == ("ok", 2 * COUNT)
    assert sequences(member.history) == list(range(2 * COUNT))
