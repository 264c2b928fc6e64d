"""A small cluster that exists in memory: the interfaces of infra, really implemented.

Processes change state when signalled, links drop when cut, and the view follows from both, so
that what a fault proves can be true or false.
"""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from infra.interface import (
    Capability,
    ClockReading,
    ClusterView,
    Command,
    Node,
    PartitionView,
    Process,
    ProcessState,
    Server,
    Software,
    ViewUnavailable,
)
from nemesis.interface import Cluster


@dataclass
class MemoryProcess:
    name: str
    pid: int = 1
    current: ProcessState = ProcessState.RUNNING
    code: int | None = None
    deaf: bool = False
    """Ignores signals, as a fault that does not bite."""

    def state(self) -> ProcessState:
        return self.current

    def exit_code(self) -> int | None:
        return self.code

    def signal(self, signal_number: int) -> None:
        if self.deaf:
            return
        if self.current is ProcessState.EXITED:
            raise ProcessLookupError(self.name)
        if signal_number == signal.SIGKILL:
            self.current, self.code = ProcessState.EXITED, -signal_number
        elif signal_number == signal.SIGSTOP:
            self.current = ProcessState.STOPPED
        elif signal_number == signal.SIGCONT:
            self.current = ProcessState.RUNNING

    def wait(self, timeout: float | None = None) -> int:
        if self.code is None:
            raise TimeoutError(f"{self.name} after {timeout} s")
        return self.code


@dataclass
class MemoryNode:
    name: str
    address: str
    reading: ClockReading = field(default_factory=lambda: ClockReading(offset_ns=0, bound_ns=0))

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath("/none")

    @property
    def log_directory(self) -> PurePosixPath:
        return self.directory / "logs"

    @property
    def software(self) -> Software:
        return Software(python="python", java="java", zookeeper_class_path="jars")

    def start(self, command: Command) -> Process:
        return MemoryProcess(command.name)

    def write(self, path: PurePosixPath, content: bytes) -> None:  # noqa: ARG002
        raise FileNotFoundError(path)

    def read(self, path: PurePosixPath) -> bytes:
        raise FileNotFoundError(path)

    def fetch(self, source: PurePosixPath, target: Path) -> None:  # noqa: ARG002
        raise FileNotFoundError(source)

    def share(self, directory: Path) -> PurePosixPath:
        return PurePosixPath(directory)

    def clock(self) -> ClockReading:
        return self.reading

    def sync(self) -> None: ...


@dataclass
class MemoryServer:
    name: str
    id: int
    node: Node
    port: int
    process: MemoryProcess
    starts: int = 0

    def start(self) -> MemoryProcess:
        self.starts += 1
        self.process = MemoryProcess(self.name)
        return self.process


@dataclass
class MemoryBackend:
    name: str = "memory"
    capabilities: frozenset[Capability] = frozenset({Capability.SIGNALS, Capability.CUT_LINKS})
    links_cut: set[tuple[str, str]] = field(default_factory=set)
    leaky: bool = False
    """Cuts nothing, as a fault that does not bite."""

    def node(self, name: str) -> Node:
        return MemoryNode(name, name)

    def cut(self, source: Node, target: Node) -> None:
        if not self.leaky:
            self.links_cut.add((source.name, target.name))

    def heal(self, source: Node, target: Node) -> None:
        self.links_cut.discard((source.name, target.name))

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        both = {(source.name, target.name), (target.name, source.name)}
        return port > 0 and timeout > 0 and not both & self.links_cut

    def close(self) -> None:
        self.links_cut.clear()


@dataclass
class MemorySystem:
    """The view follows from the processes and the links: a broker is registered while it runs and
    no link to ZooKeeper is cut; leaders are the first registered replica."""

    backend: MemoryBackend
    brokers: Sequence[MemoryServer]
    zookeepers: Sequence[MemoryServer]
    topics: Mapping[str, int]
    name: str = "memory"
    bootstrap_servers: str = ""
    zookeeper_connect: str = ""
    zookeeper_session_timeout_ms: int = 1000
    replica_lag_time_max_ms: int = 1000
    sessions: dict[int, int] = field(default_factory=dict)

    def deploy(self) -> None: ...

    def close(self) -> None: ...

    def replica_directories(self, broker: Server) -> PurePosixPath:
        return broker.node.directory

    def view(self) -> ClusterView:
        if any(server.process.state() is not ProcessState.RUNNING for server in self.zookeepers):
            raise ViewUnavailable("no answer")
        live = [server.id for server in self.brokers if self._registered(server)]
        partitions = {}
        for topic, count in self.topics.items():
            for number in range(count):
                replicas = [b.id for b in self.brokers[number % 3 :]] + [
                    b.id for b in self.brokers[: number % 3]
                ]
                isr = tuple(broker for broker in replicas if broker in live)
                partitions[topic, number] = PartitionView(
                    topic=topic,
                    partition=number,
                    leader=isr[0] if isr else -1,
                    isr=isr,
                    replicas=tuple(replicas),
                    leader_epoch=0,
                    controller_epoch=1,
                )
        return ClusterView(
            brokers={broker: self.sessions.get(broker, broker) for broker in live},
            controller=live[0] if live else None,
            controller_epoch=1,
            partitions=partitions,
        )

    def _registered(self, server: MemoryServer) -> bool:
        return server.process.state() is ProcessState.RUNNING and all(
            self.backend.reaches(server.node, zookeeper.node, zookeeper.port)
            for zookeeper in self.zookeepers
        )


def _server(name: str, number: int, port: int) -> MemoryServer:
    full = f"{name}-{number}"
    return MemoryServer(full, number, MemoryNode(full, full), port, MemoryProcess(full))


@dataclass
class Memory:
    """The parts of the cluster under their own types."""

    backend: MemoryBackend
    system: MemorySystem
    cluster: Cluster


def memory_cluster() -> Memory:
    backend = MemoryBackend()
    system = MemorySystem(
        backend=backend,
        brokers=[_server("broker", number, 9092) for number in (1, 2, 3)],
        zookeepers=[_server("zookeeper", 1, 2181)],
        topics={"orders": 3},
    )
    clients = [MemoryNode("client-1", "client-1")]
    return Memory(backend, system, Cluster(backend=backend, system=system, clients=clients))
