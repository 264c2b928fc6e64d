"""The measured load: librdkafka's producer and consumer with default settings, except for two.

Records of 1 kB that do not compress are made before the measurement. A run that loses a record or
gets an error is no measurement and fails.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ackproof.infra.machine.waiting import wait_until

RECORD = random.Random(1).randbytes(1024)
TIMEOUT_S = 60
CHUNK = 5_000

# By default a consumer pauses for half a second when some of a broker's partitions end before it
# has begun with others, and for a second when its queue is full. That is as long as the whole
# measurement.
PAUSES = {"fetch.wait.max.ms": 10, "fetch.queue.backoff.ms": 10}

# By default a producer asks for new leaders, and sends again, after a pause of up to a second,
# which can be as long as the brokers' whole failover.
SOON = {
    "linger.ms": 0,
    "topic.metadata.refresh.fast.interval.ms": 20,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 20,
    "reconnect.backoff.max.ms": 100,
}


class LoadFailed(Exception):
    """A client got an error, or records did not arrive, so that there is nothing to compare."""


@dataclass
class Sender:
    """A producer that is connected to the leader of every partition, as is its ``admin``."""

    bootstrap: str
    topic: str
    partitions: int
    acks: str
    settings: dict[str, Any] = field(default_factory=dict)
    errors: list[KafkaError] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": self.acks,
                "delivery.report.only.error": self.settings.pop("only_errors", True),
                "on_delivery": self._delivered,
                "log_level": 0,
                **self.settings,
            }
        )
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        self.sent = self.delivered = 0
        for _ in range(self.partitions):
            self.put()
        self.flush()
        self.readable()

    def put(self) -> None:
        """Send a record as soon as there is room for it."""
        while True:
            try:
                self.producer.produce(self.topic, RECORD, partition=self.sent % self.partitions)
            except BufferError:
                self.producer.poll(0.01)
                continue
            self.sent += 1
            return

    def flush(self) -> None:
        """Wait until all records are acknowledged. Raises LoadFailed if one is not."""
        left = self.producer.flush(TIMEOUT_S)
        if left or self.errors:
            raise LoadFailed(f"{left} records not acknowledged; errors: {self.errors[:3]}")

    def wait_for_ack(self) -> None:
        """Wait until as many records are acknowledged as were sent. Needs ``only_errors=False``."""
        deadline = perf_counter() + TIMEOUT_S
        while self.delivered < self.sent:
            self.producer.poll(1)
            if self.errors or perf_counter() > deadline:
                raise LoadFailed(f"record {self.sent} of {self.topic}: {self.errors}")

    def wait_until_readable(self) -> None:
        """Wait until all records are below the high watermarks."""
        what = f"{self.sent} records can be read"
        wait_until(lambda: self.readable() >= self.sent, TIMEOUT_S, what, interval=0.002)

    def readable(self) -> int:
        """Return the number of records below the high watermarks."""
        latest = OffsetSpec.latest()
        asked = {TopicPartition(self.topic, p): latest for p in range(self.partitions)}
        return sum(answer.result(10).offset for answer in self.admin.list_offsets(asked).values())

    def _delivered(self, error: KafkaError | None, _message: object) -> None:
        self.delivered += 1
        if error is not None:
            self.errors.append(error)


def produce_batched(bootstrap: str, topic: str, partitions: int, acks: str, count: int) -> float:
    """Return the records per second from the first send until all are acknowledged, or readable
    with acks=0."""
    sender = Sender(bootstrap, topic, partitions, acks)
    return _rate(count, lambda: _send(sender, count))


def _send(sender: Sender, count: int) -> None:
    for number in range(count):
        sender.put()
        if number % CHUNK == 0:
            sender.producer.poll(0)
    sender.flush()
    if sender.acks == "0":
        sender.wait_until_readable()


def produce_singly(
    bootstrap: str, topic: str, partitions: int, acks: str, count: int
) -> tuple[float, list[float]]:
    """Send each record after the ack of the one before. Return the records per second and the time
    that each waited, in seconds.

    With acks=0 there is no ack to wait for: records are sent one by one until all can be read.
    """
    settings = {"only_errors": False, "linger.ms": 0, "batch.num.messages": 1}
    sender = Sender(bootstrap, topic, partitions, acks, settings)
    waited: list[float] = []

    def send() -> None:
        for _ in range(count):
            began = perf_counter()
            sender.put()
            sender.wait_for_ack()
            waited.append(perf_counter() - began)
        if acks == "0":
            sender.wait_until_readable()

    return _rate(count, send), waited


def fill(bootstrap: str, topic: str, partitions: int, count: int, *, singly: bool) -> None:
    """Write the records to read. With ``singly``, every record is a batch of its own."""
    settings = {"batch.num.messages": 1} if singly else {}
    sender = Sender(bootstrap, topic, partitions, "all", settings)
    _send(sender, count - sender.sent)
    sender.wait_until_readable()


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """Return the records per second from the assignment until the last one is read."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "log_level": 0,
            **PAUSES,
        }
    )
    try:
        consumer.list_topics(topic, timeout=TIMEOUT_S)
        return _rate(count, lambda: _take(consumer, topic, partitions, count))
    finally:
        consumer.close()


def _take(consumer: Consumer, topic: str, partitions: int, count: int) -> None:
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    taken = 0
    while taken < count:
        messages = consumer.consume(min(CHUNK, count - taken), timeout=TIMEOUT_S)
        errors = [message.error() for message in messages if message.error()]
        if errors or not messages:
            raise LoadFailed(f"{taken} of {count} records of {topic} read; errors: {errors[:3]}")
        taken += len(messages)


def _rate(count: int, work: Callable[[], None]) -> float:
    began = perf_counter()
    work()
    return count / (perf_counter() - began)
