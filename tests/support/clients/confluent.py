"""confluent-kafka's clients, as tests use them: everything acknowledged, everything read back."""

import contextlib
from collections.abc import Mapping
from types import MappingProxyType

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic, OffsetSpec

from tests.support.clusters.bundled import TIMEOUT_S, Cluster, until

ASK_S = 10
"""For one question; then it is asked again."""


def create_topic(
    cluster: Cluster,
    topic: str,
    partitions: int = 1,
    replication_factor: int = 3,
    config: dict[str, str] | None = None,
) -> None:
    """Creates the topic and waits until every replica is in sync and the leaders serve."""
    new = NewTopic(topic, partitions, replication_factor, config=config or {})
    until(f"a controller creates {topic}", lambda: _created(cluster, new))
    until(
        f"all replicas of {topic} are in sync",
        lambda: all(len(cluster.isr(topic, p)) == replication_factor for p in range(partitions)),
    )
    wait_until_led(cluster, topic, partitions)


def wait_until_led(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    """Waits until the leader of each partition answers as such.

    The controller tells brokers one after the other, so that metadata may name a leader that has
    not heard of it: one that refuses a direct request, and drops one with acks=0.
    """
    for partition in range(partitions):
        until(f"{topic}-{partition} is led", lambda p=partition: _end(cluster, topic, p) >= 0)


def _end(cluster: Cluster, topic: str, partition: int) -> int:
    """The log end as the partition's leader says; -1: no leader."""
    admin, tp = cluster.admin(), TopicPartition(topic, partition)
    try:
        return int(admin.list_offsets({tp: OffsetSpec.latest()})[tp].result(TIMEOUT_S).offset)
    except KafkaException:
        return -1


TRY_AGAIN = {
    KafkaError.NOT_CONTROLLER,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT,
    KafkaError._DESTROY_BROKER,
    KafkaError.INVALID_REPLICATION_FACTOR,
}
"""What one hears while the controller or the ZooKeeper session changes; of a broker that is asked
when the client hears that there is none; the last, while a broker whose session has ended is not
back, though it was registered when the cluster was deployed."""


def _created(cluster: Cluster, new: NewTopic) -> bool:
    admin = cluster.admin()
    try:
        admin.create_topics([new], operation_timeout=30)[new.topic].result(TIMEOUT_S)
    except KafkaException as error:
        code = error.args[0].code()
        if code in TRY_AGAIN:
            return False
        if code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    return True


def produce(
    cluster: Cluster,
    topic: str,
    values: list[bytes],
    partition: int = 0,
    acks: str = "all",
    **config: object,
) -> dict[bytes, KafkaError | None]:
    """Sends ``values``; for each the error it was answered with, or None for an ack."""
    outcomes: dict[bytes, KafkaError | None] = {}

    def delivered(error: KafkaError | None, message: object) -> None:
        outcomes[message.value()] = error

    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "acks": acks,
        "linger.ms": 1,
        "log_level": 0,
    }
    producer = Producer(settings | {key.replace("_", "."): v for key, v in config.items()})
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    return outcomes


def watermarks(cluster: Cluster, topic: str, partition: int = 0) -> tuple[int, int]:
    """Log start offset and high watermark."""
    consumer = _consumer(cluster)
    try:
        return _watermarks(consumer, TopicPartition(topic, partition))
    finally:
        consumer.close()


def _watermarks(consumer: Consumer, tp: TopicPartition) -> tuple[int, int]:
    """Return the watermarks that the leader reports. After an election the client may have to find
    the new leader: librdkafka (2.16) asks the one in its metadata, and does not refresh them for a
    missing answer. A client that learned of the leader just before its death, and fetches nothing,
    would ask the dead broker for ever."""
    found: list[int] = []
    refusals: list[KafkaException] = []

    def told() -> bool:
        try:
            found[:] = consumer.get_watermark_offsets(tp, timeout=ASK_S)
        except KafkaException as refusal:
            refusals.append(refusal)
            with contextlib.suppress(KafkaException):
                consumer.list_topics(tp.topic, timeout=ASK_S)
        return bool(found)

    try:
        until(f"the leader of {tp.topic}-{tp.partition} tells its offsets", told)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; the last of {len(refusals)}: {refusals[-1:]}") from None
    low, high = found
    return low, high


TOO_FEW = (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


def refused(cluster: Cluster, topic: str, value: bytes) -> bool:
    """Whether acks=all is refused for want of replicas in sync; False: it is acknowledged."""
    codes: list[int] = []

    def answered() -> bool:
        (error,) = produce(cluster, topic, [value], retries=0).values()
        codes.append(KafkaError.NO_ERROR if error is None else error.code())
        return codes[-1] in (KafkaError.NO_ERROR, *TOO_FEW)

    until(f"{value!r} is acknowledged or refused", answered)
    return codes[-1] in TOO_FEW


def read_all(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes]:
    """Return the value of every record from the log's start to the high watermark, in order."""
    return [message.value() for message in read_messages(cluster, topic, partition)]


def read_messages(cluster: Cluster, topic: str, partition: int = 0) -> list[Message]:
    """Return every record from the log's start to the high watermark, in order."""
    consumer = _consumer(cluster)
    try:
        low, high = _watermarks(consumer, TopicPartition(topic, partition))
        consumer.assign([TopicPartition(topic, partition, low)])
        found: list[Message] = []
        reached = low

        def read() -> bool:
            nonlocal reached
            if reached < high:
                for message in consumer.consume(min(1000, high - reached), timeout=0.5):
                    assert message.error() is None, message.error()
                    found.append(message)
                    reached = message.offset() + 1
            return reached >= high

        until(f"{topic}-{partition} is read up to {high}", read)
        return found
    finally:
        consumer.close()


def first_error(cluster: Cluster, topic: str, partition: int = 0) -> str | None:
    """Return the name of the first error of a consumer that checks CRCs, between the log's start
    and the high watermark; None without an error."""
    consumer = _consumer(cluster, {"check.crcs": True})
    met: list[str] = []
    try:
        low, high = _watermarks(consumer, TopicPartition(topic, partition))
        consumer.assign([TopicPartition(topic, partition, low)])
        reached = low

        def read() -> bool:
            nonlocal reached
            for message in consumer.consume(1, timeout=0.5):
                if (error := message.error()) is not None:
                    met.append(error.name())
                else:
                    reached = message.offset() + 1
            return bool(met) or reached >= high

        until(f"{topic}-{partition} is read up to {high}, or to an error", read)
        return met[0] if met else None
    finally:
        consumer.close()


def _consumer(cluster: Cluster, own: Mapping[str, object] = MappingProxyType({})) -> Consumer:
    return Consumer(
        {
            **own,
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # what it starts with may be deleted meanwhile
            "log_level": 0,
        }
    )
