"""A loss planted by hand on a cluster of an operator: it is found with its root cause, by the
metadata log, the replicas' logs and the brokers' processes."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from ackproof.infra.machine.waiting import wait_until
from tests.support.clusters.kafka_on_hosts import KafkaOnHosts, kafka_on_hosts
from tests.support.processes.deadlines import PATIENCE_S, TEST_S

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.kafka,
    pytest.mark.ssh,
    pytest.mark.timeout(2 * TEST_S),
]

BROKEN = 1
SECTIONS = {
    "cells": {"acks": "all", "min.insync.replicas": 1, "replication.factor": 2, "partitions": 1},
    "schedule": {"warmup": "2s", "gap": "1s", "tail": "2m", "order": "listed", "settle": "1m"},
    "limits": {"ready": "5m", "recover": "5m", "teardown": "2m"},
    "workload": {"rate": 50},
    "faults": [],
}
FORMERLY_UNCHECKED = (
    *("replicas-agree", "committed-stays", "deposed-leaders-stop", "min-isr-kept"),
    *("one-leader-an-epoch", "epochs-rise", "servers-stay-up"),
)
"""The guarantees that clients alone cannot check."""
MORE = 100
"""The records that the leader alone acknowledges."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with kafka_on_hosts(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


class Operator:
    """An operator who works on the first partition of a run's topic by hand.

    Each question has a new client: one whose controller has died asks it for minutes.
    """

    def __init__(self, kafka: KafkaOnHosts) -> None:
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

    def unit(self, broker: int, *words: str) -> None:
        done = self._kafka.hosts.run(broker - 1, "systemctl", *words, "kafka")
        assert done.status == 0, done.output

    @contextmanager
    def without_fetches(self, follower: int, leader: int) -> Iterator[None]:
        """Drop what a follower sends to the port of its leader's clients and followers."""
        address = self._kafka.hosts.addresses[leader - 1]
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
        done = self._kafka.hosts.run(broker - 1, "nft", *words)
        assert done.status == 0, done.output


def leads(partition: Any, broker: int) -> bool:
    return partition.leader is not None and partition.leader.id == broker


def test_records_lost_by_an_unclean_election_are_found(
    kafka: KafkaOnHosts, ackproof, tmp_path
) -> None:
    ackproof.environ["XDG_STATE_HOME"] = str(tmp_path / "known")
    cluster = kafka.section(controllers={"quorum.voters": kafka.voters})
    ackproof.vary({**SECTIONS, "cluster": cluster})
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    operator = Operator(kafka)
    operator.wait_for_records(MORE)
    leader = operator.partition().leader.id
    (follower,) = {one.id for one in operator.partition().replicas} - {leader}
    with operator.without_fetches(follower, leader):
        operator.wait(lambda one: [node.id for node in one.isr] == [leader], "the ISR to shrink")
        operator.wait_for_records(MORE)
        operator.unit(leader, "kill", "--signal=SIGKILL")
        operator.wait(lambda one: not leads(one, leader), "the end of its leadership")
    operator.elect_uncleanly(follower)
    operator.unit(leader, "start")

    assert running.wait(PATIENCE_S) == BROKEN, ackproof.output.read_text()
    results = ackproof.directory / "results"
    document = json.loads((results / "verdict.json").read_text())
    (cell,) = document["cells"]
    assert cell["verdict"] == "fail"
    assert cell["lost"] >= MORE
    held = {one["name"]: one["held"] for one in cell["guarantees"]}
    assert held["no-acked-record-lost"] is False
    assert held["servers-stay-up"] is False, "the operator killed one"
    assert held["replicas-agree"] is True
    assert None not in {held[name] for name in FORMERLY_UNCHECKED}, held
    lines = "".join(path.read_text() for path in results.glob("runs/1/logs/broker-*/*.log"))
    assert f"Leader {operator.topic}-0 " in lines
    assert "__consumer_offsets" not in lines, "nothing of other topics"
    replicas = {path.parent.name for path in results.glob("runs/1/replicas/*/*/*.log")}
    assert replicas == {f"{operator.topic}-0"}, "nothing of other topics"
    (cause,) = (one for one in document["causes"] if one["anomaly"] == "lost")
    assert cause["kind"] == "unclean-election", cause
    assert f"broker-{follower} was elected outside the ISR" in cause["sentence"]
    assert f"broker-{leader} truncated its log" in cause["sentence"]
