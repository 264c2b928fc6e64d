"""confluent-kafka's clients, as tests use them: everything acknowledged, everything read back."""

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from kafka_cluster import TIMEOUT_S, Cluster, until


def create_topic(
    cluster: Cluster,
    topic: str,
    partitions: int = 1,
    replication_factor: int = 3,
    config: dict[str, str] | None = None,
) -> None:
    """Creates the topic and waits until every replica is in sync."""
    new = NewTopic(topic, partitions, replication_factor, config=config or {})
    until(f"a controller creates {topic}", lambda: _created(cluster, new))
    until(
        f"all replicas of {topic} are in sync",
        lambda: all(len(cluster.isr(topic, p)) == replication_factor for p in range(partitions)),
    )


TRY_AGAIN = {KafkaError.NOT_CONTROLLER, KafkaError.REQUEST_TIMED_OUT}
"""What one hears while the controller or the ZooKeeper session changes."""


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
        tp = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(tp, timeout=TIMEOUT_S)
        return low, high
    finally:
        consumer.close()


def read_all(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes]:
    """Every record from the log's start to the high watermark, in order."""
    consumer = _consumer(cluster)
    try:
        tp = TopicPartition(topic, partition)
        low, high = consumer.get_watermark_offsets(tp, timeout=TIMEOUT_S)
        consumer.assign([TopicPartition(topic, partition, low)])
        values: list[bytes] = []

        def read() -> bool:
            for message in consumer.consume(1000, timeout=0.5):
                assert message.error() is None, message.error()
                values.append(message.value())
            return len(values) >= high - low

        until(f"{topic}-{partition} is read up to {high}", read)
        return values
    finally:
        consumer.close()


def _consumer(cluster: Cluster) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
