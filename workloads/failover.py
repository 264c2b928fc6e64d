"""The observation of partitions as they change leaders: what a client sees of a broker that is
gone.

Two times are measured for each partition. The first is when the brokers' metadata first name
another leader. The second is when the next record is acknowledged, which a producer (acks=all) was
given when the broker was just gone. The first is what the cluster says, the second what it does.
"""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

LOOK_EVERY_S = 0.1
"""The seconds between two looks at the metadata; a result is late by at most this and the time of
the answer."""
AT_ONCE = 100
"""The number of partitions that one order makes. Where they are made one after the other, a
thousand take longer than a client waits for an answer (``socket.timeout.ms``, a minute)."""
_ANSWER_S = 1.0
_POLL_S = 0.02
_RETRY_MS = 100
_VALUE = b"failover"
_QUIET = {"log_level": 0}
"""The settings that keep the broker's absence, which is the subject here, off the terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTimes:
    """The times of one partition, in nanoseconds of the Unix epoch, or None for what did not come
    in time.

    Attributes:
        led: When metadata first named a leader that is not the broker that is gone.
        acked: When the record was acknowledged.
    """

    led: int | None
    acked: int | None


class TopicNotCreated(Exception):
    """The error of a topic that could not be made, or not with that many partitions."""


def grow(
    bootstrap_servers: str,
    topic: str,
    partitions: int,
    replicas: int,
    deadline_s: float,
    connection: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Make ``topic``, or give it more partitions, so that it has that many.

    ``connection`` has librdkafka's further properties for a connection.

    One order makes at most :data:`AT_ONCE`. Raise NotMade with the broker's reason, and where the
    topic has more.

    Silence within the time is no refusal: the order may still be under way, one partition after the
    other. The caller checks the result.
    """
    end = time.monotonic() + deadline_s
    with AdminClient({**connection, "bootstrap.servers": bootstrap_servers, **_QUIET}) as admin:
        _grow(admin, topic, partitions, replicas, end)


def _grow(admin: AdminClient, topic: str, partitions: int, replicas: int, end: float) -> None:
    """Make the topic or its partitions until a time of the monotonic clock; see
    :func:`grow`."""
    try:
        # This asks for all topics: asked for one that does not exist, brokers would make it with
        # their own defaults.
        known = admin.list_topics(timeout=max(0.0, end - time.monotonic())).topics
    except KafkaException as error:
        raise TopicNotCreated(error.args[0].str()) from error
    there = len(known[topic].partitions) if topic in known else 0
    if there > partitions:
        raise TopicNotCreated(f"{topic} has {there} partitions, not {partitions}")
    while there < partitions and (left := end - time.monotonic()) > 0:
        more = min(there + AT_ONCE, partitions)
        limits = {"request_timeout": left, "operation_timeout": left}
        made: Mapping[str, Future[None]]
        if there == 0:
            made = admin.create_topics([NewTopic(topic, more, replicas)], **limits)
        else:
            made = admin.create_partitions([NewPartitions(topic, more)], **limits)
        _await(made[topic])
        there = more


def _await(made: Future[None]) -> None:
    try:
        made.result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError._TIMED_OUT:
            raise TopicNotCreated(error.args[0].str()) from error


