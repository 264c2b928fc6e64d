"""confluent-kafka's consumers in groups, as tests use them."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from ackproof.workloads.consuming.polling import leave
from tests.support.clusters.bundled import TIMEOUT_S, Cluster, until

OFFSETS_TOPIC = "__consumer_offsets"
OVERRIDES = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "300",
    "auto.leader.rebalance.enable": "false",  # coordinators move only when a test moves them
}
SESSION_MS = 60_000
"""The session timeout of members that are not killed. It is long, so that none expires on a machine
that stalls."""
KILLED_SESSION_MS = 6_000
"""The session timeout of members that are killed, the least that brokers accept."""


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
        self._is_static = "group.instance.id" in settings
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
        leave(self.consumer, is_static=self._is_static)


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


NO_COORDINATOR_YET = {
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
}
"""What an administrator hears while another broker becomes the coordinator."""


def ask_coordinator(cluster: Cluster, question: Callable[[AdminClient], Any]) -> Any:
    """The result of a question (client in, future out), asked again while there is no
    coordinator."""
    answers: list[Any] = []

    def answered() -> bool:
        admin = cluster.admin()  # must outlive its futures
        try:
            answers.append(question(admin).result(TIMEOUT_S))
        except KafkaException as error:
            if error.args[0].code() not in NO_COORDINATOR_YET:
                raise
        return bool(answers)

    until("a coordinator answers", answered)
    return answers[0]


def committed(cluster: Cluster, group: str, topic: str, partition: int = 0) -> int:
    """Return the offset that the group has committed, as an administrator receives it; -1001:
    none."""
    asked = [ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])]
    listed = ask_coordinator(cluster, lambda c: c.list_consumer_group_offsets(asked)[group])
    return int(listed.topic_partitions[0].offset)


def describe(cluster: Cluster, group: str) -> Any:
    return ask_coordinator(cluster, lambda c: c.describe_consumer_groups([group])[group])


def coordinator(cluster: Cluster, group: str) -> int:
    """The coordinator's broker id."""
    return int(describe(cluster, group).coordinator.id)


CHILD = f"""
import sys
from confluent_kafka import Consumer
consumer = Consumer({{"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
    "auto.offset.reset": "earliest", "session.timeout.ms": {KILLED_SESSION_MS},
    "heartbeat.interval.ms": 300, "enable.auto.commit": False}})
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
