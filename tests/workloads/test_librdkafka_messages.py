"""Fields read from the library's memory equal the results of its own calls, and both ways of
releasing messages release them."""

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st

from ackproof.infra.machine.waiting import wait_until
from ackproof.workloads.librdkafka.client import BatchConsumer
from ackproof.workloads.librdkafka.library import MESSAGE, RdKafkaMessage, library
from ackproof.workloads.librdkafka.messages import (
    Pointers,
    destroy_at_once,
    destroy_one_by_one,
    epochs_of,
    gathered,
    with_epoch,
)
from tests.support.fakes.mock_cluster import MockCluster
from tests.support.processes.deadlines import PATIENCE_S

integration = pytest.mark.integration
RECORDS = 60


class Taker:
    """A consumer whose messages are taken as they are."""

    def __init__(self, cluster: MockCluster, topic: str) -> None:
        properties = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"}
        self.client = BatchConsumer(topic, properties, RECORDS)
        self.handle = self.client._client.handle

    def take(self, many: int) -> Pointers:
        pointers, found = np.empty(many, np.uintp), 0

        def holds() -> bool:
            nonlocal found
            found += library().rd_kafka_consume_batch_queue(
                self.client._queue, 20, pointers[found:].ctypes.data, many - found
            )
            return found == many

        wait_until(holds, PATIENCE_S, "messages", interval=0)
        return pointers


def send(cluster: MockCluster, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0


@pytest.fixture
def taker(mock_cluster: MockCluster, request: pytest.FixtureRequest) -> Iterator[Taker]:
    """Yield a taker of a topic with a leader change after each third of its records."""
    topic = f"raw-{request.node.name}"
    mock_cluster.create(topic, 1)
    for leader in (1, 2, 3):
        mock_cluster.lead(topic, 0, leader)
        send(mock_cluster, topic, RECORDS // 3)
    made = Taker(mock_cluster, topic)
    with closing(made.client):  # which waits for what was not let go
        made.client.assign(0, 0)
        yield made


@integration
def test_epochs_are_those_that_the_library_tells(taker: Taker) -> None:
    records = taker.take(RECORDS)
    kind = with_epoch(int(records[0]))
    assert "epoch" in kind.names, "of this version it is known where they are"
    asked = [*map(library().rd_kafka_message_leader_epoch, records.tolist())]
    assert len({*asked}) > 1
    assert gathered(records, kind)["epoch"].tolist() == asked
    for known in (kind, MESSAGE):
        assert epochs_of(gathered(records, known), records).tolist() == asked
        assert epochs_of(gathered(records, known)[:0], records[:0]).tolist() == []
    destroy_at_once(taker.handle, records)


@integration
def test_epoch_read_at_another_address_is_not_trusted(taker: Taker) -> None:
    records = taker.take(RECORDS)
    told = gathered(records, with_epoch(int(records[0])))
    told["epoch"] += 1
    asked = [*map(library().rd_kafka_message_leader_epoch, records.tolist())]
    assert epochs_of(told, records).tolist() == asked
    destroy_one_by_one(records)


@integration
@pytest.mark.parametrize("many", [1, RECORDS])
@pytest.mark.parametrize("way", ["at once", "one by one"])
def test_released_messages_are_not_awaited(taker: Taker, way: str, many: int) -> None:
    messages = taker.take(many)
    if way == "at once":
        destroy_at_once(taker.handle, messages)
    else:
        destroy_one_by_one(messages)


def test_of_a_message_without_a_topic_no_epoch_is_read() -> None:
    message = np.zeros(1, MESSAGE)
    assert with_epoch(message.ctypes.data) == MESSAGE
    assert RdKafkaMessage.from_address(message.ctypes.data).rkt is None


@given(st.lists(st.integers(0, 90), min_size=1, max_size=20), st.integers(1, 10))
def test_gathered_bytes_are_those_at_each_address(places: list[int], size: int) -> None:
    memory = np.arange(100, dtype=np.uint8)
    addresses = (memory.ctypes.data + np.array(places)).astype(np.uintp)
    found = gathered(addresses, np.dtype((np.void, size)))
    assert [one.tobytes() for one in found] == [
        memory[place : place + size].tobytes() for place in places
    ]
