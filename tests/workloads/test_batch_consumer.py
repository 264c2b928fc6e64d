"""Messages that are taken many at once, beside those that confluent-kafka's consumer takes one by
one, of librdkafka's own cluster."""

import ctypes
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count
from threading import Event

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ackproof.history.payload import Encoder
from ackproof.infra.machine.waiting import wait_until
from ackproof.workloads.librdkafka import client as batch_consumer
from ackproof.workloads.librdkafka.client import BatchConsumer
from ackproof.workloads.librdkafka.library import library
from ackproof.workloads.polled import Polled, polled
from ackproof.workloads.process import ClientFailed
from ackproof.workloads.spec import SpecificationError
from tests.support.fakes.mock_cluster import MockCluster
from tests.support.processes.deadlines import PATIENCE_S

PARTITIONS = 3
MOST = 50
"""Messages at once."""
pytestmark = pytest.mark.integration

topics = (f"t{number}" for number in count())
Row = tuple[int, int, int, bytes | None]
"""Partition, offset, leader epoch and value."""


class Reader:
    """A consumer, and all that it was given."""

    def __init__(self, client: BatchConsumer) -> None:
        self.client = client
        self.polls: list[Polled] = []

    @property
    def rows(self) -> list[Row]:
        return [row for one in self.polls for row in rows_of(one)]

    @property
    def ends(self) -> dict[int, int]:
        return {f.partition: f.offset for f in self._failed(KafkaError._PARTITION_EOF)}

    def failed(self, code: int) -> list[int]:
        return [failure.partition for failure in self._failed(code)]

    def read(self, condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            self.polls.append(self.client.consume(0.02))
            return condition()

        wait_until(holds, PATIENCE_S, "what was to be read", interval=0)

    def read_rows(self, many: int) -> list[Row]:
        """Until there are so many in all, and nothing more of them."""
        self.read(lambda: len(self.rows) >= many)
        return self.rows

    def _failed(self, code: int) -> list:
        return [one for poll in self.polls for one in poll.failures if one.error.code() == code]


def rows_of(one: Polled) -> list[Row]:
    records = one.records
    values = [None if value is None else bytes(value) for value in records.values]
    columns = (records.partitions.tolist(), records.offsets.tolist(), records.epochs.tolist())
    return [*zip(*columns, values, strict=True)]


def properties(cluster: MockCluster, **further: object) -> Mapping[str, str | int | bool]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "g",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        **further,
    }


@pytest.fixture
def topic(mock_cluster: MockCluster) -> str:
    name = next(topics)
    mock_cluster.create(name, PARTITIONS)
    return name


@pytest.fixture
def reader(mock_cluster: MockCluster, topic: str) -> Iterator[Callable[..., Reader]]:
    with ExitStack() as started:

        def start(*partitions: int, most: int = MOST, **further: object) -> Reader:
            client = BatchConsumer(topic, properties(mock_cluster, **further), most)
            started.enter_context(closing(client))
            for partition in partitions or range(PARTITIONS):
                client.assign(partition, 0)
            return Reader(client)

        yield start


def send(cluster: MockCluster, topic: str, values: Sequence[bytes | None], **further: str) -> None:
    """To the partitions in turn."""
    config = {"bootstrap.servers": cluster.bootstrap_servers, **further}
    producer = Producer({name.replace("_", "."): value for name, value in config.items()})
    for number, value in enumerate(values):
        key = b"k" * number if number % 3 else None
        headers = [("h", b"x" * number)] if number % 5 == 1 else None
        producer.produce(topic, value, key, number % PARTITIONS, headers=headers)
    assert producer.flush(PATIENCE_S) == 0


def one_by_one(cluster: MockCluster, topic: str, many: int) -> list[Row]:
    """Return the rows as confluent-kafka reports them."""
    with closing(Consumer(properties(cluster))) as consumer:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        found: list[Row] = []

        def holds() -> bool:
            found.extend(rows_of(polled(consumer.consume(MOST, 0.02), time.time_ns())))
            return len(found) >= many

        wait_until(holds, PATIENCE_S, "what was to be read", interval=0)
    return found


OURS = Encoder("c", 1, 60)
VALUES: Mapping[str, Sequence[bytes | None]] = {
    "of one size": [*OURS.encode_all(range(500))],
    "of many sizes": [*Encoder("c", 1, 60, 90).encode_all(range(300))],
    "large": [*Encoder("c", 1, 5_000).encode_all(range(40))],
    "foreign": [None, b"", b"x", b"", None, *[bytes(60)] * 20, *[OURS.encode(3)] * 3],
    "nulls": [None] * 10,
    "empty": [b""] * 10,
}


@pytest.mark.parametrize("codec", ["none", "gzip", "lz4"])
@pytest.mark.parametrize("kind", VALUES)
def test_batch_reads_equal_single_reads(
    reader, mock_cluster: MockCluster, topic: str, kind: str, codec: str
) -> None:
    values = VALUES[kind]
    for first in range(0, len(values), 100):  # several batches a partition
        send(mock_cluster, topic, values[first : first + 100], compression_type=codec)
    rows = reader().read_rows(len(values))
    assert sorted(rows, key=str) == sorted(one_by_one(mock_cluster, topic, len(values)), key=str)
    for partition in range(PARTITIONS):
        assert [row[1] for row in rows if row[0] == partition] == [
            *range(len([row for row in rows if row[0] == partition]))
        ]


