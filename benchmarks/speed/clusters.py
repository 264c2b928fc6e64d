"""The two clusters that are compared: ZooKeeper and three brokers each, on loopback.

Only the broker differs. The same are ZooKeeper's version and settings, the server properties, the
machine. Neither flushes to disk by time or count (Kafka's default), so the cost of an
acknowledgement by replication is compared. The JVM gets the options of Kafka's own start script
with half the heap, because three of them share a small machine.
"""

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic
from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from benchmarks.speed import load
from tests.support.clusters.apache_kafka import jars
from tests.support.clusters.bundled import Broker, Cluster, until

BROKERS = 3
HEAP = "512m"
OVERRIDES = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "30000",
    "default.replication.factor": str(BROKERS),
    "min.insync.replicas": "2",
}
JVM = (
    f"-Xms{HEAP}",
    f"-Xmx{HEAP}",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
LOGGING = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""

OURS = "ours"
KAFKA = "kafka"


class ApacheKafkaBroker(Broker):
    """A broker of Apache Kafka."""

    @staticmethod
    def command(properties: Path) -> list[str]:
        logging = properties.with_name("log4j.properties")
        logging.write_text(LOGGING)
        options = (*JVM, f"-Dlog4j.configuration=file:{logging}", "-cp", str(jars() / "*"))
        return ["java", *options, "kafka.Kafka", str(properties)]


class ApacheKafka(Cluster):
    """Apache Kafka with ZooKeeper."""

    broker_type = ApacheKafkaBroker


SUBJECTS = {OURS: Cluster, KAFKA: ApacheKafka}


@contextlib.contextmanager
def fresh(subject: str) -> Iterator[Cluster]:
    """Start nothing yet, but yield an empty cluster for the caller to start, and remove it at the
    end."""
    with tempfile.TemporaryDirectory(prefix="ackproof-bench-") as directory:
        cluster = SUBJECTS[subject](Path(directory), BROKERS, OVERRIDES)
        try:
            yield cluster
        finally:
            cluster.kill()


@contextlib.contextmanager
def topic(cluster: Cluster, name: str, partitions: int, leader: int | None = None) -> Iterator[str]:
    """Yield a topic on all brokers, with all replicas in sync, and delete it at the end.

    Args:
        cluster: The cluster.
        name: The name of the topic.
        partitions: The number of partitions.
        leader: The preferred leader of its partitions; None spreads them.
    """
    admin = cluster.admin()
    if leader is None:
        new = NewTopic(name, partitions, BROKERS)
    else:
        replicas = [leader, *(number for number in cluster.brokers if number != leader)]
        new = NewTopic(name, partitions, replica_assignment=[replicas] * partitions)
    admin.create_topics([new])[name].result(60)
    until(f"{name} is in sync everywhere", in_sync(cluster, name, partitions))
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(60)
        until(f"{name} is gone", lambda: name not in admin.list_topics(timeout=10).topics)


@contextlib.contextmanager
def registration_removed(cluster: Cluster, broker: int) -> Iterator[Callable[[], float]]:
    """Yield a function that returns the time (``perf_counter``) at which ZooKeeper removed the
    broker's registration, once it has."""
    client = KazooClient(cluster.zookeeper_connect)
    removed: list[float] = []
    gone = threading.Event()

    def changed(_event: WatchedEvent) -> None:
        removed.append(perf_counter())
        gone.set()

    def when() -> float:
        if not gone.wait(load.TIMEOUT_S):
            raise load.LoadFailed(f"broker {broker} is registered still")
        return removed[0]

    client.start()
    try:
        client.exists(f"/brokers/ids/{broker}", watch=changed)
        yield when
    finally:
        client.stop()
        client.close()


def in_sync(cluster: Cluster, name: str, partitions: int) -> Callable[[], bool]:
    """Return a function that returns whether every broker knows every partition, with a leader and
    a full ISR."""

    def look() -> bool:
        for broker in cluster.brokers.values():
            try:
                found = cluster.metadata(broker).topics.get(name)
            except KafkaException:  # it has not started yet
                return False
            if found is None or len(found.partitions) != partitions:
                return False
            if any(p.leader < 0 or len(p.isrs) != BROKERS for p in found.partitions.values()):
                return False
        return True

    return look
