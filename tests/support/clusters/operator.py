"""An operator who works on a cluster by hand, beside a run of the harness."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

MORE = 100
"""The records that the leader alone acknowledges."""


class KafkaByHand(Protocol):
    """A cluster as its operator controls it. Brokers are named by their ids."""

    def admin(self) -> AdminClient: ...

    def topics(self) -> set[str]: ...

    def address(self, broker: int) -> str: ...

    def carry_out(self, broker: int, *argv: str) -> object:
        """Run a program in the network of a broker."""

    def kill(self, broker: int) -> None:
        """Kill a broker, which then stays down."""

    def start_again(self, broker: int) -> None: ...


class Operator:
    """An operator who works on the first partition of a run's topic by hand.

    Each question has a new client: one whose controller has died asks it for minutes.
    """

    def __init__(self, kafka: "KafkaByHand") -> None:
        self._kafka = kafka
        wait_until(lambda: bool(kafka.topics()), PATIENCE_S, "the topic of the run", 0.5)
        (self.topic,) = kafka.topics()
        self._partition = TopicPartition(self.topic, 0)

    def wait(self, wanted: Callable[[Any], bool], what: str) -> None:
        """Wait until the partition is as wanted. No answer is no such partition."""

        def there() -> bool:
            with suppress(KafkaException):
                return wanted(self.partition())
            return False

        wait_until(there, PATIENCE_S, what, 0.5)

    def partition(self) -> Any:
        admin = self._kafka.admin()
        asked = admin.describe_topics(TopicCollection([self.topic]), request_timeout=5)
        return asked[self.topic].result().partitions[0]

    def wait_for_records(self, count: int) -> None:
        """Wait until so many more are committed."""
        admin = self._kafka.admin()

        def end() -> int:
            asked = admin.list_offsets({self._partition: OffsetSpec.latest()})
            return int(asked[self._partition].result().offset)

        wanted = end() + count
        wait_until(lambda: end() >= wanted, PATIENCE_S, f"{count} more records", 0.5)

    def elect_uncleanly(self, follower: int) -> None:
        def led(partition: Any) -> bool:
            if leads(partition, follower):
                return True
            admin = self._kafka.admin()
            admin.elect_leaders(ElectionType.UNCLEAN, [self._partition]).result()
            return False

        self.wait(led, "the election")

    @contextmanager
    def without_fetches(self, follower: int, leader: int) -> Iterator[None]:
        """Drop what a follower sends to the port of its leader's clients and followers."""
        address = self._kafka.address(leader)
        hook = "{ type filter hook output priority 0 ; }"
        self._nft(follower, "add", "table", "ip", "by-hand")
        self._nft(follower, "add", "chain", "ip", "by-hand", "out", hook)
        rule = ("ip", "daddr", address, "tcp", "dport", "9092", "drop")
        self._nft(follower, "add", "rule", "ip", "by-hand", "out", *rule)
        try:
            yield
        finally:
            self._nft(follower, "delete", "table", "ip", "by-hand")

    def _nft(self, broker: int, *words: str) -> None:
        self._kafka.carry_out(broker, "nft", *words)


def leads(partition: Any, broker: int) -> bool:
    return partition.leader is not None and partition.leader.id == broker


def lose_by_an_unclean_election(kafka: KafkaByHand) -> tuple[str, int, int]:
    """Lose records of the run that begins: kill a leader that alone is in sync, and let its
    follower lead. Return the topic, the former leader and the follower."""
    operator = Operator(kafka)
    operator.wait_for_records(MORE)
    leader = operator.partition().leader.id
    (follower,) = {one.id for one in operator.partition().replicas} - {leader}
    with operator.without_fetches(follower, leader):
        operator.wait(lambda one: [node.id for node in one.isr] == [leader], "the ISR to shrink")
        operator.wait_for_records(MORE)
        kafka.kill(leader)
        operator.wait(lambda one: not leads(one, leader), "the end of its leadership")
    operator.elect_uncleanly(follower)
    kafka.start_again(leader)
    return operator.topic, leader, follower


def check_found_loss(results: Path, topic: str, leader: int, follower: int) -> Mapping[str, Any]:
    """Check that the results name the loss and its cause, and return their only cell."""
    document = json.loads((results / "verdict.json").read_text())
    (cell,) = document["cells"]
    assert cell["verdict"] == "fail"
    assert cell["lost"] >= MORE
    lines = "".join(path.read_text() for path in results.glob("runs/1/logs/broker-*/*.log"))
    assert f"Leader {topic}-0 " in lines
    assert "__consumer_offsets" not in lines, "nothing of other topics"
    replicas = {path.parent.name for path in results.glob("runs/1/replicas/*/*/*.log")}
    assert replicas == {f"{topic}-0"}, "nothing of other topics"
    (cause,) = (one for one in document["causes"] if one["anomaly"] == "lost")
    assert cause["kind"] == "unclean-election", cause
    assert f"broker-{follower} was elected outside the ISR" in cause["sentence"]
    assert f"broker-{leader} truncated its log" in cause["sentence"]
    return dict(cell)