def test_an_end_comes_in_its_place(reader, mock_cluster: MockCluster, topic: str) -> None:
    send(mock_cluster, topic, [b"x"] * (2 * PARTITIONS))
    mine = reader()
    mine.read(lambda: mine.ends == dict.fromkeys(range(PARTITIONS), 2))
    for one in mine.polls:
        for failure in one.failures:
            before = [row for row in mine.rows if row[0] == failure.partition]
            at = one.records.last(0, failure.behind)
            assert at.get(failure.partition, 1) == 1 == len(before) - 1


def test_missing_offset_is_reported_and_another_is_read(
    reader, mock_cluster: MockCluster, topic: str
) -> None:
    send(mock_cluster, topic, [b"x"] * (3 * PARTITIONS))
    mine = reader(0)
    mine.client.assign(1, 99)
    mine.read(lambda: mine.failed(KafkaError._AUTO_OFFSET_RESET) == [1])
    assert mine.client.bounds(1, PATIENCE_S) == (0, 3)
    mine.client.unassign(1)
    mine.client.assign(1, 2)
    rows = mine.read_rows(4)
    assert sorted(row[:2] for row in rows) == [(0, 0), (0, 1), (0, 2), (1, 2)]


def test_unassigned_partition_yields_no_more_records(
    reader, mock_cluster: MockCluster, topic: str
) -> None:
    send(mock_cluster, topic, [b"x"] * (300 * PARTITIONS))
    mine = reader(0, 1, most=10)
    mine.read_rows(10)
    mine.client.unassign(0)
    before = len(mine.polls)
    mine.read(lambda: 1 in mine.ends)
    assert {row[0] for one in mine.polls[before:] for row in rows_of(one)} <= {1}
    with pytest.raises(ClientFailed, match="partition 0"):
        mine.client.unassign(0)
    with pytest.raises(ClientFailed, match="partition 1"):
        mine.client.assign(1, 0)


def test_unanswered_bounds_are_none(reader, mock_cluster: MockCluster, topic: str) -> None:
    mock_cluster.lead(topic, 0, -1)
    mine = reader(1)
    assert mine.client.bounds(0, 0.2) is None
    mock_cluster.lead(topic, 0, 1)
    wait_until(lambda: mine.client.bounds(0, 1.0) == (0, 0), PATIENCE_S, "bounds", interval=0)


def test_fatal_error_is_reported_and_the_client_can_be_closed(reader) -> None:
    # It is left behind, and would go on telling of its cluster's end.
    mine = reader(log_level=0)
    handle = ctypes.c_void_p(mine.client._client.handle)
    code = KafkaError.FENCED_INSTANCE_ID
    assert library().rd_kafka_test_fatal_error(handle, code, b"gone") == 0
    mine.read(lambda: bool(mine.failed(KafkaError._FATAL)))
    mine.client.close()


def test_messages_are_released_despite_a_failed_report(
    reader, mock_cluster: MockCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test that no message keeps the client from ending: the fixture would not return."""
    send(mock_cluster, topic, [b"x"] * 30)
    mine = reader()

    def fails(*_messages: object) -> Polled:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(batch_consumer, "polled_of", fails)
        with pytest.raises(MemoryError):
            mine.read(lambda: False)
    mine.client.close()
    mine.client.close()


def test_partial_batch_is_returned_without_waiting(
    reader, mock_cluster: MockCluster, topic: str
) -> None:
    """Its reader would stand still for that long at the end of each topic."""
    send(mock_cluster, topic, [b"x"] * 30)
    mine = reader(most=10)
    began = time.monotonic()
    taken = 10
    while taken == 10:
        one = mine.client.consume(PATIENCE_S)
        taken = len(one.records) + len(one.failures)
    assert time.monotonic() - began < PATIENCE_S


def test_each_record_has_the_time_at_which_it_reached_the_client(
    reader, mock_cluster: MockCluster, topic: str
) -> None:
    """A poll collects records for a while. With the time of its return, records at 100 a second
    were late by half of that on average, whatever the broker did."""
    # The mock cluster does not wake a fetch for new records, so each waits for one millisecond.
    mine = reader(0, most=1_000, **{"fetch.wait.max.ms": 1})
    mine.read(lambda: 0 in mine.ends)
    producer = Producer({"bootstrap.servers": mock_cluster.bootstrap_servers, "linger.ms": 0})
    returned = Event()

    def send_until_returned() -> None:
        while not returned.is_set():
            producer.produce(topic, str(time.time_ns()).encode(), partition=0)
            assert producer.flush(PATIENCE_S) == 0

    with ThreadPoolExecutor(1) as sender:
        sending = sender.submit(send_until_returned)
        records = mine.client.consume(1.0).records
        returned.set()
        sending.result()
    sent = np.array([int(bytes(value)) for value in records.values])
    assert len(sent) > 1
    assert (records.times >= sent).all()
    assert records.times[0] < sent[-1] < records.times[-1]


def test_consumer_is_closed_with_unread_records(
    reader, mock_cluster: MockCluster, topic: str
) -> None:
    send(mock_cluster, topic, [b"x" * 100] * 3_000)
    mine = reader(most=10)
    mine.read_rows(10)
    mine.client.close()


@pytest.mark.parametrize("wrong", [{"no.such": 1}, {"group.id": ""}, {"fetch.min.bytes": -1}])
def test_properties_that_it_does_not_take_are_refused_with_the_reason(
    mock_cluster: MockCluster, wrong: Mapping[str, object]
) -> None:
    with pytest.raises(SpecificationError, match=r"librdkafka"):
        BatchConsumer("t", properties(mock_cluster, **wrong), MOST)
