"""Records that are written before faults strike a real cluster, and are all there afterwards."""

from dataclasses import dataclass

from confluent_kafka.admin import AdminClient
from kafka_clients import create_topic, produce, read_all
from striking import Striker

TOPIC = "orders"
PARTITIONS = (0, 1)
VALUES = [b"%d" % number for number in range(200)]
"""In each partition."""


@dataclass(frozen=True)
class Known:
    """A system as ``kafka_clients`` knows clusters."""

    bootstrap: str

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def isr(self, topic: str, partition: int) -> set[int]:
        found = self.admin().list_topics(topic, timeout=10).topics[topic].partitions
        return set(found[partition].isrs) if partition in found else set()


def with_records(cluster: Striker) -> Known:
    known = Known(cluster.system.bootstrap_servers)
    create_topic(known, TOPIC, partitions=len(PARTITIONS), replication_factor=3)
    for partition in PARTITIONS:
        assert set(produce(known, TOPIC, VALUES, partition).values()) == {None}
    return known


def nothing_is_lost(cluster: Striker, known: Known) -> None:
    """Nor is anything there twice, or out of order; and all servers run."""
    cluster.await_whole(TOPIC)
    assert cluster.all_run()
    for partition in PARTITIONS:
        assert read_all(known, TOPIC, partition) == VALUES
