"""A real cluster on loopback: ZooKeeper and broker processes that die with the test process."""

import contextlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.clusters.zookeeper import Tree, ZooKeeper
from tests.support.processes.process import TIMEOUT_S as TIMEOUT_S
from tests.support.processes.process import Process, free_port, until

SESSION_TIMEOUT_MS = 2_000
LAG_TIME_MAX_MS = 3_000
"""Short, for tests that wait for a broker to be given up."""

PATIENT = {"zookeeper.session.timeout.ms": "30000", "replica.lag.time.max.ms": "30000"}
"""For tests in which no broker is given up: nor is one, then, on a machine that stalls."""


class Broker(Process):
    """One broker process. ``port`` stays the same over restarts, unless it moves."""

    def __init__(
        self, broker_id: int, directory: Path, zookeeper: str, overrides: Mapping[str, str]
    ) -> None:
        self.id = broker_id
        self.port = free_port()
        self.logs = directory / "logs"
        self._properties = {
            "broker.id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": self.logs,
            "zookeeper.connect": zookeeper,
            "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
            "replica.lag.time.max.ms": LAG_TIME_MAX_MS,
            "replica.fetch.backoff.ms": 200,
            "controlled.shutdown.retry.backoff.ms": 500,
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "1",
        } | dict(overrides)
        directory.mkdir()
        self._path = directory / "server.properties"
        self._write()
        super().__init__(self.command(self._path), directory / "server.log")

    def move(self) -> None:
        """From its next start on it listens at another port."""
        self.port = free_port()
        self._properties["listeners"] = f"PLAINTEXT://127.0.0.1:{self.port}"
        self._write()

    def _write(self) -> None:
        lines = (f"{key}={value}\n" for key, value in self._properties.items())
        self._path.write_text("".join(lines))

    @staticmethod
    def command(properties: Path) -> list[str]:
        """Return the command that starts the broker with its configuration."""
        return [sys.executable, "-P", "-m", "ackproof.broker", "--config", str(properties)]


