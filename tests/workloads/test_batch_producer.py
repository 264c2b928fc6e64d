"""Records that are handed over and reported many at once, against librdkafka's own cluster."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition, cimpl

from ackproof.history.payload import Encoder, bytes_min
from ackproof.infra.machine.waiting import wait_until
from ackproof.workloads.librdkafka import library as lib
from ackproof.workloads.librdkafka.client import BatchProducer
from ackproof.workloads.librdkafka.keys import BY_KEY, Keys
from ackproof.workloads.librdkafka.library import library
from ackproof.workloads.librdkafka.messages import Reports
from ackproof.workloads.process import ClientFailed
from ackproof.workloads.spec import SpecificationError
from ackproof.workloads.unresolved import FEW
from tests.support.fakes.mock_cluster import MockCluster
from tests.support.processes.deadlines import PATIENCE_S

TOPIC = "t"
PARTITIONS = 3
KEYS = 7
PRODUCE = 0
"""API key."""
CELL = "c"
LEAST = bytes_min(CELL)
pytestmark = pytest.mark.integration


class Told:
    """A producer, and what it told."""

    def __init__(
        self, servers: str, encoder: Encoder, keys: Keys | None = None, **properties: object
    ) -> None:
        self.reports: list[Reports] = []
        self.statistics: list[str] = []
        said = {name.replace("_", "."): value for name, value in properties.items()}
        self.client = BatchProducer(
            {"bootstrap.servers": servers, "linger.ms": 5, **said},
            self.reports.append,
            self.statistics.append,
        )
        self.sender = self.client.sender(TOPIC, encoder, keys)

    def send(self, first: int, many: int, among: int = PARTITIONS) -> dict[int, int]:
        """Send sequence numbers, to the partitions in turn, or of so many keys. Return those that
        are refused, with their codes."""
        sequences = np.arange(first, first + many)
        return dict(self.sender.produce(sequences, sequences % among))

    def outcomes(self) -> dict[int, tuple[int, int]]:
        """Offsets and codes by sequence number."""
        told = [
            (number, (offset, code))
            for one in self.reports
            for number, offset, code, _ in zip(*(field.tolist() for field in one), strict=True)
        ]
        assert len(dict(told)) == len(told), "reported twice"
        return dict(told)

    def partitions(self) -> dict[int, int]:
        """Return the partition of each report by sequence number."""
        return {
            number: partition
            for one in self.reports
            for number, partition in zip(one.numbers.tolist(), one.partitions.tolist(), strict=True)
        }

    def hear(self, condition: Callable[[], bool]) -> None:
        def holds() -> bool:
            self.client.serve(0.01)
            return condition()

        wait_until(holds, PATIENCE_S, "what was to be heard", interval=0)

    def hear_of(self, many: int) -> None:
        """Until so many records are reported in all."""
        self.hear(lambda: sum(len(one.numbers) for one in self.reports) == many)


@pytest.fixture
def producer(mock_cluster: MockCluster) -> Iterator[Callable[..., Told]]:
    mock_cluster.create(TOPIC, PARTITIONS)
    with ExitStack() as started:

        def start(encoder: Encoder | None = None, **properties: object) -> Told:
            encoder = encoder or Encoder(CELL, 4, LEAST)
            made = Told(mock_cluster.bootstrap_servers, encoder, **properties)
            started.enter_context(closing(made.client))
            return made

        yield start


def logged(cluster: MockCluster, many: int) -> dict[tuple[int, int], tuple[bytes, bytes | None]]:
    """Return the value and key at each partition and offset."""
    config = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"}
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
        found = [message for _ in range(many) if (message := consumer.poll(PATIENCE_S))]
    return {(one.partition(), one.offset()): (one.value(), one.key()) for one in found}


@pytest.mark.parametrize("at_once", [2_500, FEW, 1])
@pytest.mark.parametrize("most", [LEAST, LEAST + 40])
def test_reported_records_are_in_the_log(producer, mock_cluster, most: int, at_once: int) -> None:
    many = 2_500 if at_once > FEW else 20 * at_once
    encoder = Encoder(CELL, 4, LEAST, most)
    told = producer(encoder, keys=Keys(KEYS, PARTITIONS))
    for first in range(0, many, at_once):
        assert told.send(first, at_once, among=KEYS) == {}
    told.hear_of(many)
    assert {code for _, code in told.outcomes().values()} == {0}
    found = logged(mock_cluster, many)
    assert {
        (number % KEYS % PARTITIONS, offset): encoder.encode(number)
        for number, (offset, _) in told.outcomes().items()
    } == {where: value for where, (value, _) in found.items()}
    assert {(where[0], key) for where, (_, key) in found.items()} == {
        (number % PARTITIONS, b"key-%d" % number) for number in range(KEYS)
    }


@pytest.mark.parametrize("at_once", [300, FEW])
def test_library_picks_the_partition_that_was_computed_for_the_key(
    producer, mock_cluster, at_once: int
) -> None:
    many = 2 * at_once
    expected = {}
    for partitioner in BY_KEY:
        keys = Keys(KEYS, PARTITIONS, partitioner)
        told = producer(keys=keys, partitioner=partitioner)
        for first in range(0, many, at_once):
            assert told.send(first, at_once, among=KEYS) == {}
        told.hear_of(many)
        sent_to = {number: int(keys.partitions[number % KEYS]) for number in range(many)}
        assert told.partitions() == sent_to
        expected |= {
            (sent_to[number], offset): b"key-%d" % (number % KEYS)
            for number, (offset, _) in told.outcomes().items()
        }
    found = logged(mock_cluster, many * len(BY_KEY))
    assert {where: key for where, (_, key) in found.items()} == expected


def test_partitioners_that_differ_pick_different_partitions() -> None:
    picked = {name: tuple(Keys(60, 6, name).partitions.tolist()) for name in BY_KEY}
    assert {picked[name] == picked[f"{name}_random"] for name in BY_KEY[::2]} == {True}
    assert len({*picked.values()}) == 3


def test_each_partition_has_its_records_in_their_order(producer) -> None:
    told = producer()
    for first in range(0, 4_000, 1_000):
        assert told.send(first, 1_000) == {}
    told.hear_of(4_000)
    outcomes = told.outcomes()
    for partition in range(PARTITIONS):
        mine = [outcomes[number][0] for number in range(partition, 4_000, PARTITIONS)]
        assert mine == list(range(len(mine)))


def test_oversized_records_are_refused_and_others_are_not(producer) -> None:
    told = producer(Encoder(CELL, 4, 900, 1_500), message_max_bytes=1_200)
    refused = told.send(0, 100)
    assert set(refused.values()) == {KafkaError.MSG_SIZE_TOO_LARGE}
    told.hear_of(100 - len(refused))
    assert told.outcomes().keys() == set(range(100)) - refused.keys()
    assert 0 < len(refused) < 100


def test_record_for_a_missing_partition_takes_no_queue_room(producer) -> None:
    told = producer(queue_buffering_max_messages=50)
    told.send(0, PARTITIONS)
    told.hear_of(PARTITIONS)
    for first in range(1_000, 1_200, 10):
        sequences = np.arange(first, first + 10)
        refused = told.sender.produce(sequences, np.full(10, PARTITIONS))
        assert refused == dict.fromkeys(sequences.tolist(), KafkaError._UNKNOWN_PARTITION)
    assert told.send(10, 50) == {}
    told.hear_of(PARTITIONS + 50)


def test_few_are_refused_as_many_are(producer) -> None:
    told = producer(Encoder(CELL, 4, 900, 1_500), message_max_bytes=1_200)
    one_by_one = {code for number in range(30) for code in told.send(number, 1).items()}
    assert dict(one_by_one) == told.send(0, 30)
    assert set(dict(one_by_one).values()) == {KafkaError.MSG_SIZE_TOO_LARGE}
    told.hear_of(60 - 2 * len(one_by_one))


def test_full_queue_refuses_excess_records(producer, mock_cluster) -> None:
    told = producer(queue_buffering_max_messages=10)
    for partition in range(PARTITIONS):
        mock_cluster.lead(TOPIC, partition, -1)
    refused = told.send(0, 30)
    assert set(refused.values()) == {KafkaError._QUEUE_FULL}
    assert len(refused) == 20
    told.client.purge()
    told.hear_of(10)
    assert {code for _, code in told.outcomes().values()} <= {
        KafkaError._PURGE_QUEUE,
        KafkaError._PURGE_INFLIGHT,
    }
    assert told.outcomes().keys() == set(range(30)) - refused.keys()
    assert all(offset < 0 for offset, _ in told.outcomes().values())
    assert told.send(30, 10) == {}


def test_records_sent_to_a_leader_that_is_gone_time_out(producer, mock_cluster) -> None:
    told = producer(message_timeout_ms=1_000)
    told.send(0, 1, among=1)
    told.hear_of(1)
    mock_cluster.lead(TOPIC, 0, -1)
    told.send(1, 5, among=1)
    told.hear_of(6)
    outcomes = told.outcomes()
    codes = [outcomes[number][1] for number in range(1, 6)]
    assert codes == [KafkaError._MSG_TIMED_OUT] * 5


def test_broker_error_is_reported_for_the_affected_records(producer, mock_cluster) -> None:
    told = producer(retries=0)
    told.send(0, 1, among=1)
    told.hear_of(1)
    mock_cluster.fail(PRODUCE, KafkaError.NOT_ENOUGH_REPLICAS, 1)
    told.send(1, 5, among=1)
    told.hear_of(6)
    outcomes = told.outcomes()
    codes = [outcomes[number][1] for number in range(6)]
    assert codes == [0, *[KafkaError.NOT_ENOUGH_REPLICAS] * 5]


def test_a_flush_waits_for_no_more_records(producer) -> None:
    linger_ms = int(2 * PATIENCE_S * 1000)
    times = {"message_timeout_ms": 2 * linger_ms, "linger_ms": min(linger_ms, 900_000)}
    told = producer(**times)
    began = time.monotonic()
    told.send(0, PARTITIONS)

    def reported() -> bool:
        told.client.flush()
        return len(told.outcomes()) == PARTITIONS

    told.hear(reported)
    assert time.monotonic() - began < times["linger_ms"] / 1000


def test_fatal_error_is_reported_and_later_records_are_refused(producer, mock_cluster) -> None:
    told = producer(enable_idempotence=True, enable_gapless_guarantee=True)
    told.send(0, 1, among=1)
    told.hear_of(1)
    mock_cluster.fail(PRODUCE, KafkaError.INVALID_PRODUCER_ID_MAPPING, 1)
    told.send(1, 1, among=1)
    told.hear(lambda: told.client.fatal is not None)
    assert "gap-less" in told.client.fatal
    assert told.send(2, 3) == dict.fromkeys(range(2, 5), KafkaError._FATAL)


def test_statistics_are_reported(producer) -> None:
    told = producer(statistics_interval_ms=10)
    told.hear(lambda: len(told.statistics) > 2)
    assert all('"brokers":' in one for one in told.statistics)


@pytest.mark.parametrize("wrong", [{"no_such": 1}, {"acks": 5_000}, {"linger_ms": -1}])
def test_properties_that_it_does_not_take_are_refused_with_the_reason(wrong) -> None:
    with pytest.raises(SpecificationError, match=r"librdkafka refuses: .*(no\.such|acks|max\.ms)"):
        Told("b:1", Encoder(CELL, 4, LEAST), **wrong)


def test_properties_that_do_not_go_together_are_refused() -> None:
    at_odds = {"message_timeout_ms": 10, "linger_ms": 1_000}
    with pytest.raises(SpecificationError, match=r"librdkafka refuses: .*linger"):
        Told("b:1", Encoder(CELL, 4, LEAST), **at_odds)


def test_producer_is_closed_once_with_records_in_flight(producer, mock_cluster) -> None:
    mock_cluster.lead(TOPIC, 0, -1)
    told = producer()
    told.send(0, 10, among=1)
    told.client.close()
    told.client.close()


def test_the_library_is_the_one_that_is_loaded() -> None:
    assert library() is library()
    wheels = "7f00-7f10 r-xp 00000000 08:01 4   /a b/confluent_kafka.libs/librdkafka-1.so.1\n"
    assert lib._loaded(f"7f-8f rw-p 0 00:00 0 [heap]\n{wheels}") == (
        "/a b/confluent_kafka.libs/librdkafka-1.so.1"
    )
    assert lib._loaded("7f-8f rw-p 0 00:00 0\n") == cimpl.__file__


def test_another_version_than_the_one_that_is_loaded_is_refused() -> None:
    with pytest.raises(ClientFailed, match="is not the librdkafka"):
        lib._check(1, str(Path("there")))


def test_a_message_is_as_large_as_it_is_in_rdkafka_h() -> None:
    assert lib.MESSAGE.itemsize == 72
    assert [lib.MESSAGE.fields[name][1] for name in ("err", "partition", "offset", "private")] == [
        0,
        16,
        56,
        64,
    ]