class FailoverClients:
    """The clients that observe a failover; a context manager.

    Args:
        clock: Returns nanoseconds of the Unix epoch.
        limit_s: How long a record may be under way, and how long the observation lasts, in seconds.
        connection: librdkafka's further properties for a connection.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        clock: Callable[[], int],
        limit_s: float,
        connection: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._topic = topic
        self._partitions = range(partitions)
        self._clock = clock
        self._limit_s = limit_s
        self._acked: dict[int, int] = {}
        self._refused: queue.SimpleQueue[tuple[int, dict[int, int]]] = queue.SimpleQueue()
        self._over = threading.Event()
        connect = {**connection, "bootstrap.servers": bootstrap_servers, **_QUIET}
        # These are separate clients, so that one's looks at the metadata tell the other nothing.
        self._admin = AdminClient(connect)
        self._producer = Producer(
            {
                **connect,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": int(limit_s * 1000),
                # Otherwise its own wait between two attempts would be half of what is measured.
                "retry.backoff.ms": _RETRY_MS,
                "retry.backoff.max.ms": _RETRY_MS,
                "topic.metadata.refresh.fast.interval.ms": _RETRY_MS,
            }
        )
        self._polling = threading.Thread(target=self._poll, name="onlooker", daemon=True)

    def __enter__(self) -> Self:
        self._polling.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._polling.join()
        with self._admin:  # which closes it
            self._producer.purge()

    def leaders(self) -> Mapping[int, int]:
        """Return the leader of each partition, as the brokers' metadata name it now.

        Partitions without a leader are left out. Raise KafkaException when no broker answers.
        """
        return _metadata(self._admin, self._topic, _ANSWER_S)

    def warm_up(self, deadline_s: float) -> bool:
        """Have a record acknowledged by each partition, and return whether all were in time.

        Every connection is then made before the measurement.
        """
        self._hand_over(self._partitions)
        end = self._clock() + int(deadline_s * 1e9)
        while len(self._acked) < len(self._partitions) and self._clock() < end:
            self._pause(_POLL_S)
        return len(self._acked) == len(self._partitions)

    def look_on(
        self, gone: int, moved: Sequence[int], stop: Callable[[], None]
    ) -> dict[int, PartitionTimes]:
        """Return the times of the partitions in ``moved``, which the broker ``gone`` led until now.

        This returns when all are led and acknowledge again, or after ``limit_s``. It calls ``stop``
        now and then, which raises an error to end it.
        """
        self._hand_over(moved)
        led: dict[int, int] = {}
        end = self._clock() + int(self._limit_s * 1e9)
        while self._clock() < end and min(len(led), len(self._acked)) < len(moved):
            stop()
            if len(led) < len(moved):
                leaders, now = self._leaders_or_none(), self._clock()
                changed = [number for number in moved if leaders.get(number, gone) != gone]
                led = dict.fromkeys(changed, now) | led
            self._pause(LOOK_EVERY_S)
        acked = dict(self._acked)
        return {
            number: PartitionTimes(led=led.get(number), acked=acked.get(number)) for number in moved
        }

    def _leaders_or_none(self) -> Mapping[int, int]:
        with suppress(KafkaException):
            return self.leaders()
        return {}

    def _hand_over(self, partitions: Sequence[int]) -> None:
        # Each round has its own map, so that a late ack of the last round does not count for this
        # one.
        self._acked = {}
        for number in partitions:
            self._produce(number, self._acked)

    def _produce(self, number: int, acked: dict[int, int]) -> None:
        delivered = partial(self._delivered, acked, number)
        try:
            self._producer.produce(self._topic, _VALUE, partition=number, on_delivery=delivered)
        except (KafkaException, BufferError):
            self._refused.put((number, acked))

    def _delivered(
        self, acked: dict[int, int], number: int, error: KafkaError | None, _message: Message
    ) -> None:
        if error is None:
            acked.setdefault(number, self._clock())
        else:
            self._refused.put((number, acked))

    def _pause(self, seconds: float) -> None:
        """Wait, then hand over again what was refused meanwhile.

        A client whose broker had not heard of all partitions believes for minutes that there are no
        more, so it must ask again.
        """
        self._over.wait(seconds)
        if refused := self._refused.qsize():
            with suppress(KafkaException):
                self._producer.list_topics(self._topic, _ANSWER_S)
        for _ in range(refused):
            self._produce(*self._refused.get_nowait())

    def _poll(self) -> None:
        while not self._over.is_set():
            self._producer.poll(_POLL_S)


def _metadata(admin: AdminClient, topic: str, timeout_s: float) -> dict[int, int]:
    """Return the leader of each partition, with -1 left out."""
    metadata = admin.list_topics(topic=topic, timeout=timeout_s).topics.get(topic)
    partitions = metadata.partitions if metadata is not None else {}
    return {number: one.leader for number, one in partitions.items() if one.leader >= 0}