class Cluster:
    """ZooKeeper and brokers 1 to n. Made by :func:`running_cluster`.

    ``own``: further overrides by broker. ``zookeeper``: where it is not one of its own.
    """

    broker_type = Broker

    def __init__(
        self,
        directory: Path,
        brokers: int,
        overrides: Mapping[str, str],
        own: Mapping[int, Mapping[str, str]] | None = None,
        zookeeper: Tree | None = None,
    ) -> None:
        self.directory = directory
        self._overrides = overrides
        self.zookeeper = zookeeper or ZooKeeper(directory / "zookeeper")
        self.zookeeper_connect = self.zookeeper.connect
        self.brokers: dict[int, Broker] = {}
        for number in range(1, brokers + 1):
            self.add(number, own.get(number) if own else None)

    def add(self, number: int, own: Mapping[str, str] | None = None) -> Broker:
        """One more broker, not started yet."""
        overrides = {**self._overrides, **(own or {})}
        directory = self.directory / f"broker-{number}"
        broker = self.broker_type(number, directory, self.zookeeper_connect, overrides)
        self.brokers[number] = broker
        return self.brokers[number]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    def start(self) -> None:
        self.zookeeper.start()
        for broker in self.brokers.values():
            broker.start()
        self.wait_until_complete()

    def wait_until_complete(self, but: Collection[int] = ()) -> None:
        """Waits until all brokers but these know each other, at their present addresses, and none
        else, and one controller, who is one of them."""
        until("every broker knows every other", lambda: self._complete(set(but)))

    def controller(self) -> Broker:
        """The controller, as soon as all brokers that are awake name the same and it is one of
        them: one that is dead or stopped stays in office until its session ends."""
        awake = {broker.id for broker in self.awake}
        found: list[int] = []

        def one_is_named() -> bool:
            found[:] = {seen.controller_id for seen in self._views()}
            return len(found) == 1 and found[0] in awake

        until("all name one controller", one_is_named)
        return self.brokers[found[0]]

    @property
    def awake(self) -> list[Broker]:
        """The brokers that run and are not stopped."""
        return [broker for broker in self.brokers.values() if broker.awake]

    def kill(self) -> None:
        for process in (*self.brokers.values(), self.zookeeper):
            process.kill()

    def topic(self, topic: str) -> Any:
        """The topic's metadata as soon as all brokers that are awake show the same of it; None:
        they show none. Brokers hear of a change one after the other, so that a test that asks one
        of them knows nothing about the next, whom its client may ask."""
        found: list[Any] = []

        def all_agree() -> bool:
            found[:] = [seen.topics.get(topic) for seen in self._views()]
            return all(_shape(other) == _shape(found[0]) for other in found)

        until(f"all brokers show the same of {topic}", all_agree)
        return found[0] if found else None

    def _views(self) -> list[Any]:
        """The metadata of each broker that is awake; waits for those that are only starting."""
        views: list[Any] = []

        def all_answer() -> bool:
            with contextlib.suppress(KafkaException):
                views[:] = [self.metadata(broker) for broker in self.awake]
                return True
            return False

        until("every broker answers", all_answer)
        return views

    def metadata(self, broker: Broker) -> Any:
        return self.admin(broker).list_topics(timeout=5)

    def admin(self, broker: Broker | None = None) -> AdminClient:
        bootstrap = f"127.0.0.1:{broker.port}" if broker else self.bootstrap
        return AdminClient(
            {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 200, "log_level": 0}
        )

    def leader(self, topic: str, partition: int = 0) -> int:
        """The partition's leader, as all say; -1: none. It may not have been told itself yet."""
        metadata = self.topic(topic)
        if metadata is None or partition not in metadata.partitions:
            return -1
        return int(metadata.partitions[partition].leader)

    def isr(self, topic: str, partition: int = 0) -> set[int]:
        metadata = self.topic(topic)
        if metadata is None or partition not in metadata.partitions:
            return set()
        return set(metadata.partitions[partition].isrs)

    def _complete(self, but: set[int]) -> bool:
        expected = {number: b.port for number, b in self.brokers.items() if number not in but}
        controllers: set[int] = set()
        for broker in (self.brokers[number] for number in expected):
            assert broker.running, broker.log.read_text()
            try:
                known = self.metadata(broker)
            except KafkaException:  # not there yet
                return False
            if {number: b.port for number, b in known.brokers.items()} != expected:
                return False
            controllers.add(known.controller_id)
        return not expected or (len(controllers) == 1 and controllers <= expected.keys())


def _shape(topic: Any) -> Any:
    """Return the compared parts of a topic's metadata."""
    return topic and {
        number: (partition.leader, partition.replicas, set(partition.isrs))
        for number, partition in topic.partitions.items()
    }


@contextlib.contextmanager
def running_cluster(
    directory: Path,
    brokers: int = 3,
    overrides: Mapping[str, str] | None = None,
    own: Mapping[int, Mapping[str, str]] | None = None,
    start: Callable[[Cluster], None] = Cluster.start,
    own_zookeeper: bool = False,
) -> Iterator[Cluster]:
    """A cluster that serves; all of it killed at the end, with its logs shown if a test failed.
    ``own_zookeeper``: for tests that stop it, or ask it what it does."""
    tree = None if own_zookeeper else Tree()
    cluster = Cluster(directory, brokers, overrides or {}, own, tree)
    _running.append(cluster)
    try:
        start(cluster)
        yield cluster
    except BaseException:
        for title, log in _logs(cluster):
            print(f"--- {title}\n{log}")  # noqa: T201 - pytest shows it
        raise
    finally:
        _running.remove(cluster)
        cluster.kill()


_running: list[Cluster] = []


def logs_of_those_that_run() -> Iterator[tuple[str, str]]:
    """For the report of a test that failed with a cluster that it shares, which goes on."""
    for cluster in _running:
        yield from _logs(cluster)


def _logs(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """The end of each broker's, with a title."""
    for broker in cluster.brokers.values():
        yield f"broker {broker.id}", _tail(broker.log)


def _tail(path: Path, lines: int = 60) -> str:
    return "\n".join(path.read_text().splitlines()[-lines:]) if path.exists() else ""
