"""A real cluster on loopback: ZooKeeper and broker processes that die with the test process."""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pyspark
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from infra.waiting import wait_until

TIMEOUT_S = 60
TICK_MS = 500
SESSION_TIMEOUT_MS = 2_000
LAG_TIME_MAX_MS = 3_000


def until(what: str, condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Waits for ``condition`` to be true; fails naming ``what`` did not happen."""
    wait_until(lambda: bool(condition()), timeout_s, what, interval=0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Process:
    """A program with its output in a file; the kernel kills it when the test process dies."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        self._command = ["setpriv", "--pdeathsig", "KILL", *command]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def limit_file_size(self, max_bytes: int) -> None:
        """From now on every file of the running program is full at ``max_bytes`` (EFBIG)."""
        assert self._process is not None
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (max_bytes, max_bytes))

    def limit_growth(self, max_bytes: int) -> None:
        """From now on the running program gets no more memory than this beyond what it has."""
        has = psutil.Process(self.pid).memory_info().vms
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_AS)
        resource.prlimit(self.pid, resource.RLIMIT_AS, (has + max_bytes, hard))

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL, and gone when this returns; harmless when not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Broker(Process):
    """One broker process. ``port`` stays the same over restarts."""

    def __init__(
        self, broker_id: int, directory: Path, zookeeper: str, overrides: Mapping[str, str]
    ) -> None:
        self.id = broker_id
        self.port = free_port()
        self.logs = directory / "logs"
        properties = {
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
        path = directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        super().__init__(self.command(path), directory / "server.log")

    @staticmethod
    def command(properties: Path) -> list[str]:
        """What starts it, given its configuration."""
        return [sys.executable, "-m", "broker", "--config", str(properties)]


class Cluster:
    """ZooKeeper and brokers 1 to n. Made by :func:`running_cluster`.

    ``own``: further overrides by broker.
    """

    broker_type = Broker

    def __init__(
        self,
        directory: Path,
        brokers: int,
        overrides: Mapping[str, str],
        own: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        self.directory = directory
        self._zookeeper_port = free_port()
        self._overrides = overrides
        self.zookeeper_connect = f"127.0.0.1:{self._zookeeper_port}"
        command = _zookeeper_command(directory, self._zookeeper_port)
        self.zookeeper = Process(command, directory / "zookeeper.log")
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
        self.start_zookeeper()
        for broker in self.brokers.values():
            broker.start()
        self.wait_until_complete()

    def start_zookeeper(self) -> None:
        """Returns when it serves: connections made earlier are sometimes never answered, and
        time out with their session."""
        self.zookeeper.start()
        until("ZooKeeper listens", lambda: listens(self._zookeeper_port))
        client = KazooClient(self.zookeeper_connect, timeout=2, connection_retry={"max_tries": -1})
        client.start(TIMEOUT_S)
        client.stop()
        client.close()

    def wait_until_complete(self, but: Collection[int] = ()) -> None:
        """Waits until all brokers but these know each other, and nobody else."""
        until("every broker knows every other", lambda: self._complete(set(but)))

    def kill(self) -> None:
        for process in (*self.brokers.values(), self.zookeeper):
            process.kill()

    def topic(self, topic: str) -> Any:
        """The topic's metadata from whoever answers, or None."""
        for broker in self.brokers.values():
            if broker.running:
                with contextlib.suppress(Exception):
                    return self.metadata(broker).topics.get(topic)
        return None

    def metadata(self, broker: Broker) -> Any:
        return self.admin(broker).list_topics(timeout=2)

    def admin(self, broker: Broker | None = None) -> AdminClient:
        bootstrap = f"127.0.0.1:{broker.port}" if broker else self.bootstrap
        return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def leader(self, topic: str, partition: int = 0) -> int:
        """The partition's leader as somebody says; -1: none."""
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
        expected = self.brokers.keys() - but
        for broker in (self.brokers[number] for number in expected):
            assert broker.running, broker.log.read_text()
            try:
                known = self.metadata(broker).brokers
            except Exception:  # noqa: BLE001 - not there yet
                return False
            if set(known) != expected:
                return False
        return True


@contextlib.contextmanager
def running_cluster(
    directory: Path,
    brokers: int = 3,
    overrides: Mapping[str, str] | None = None,
    own: Mapping[int, Mapping[str, str]] | None = None,
    start: Callable[[Cluster], None] = Cluster.start,
) -> Iterator[Cluster]:
    """A cluster that serves; all of it killed at the end, with its logs shown if a test failed."""
    cluster = Cluster(directory, brokers, overrides or {}, own)
    try:
        start(cluster)
        yield cluster
    except BaseException:
        for broker in cluster.brokers.values():
            print(f"--- broker {broker.id}\n{_tail(broker.log)}")  # noqa: T201 - pytest shows it
        raise
    finally:
        with contextlib.suppress(ProcessLookupError):
            cluster.zookeeper.signal(signal.SIGCONT)
        cluster.kill()


def _tail(path: Path, lines: int = 60) -> str:
    return "\n".join(path.read_text().splitlines()[-lines:]) if path.exists() else ""


def _zookeeper_command(directory: Path, port: int) -> list[str]:
    config = directory / "zoo.cfg"
    config.write_text(
        f"tickTime={TICK_MS}\ndataDir={directory / 'zookeeper'}\nclientPort={port}\n"
        "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
    )
    java = shutil.which("java")
    assert java, "java is needed for ZooKeeper"
    jars = os.fspath(Path(pyspark.__file__).parent / "jars" / "*")
    main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    return [java, "-Xmx128m", "-cp", jars, main, os.fspath(config)]
