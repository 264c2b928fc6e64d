"""confluent-kafka's consumers in groups, as tests use them."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from kafka_cluster import Cluster, until

OFFSETS_TOPIC = "__consumer_offsets"
OVERRIDES = {"offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "300"}
SESSION_MS = 6_000
TIMEOUT_S = 30


class Member:
    """A consumer, what it was given, and what it has read."""

    def __init__(self, cluster: Cluster, group: str, topic: str, **config: object) -> None:
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 300,
            "enable.auto.commit": False,
            "log_level": 0,
        } | {key.replace("_", "."): value for key, value in config.items()}
        self.consumer = Consumer(settings)
        self.rebalances = 0
        self.values: list[bytes] = []
        self.consumer.subscribe([topic], on_assign=self._assigned)

    def _assigned(self, _consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        self.rebalances += 1

    def poll(self) -> None:
        """Reads what is there; errors that the client recovers from are none."""
        for message in self.consumer.consume(100, timeout=0.05):
            if message.error() is None:
                self.values.append(message.value())

    @property
    def partitions(self) -> set[int]:
        return {tp.partition for tp in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


@contextlib.contextmanager
def members(*made: Member) -> Iterator[tuple[Member, ...]]:
    """Closes them at the end, those closed before included."""
    try:
        yield made
    finally:
        for member in made:
            with contextlib.suppress(RuntimeError):
                member.close()


def poll_until(what: str, condition: Callable[[], object], *polled: Member) -> None:
    """Waits while every one of ``polled`` goes on consuming."""

    def look() -> bool:
        for member in polled:
            member.poll()
        return bool(condition())

    until(what, look)


def shared(partitions: int, *polled: Member) -> Callable[[], bool]:
    """Whether they have all partitions between them, each one of them some."""

    def look() -> bool:
        parts = [member.partitions for member in polled]
        return (
            all(parts)
            and sum(map(len, parts)) == partitions
            and set.union(*parts) == set(range(partitions))
        )

    return look


def committed(cluster: Cluster, group: str, topic: str, partition: int = 0) -> int:
    """What the group has committed, as an administrator is told; -1001: nothing."""
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])]
    admin = cluster.admin()  # must outlive its futures
    listed = admin.list_consumer_group_offsets(asked)[group].result(TIMEOUT_S)
    return int(listed.topic_partitions[0].offset)


def describe(cluster: Cluster, group: str) -> Any:
    admin = cluster.admin()  # must outlive its futures
    return admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)


def coordinator(cluster: Cluster, group: str) -> int:
    """The coordinator's broker id; 0 while there is none."""
    try:
        return int(describe(cluster, group).coordinator.id)
    except KafkaException:
        return 0


CHILD = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
    "auto.offset.reset": "earliest", "session.timeout.ms": 6000, "heartbeat.interval.ms": 300,
    "enable.auto.commit": False})
consumer.subscribe([sys.argv[3]], on_assign=lambda _, parts: print(len(parts), flush=True))
while True:
    consumer.poll(0.2)
"""


@contextlib.contextmanager
def process_member(cluster: Cluster, group: str, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A consumer in a process of its own, which can be killed."""
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-c", CHILD]
    process = subprocess.Popen(
        [*command, cluster.bootstrap, group, topic], stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
