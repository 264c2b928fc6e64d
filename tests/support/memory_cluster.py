"""A small cluster that exists in memory: the interfaces of infra, really implemented.

Processes change state when signalled, links drop when cut, and the view follows from both, so
that what a fault proves can be true or false.
"""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from memory_admin import MemoryAdmin
from memory_clocks import MemoryClock
from memory_disks import MemoryDisk, MemoryFiles
from memory_ensemble import MemoryEnsemble
from memory_links import MemoryLinks

from ackproof.infra.artifacts import Artifact
from ackproof.infra.clocks import ClockReading, FakeClock
from ackproof.infra.distant import Distant
from ackproof.infra.interface import (
    Capability,
    ClusterView,
    Command,
    InfraError,
    Node,
    PartitionView,
    Process,
    ProcessState,
    Server,
    Software,
    ViewUnavailable,
    ZooKeeperCounters,
)
from ackproof.infra.scarcity import Scarce
from ackproof.infra.storage import Damage
from ackproof.nemesis.interface import Cluster
from ackproof.nemesis.workload import WorkloadClient

_CONTROLLER_PORT = 9093


@dataclass
class MemoryProcess:
    name: str
    pid: int = 1
    current: ProcessState = ProcessState.RUNNING
    code: int | None = None
    deaf: bool = False
    """Ignores signals, as a fault that does not bite."""
    stubborn: bool = False
    """Does not end when it is asked to."""
    signals: frozenset[int] = frozenset()

    def state(self) -> ProcessState:
        return self.current

    def exit_code(self) -> int | None:
        return self.code

    def signal(self, signal_number: int) -> None:
        self.signals |= {signal_number}
        if self.deaf:
            return
        if self.current is ProcessState.EXITED:
            raise ProcessLookupError(self.name)
        if signal_number == signal.SIGKILL:
            self.current, self.code = ProcessState.EXITED, -signal_number
        elif signal_number == signal.SIGTERM and not self.stubborn:
            self.current, self.code = ProcessState.EXITED, 0
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
    disks: list[MemoryDisk] = field(default_factory=list)
    logs: MemoryFiles = field(default_factory=MemoryFiles)
    files: int = 1
    """What its server has on its disk."""
    full: bool = False
    """Nothing can be removed, as a fault that does not bite."""
    limits: dict[Scarce, int] = field(default_factory=dict)
    log: str | None = None
    """What its server has logged, where that can be fetched."""
    content: bool = False
    """Whatever the limit, it needs no more, as with a fault that does not bite."""

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath("/none")

    @property
    def log_directory(self) -> PurePosixPath:
        return self.directory / "logs"

    @property
    def software(self) -> Software:
        return Software(python="python", java="java", zookeeper_class_path="jars")

    def where(self, artifact: Artifact) -> PurePosixPath:
        return PurePosixPath(artifact.path)

    def start(self, command: Command) -> Process:
        return MemoryProcess(command.name)

    def write(self, path: PurePosixPath, content: bytes) -> None:  # noqa: ARG002
        raise FileNotFoundError(path)

    def read(self, path: PurePosixPath) -> bytes:
        raise FileNotFoundError(path)

    def empty(self, directory: PurePosixPath) -> None:  # noqa: ARG002
        self.files = self.files if self.full else 0

    def entries(self, directory: PurePosixPath) -> int:  # noqa: ARG002
        return self.files

    def limit(self, what: Scarce, amount: int) -> None:
        self.limits[what] = amount

    def lift(self, what: Scarce) -> None:
        self.limits.pop(what, None)

    def counted(self, what: Scarce) -> Mapping[str, int]:
        if what not in self.limits:
            return {}
        met = 0 if self.content else 1
        if what is Scarce.CPU:
            return {"throttled": met, "throttled_us": 1000 * met}
        return {"hits": met, "killed": 0}

    def fetch(self, source: PurePosixPath, target: Path) -> None:
        if self.log is None or source != self.log_directory:
            raise FileNotFoundError(source)
        target.mkdir(parents=True, exist_ok=True)
        (target / f"{self.name}.log").write_text(self.log)

    def share(self, directory: Path) -> PurePosixPath:
        return PurePosixPath(directory)

    def disk(self, name: str, megabytes: int) -> MemoryDisk:  # noqa: ARG002
        self.disks.append(MemoryDisk())
        return self.disks[-1]

    def flip_bit(self, directory: PurePosixPath, kind: str, draw: float) -> None:  # noqa: ARG002
        self.logs.flip_bit(kind)

    def flip_bits(self, directory: PurePosixPath, kind: str, draw: float) -> None:  # noqa: ARG002
        self.logs.flip_bit(kind)

    def remove_files(self, directory: PurePosixPath, name: str) -> None:  # noqa: ARG002
        self.logs.remove_files(name)

    def damage(self, directory: PurePosixPath) -> Sequence[Damage]:  # noqa: ARG002
        return [*self.logs.damage, *(one for disk in self.disks for one in disk.damage)]

    def fake_clock(self) -> FakeClock:
        raise InfraError(f"{self.name} runs no programs")

    def clock(self) -> ClockReading:
        return self.reading

    def sync(self) -> None: ...


@dataclass
class MemoryServer:
    name: str
    id: int
    node: MemoryNode
    port: int
    process: MemoryProcess
    starts: int = 0
    peer_ports: tuple[int, ...] = ()
    distant: Distant | None = None
    stillborn: bool = False
    """Ends as soon as it is started."""
    clock: MemoryClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = MemoryClock(lambda: self.process.state() is ProcessState.RUNNING)

    @property
    def disks(self) -> Sequence[MemoryDisk]:
        return self.node.disks

    def start(self) -> MemoryProcess:
        self.starts += 1
        self.node.files += 1
        self.process = MemoryProcess(self.name)
        if self.stillborn:
            self.process.current, self.process.code = ProcessState.EXITED, 1
        return self.process


@dataclass
class MemoryBackend:
    name: str = "memory"
    capabilities: frozenset[Capability] = frozenset(Capability)
    links_cut: set[tuple[str, str]] = field(default_factory=set)
    leaky: bool = False
    """Cuts nothing, as a fault that does not bite."""
    clings: bool = False
    """Removes no node."""
    servers: dict[str, "MemoryServer"] = field(default_factory=dict)
    """By the name of their nodes: where nobody listens, nobody is reached."""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Every ``cut`` and ``heal``, with source and target."""
    links: MemoryLinks = field(init=False)

    def __post_init__(self) -> None:
        self.links = MemoryLinks(self)

    def node(self, name: str) -> Node:
        return MemoryNode(name, name)

    def remove(self, name: str) -> None:
        if not self.clings:
            self.servers.pop(name, None)

    def remains(self, name: str) -> Sequence[str]:
        return [name] if name in self.servers else []

    def cut(self, source: Node, target: Node) -> None:
        self.calls.append(("cut", source.name, target.name))
        if not self.leaky:
            self.links_cut.add((source.name, target.name))

    def heal(self, source: Node, target: Node) -> None:
        self.calls.append(("heal", source.name, target.name))
        self.links_cut.discard((source.name, target.name))

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        server = self.servers.get(target.name)
        listens = server is not None and server.process.state() is not ProcessState.EXITED
        return self.links.lets_through(source, target, port) and listens and timeout > 0

    def close(self) -> None:
        self.links_cut.clear()


@dataclass
class MemoryAdded:
    """Brokers that join and leave."""

    backend: MemoryBackend
    next_id: int
    there: list[MemoryServer] = field(default_factory=list)
    full: bool = False
    """There is no node for one."""
    stillborn: bool = False
    """Those that join end at once."""

    def add(self, number: int) -> MemoryServer:
        if self.full:
            raise InfraError("no node is left")
        name = f"broker-{number}"
        if name not in self.backend.servers:
            joining = _server("broker", number, 9092)
            joining.process.current = ProcessState.EXITED
            joining.stillborn = self.stillborn
            joining.node.log = "hello"
            self.backend.servers[name] = joining
            self.there.append(joining)
            self.next_id = max(self.next_id, number + 1)
        return self.backend.servers[name]

    def remove(self, number: int) -> None:
        self.backend.remove(f"broker-{number}")
        self.there = [one for one in self.there if one.id != number]


@dataclass
class MemorySystem:
    """The view follows from the processes and the links: ZooKeeper answers while a majority of it
    runs and its members hear each other; a broker is registered while it runs and reaches a
    ZooKeeper that runs (of those that are brokers, one that hears a majority); leaders are the
    first registered replica, and stay what they were while there is no broker to be the
    controller."""

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
    """Of brokers whose session is not the one that they began with their process."""
    replicas: Mapping[int, list[int]] = field(default_factory=dict)
    """By partition, where it is not all brokers."""
    written: Mapping[tuple[str, int], PartitionView] = field(default_factory=dict)
    """What the last controller wrote."""
    lingering: set[int] = field(default_factory=set)
    """Brokers whose first session has not expired, whatever became of them."""
    zxid: int = 0
    """Of the last transaction; every look is one."""
    believes: MemoryServer | None = None
    """Says that it leads ZooKeeper, when nobody does."""
    ensemble: MemoryEnsemble = field(init=False)
    admin: MemoryAdmin = field(init=False)
    added: MemoryAdded = field(init=False)

    def __post_init__(self) -> None:
        self.ensemble = MemoryEnsemble(self.zookeepers, self._quorum, self._own_sessions)
        self.admin = MemoryAdmin(self.view)
        self.added = MemoryAdded(self.backend, len(self.brokers) + 1)

    @property
    def combined(self) -> bool:
        return any(server is self.brokers[0] for server in self.zookeepers)

    @property
    def everybody(self) -> Sequence[MemoryServer]:
        return [*self.brokers, *self.added.there]

    def deploy(self) -> None: ...

    def close(self) -> None: ...

    def zookeeper_leader(self) -> Server | None:
        found = self._running() if self._quorum() else ()
        return next(iter(found), self.believes)

    def zookeeper_counters(self) -> Sequence[ZooKeeperCounters]:
        if not self._quorum():
            raise ViewUnavailable("no answer")
        self.zxid += 1
        return [
            ZooKeeperCounters(server=server.name, zxid=self.zxid, watches=10)
            for server in self.zookeepers
        ]

    def expired_sessions(self) -> frozenset[int]:
        """Whoever was killed has let its session expire; whoever was asked to end has closed it."""
        gone = (one for one in self.everybody if not self._registered(one))
        return frozenset(self._session(one) for one in gone if one.process.code != 0)

    def log_directories(self, broker: Server) -> Sequence[PurePosixPath]:
        return [broker.node.directory]

    def view(self) -> ClusterView:
        if not self._quorum():
            raise ViewUnavailable("no answer")
        live = [server.id for server in self.everybody if self._registered(server)]
        partitions = {}
        for topic, count in (*self.topics.items(), *self.admin.own.items()):
            for number in range(count):
                key = topic, number
                ordered = self.admin.assigned.get(key)
                replicas = ordered or self.replicas.get(number) or self._around(number)
                in_sync = self.admin.isrs.get(key, ())
                isr = tuple(broker for broker in in_sync or replicas if broker in live)
                partitions[key] = PartitionView(
                    topic=topic,
                    partition=number,
                    leader=self.admin.leader(key, isr),
                    isr=isr or tuple(in_sync),
                    replicas=tuple(replicas),
                    leader_epoch=self.admin.epochs.get(key, 0),
                    controller_epoch=1,
                )
        if live:
            self.written = partitions
        return ClusterView(
            brokers={**self._own_sessions(), **self.ensemble.occupying},
            controller=live[0] if live else None,
            controller_epoch=1,
            partitions=partitions if live else self.written or partitions,
        )

    def _around(self, number: int) -> list[int]:
        first = number % len(self.brokers)
        return [broker.id for broker in (*self.brokers[first:], *self.brokers[:first])]

    def _registered(self, server: MemoryServer) -> bool:
        return server.process.state() is ProcessState.RUNNING and any(
            self._hear(server, zookeeper, server is zookeeper)
            for zookeeper in (self._with_majority() if self.combined else self._running())
        )

    def _own_sessions(self) -> Mapping[int, int]:
        there = (s for s in self.everybody if self._registered(s) or s.id in self.lingering)
        return {server.id: self._session(server) for server in there}

    def _session(self, server: MemoryServer) -> int:
        begun = 256 * server.starts + 65536 * self.ensemble.ended.get(server.id, 0)
        first = server.id in self.lingering
        return self.sessions.get(server.id, server.id + (0 if first else begun))

    def _running(self) -> list[MemoryServer]:
        return [s for s in self.zookeepers if s.process.state() is ProcessState.RUNNING]

    def _quorum(self) -> bool:
        return bool(self._with_majority())

    def _with_majority(self) -> list[MemoryServer]:
        running = self._running()
        return [
            one
            for one in running
            if 2 * sum(self._hear(one, other, one is other) for other in running)
            > len(self.zookeepers)
        ]

    def _hear(self, one: MemoryServer, other: MemoryServer, itself: bool) -> bool:
        port = _CONTROLLER_PORT if self.combined else other.port
        return itself or self.backend.reaches(one.node, other.node, port)


def _server(name: str, number: int, port: int) -> MemoryServer:
    full = f"{name}-{number}"
    return MemoryServer(full, number, MemoryNode(full, full), port, MemoryProcess(full))


@dataclass
class Memory:
    """The parts of the cluster under their own types."""

    backend: MemoryBackend
    system: MemorySystem
    workload: list[MemoryProcess]
    cluster: Cluster

    def deafen(self) -> None:
        """Nothing that is done to the cluster has any effect from now on."""
        self.backend.leaky = True
        self.system.ensemble.deaf = True
        for server in (*self.system.brokers, *self.system.zookeepers):
            server.process.deaf = True
            server.node.logs.deaf = True
            server.clock.deaf = True
            for disk in server.disks:
                disk.deaf = True


class Once:
    """Waiting of those who do not: the condition is asked once."""

    def until(self, condition: Callable[[], bool], *, at_most: float, poll: float) -> bool:
        return at_most >= 0 and poll > 0 and condition()


def memory_cluster(brokers: int = 3, zookeepers: int = 1, *, combined: bool = False) -> Memory:
    """``combined``: the first brokers keep the metadata themselves, as many as ``zookeepers``."""
    backend = MemoryBackend()
    there = [_server("broker", number, 9092) for number in range(1, brokers + 1)]
    apart = [_server("zookeeper", number, 2181) for number in range(1, zookeepers + 1)]
    system = MemorySystem(
        backend=backend,
        brokers=there,
        zookeepers=there[:zookeepers] if combined else apart,
        topics={"orders": 3},
    )
    for broker in system.brokers:
        broker.node.disk("1", 64)
    for server in system.zookeepers if zookeepers > 1 else ():
        server.peer_ports = (_CONTROLLER_PORT,) if combined else (3888, 2888)
    backend.servers = {server.name: server for server in (*system.brokers, *system.zookeepers)}
    workload = [MemoryProcess(f"producer-{topic}") for topic in ("orders", "payments")]
    cluster = Cluster(
        backend=backend,
        system=system,
        clients=[MemoryNode("client-1", "client-1")],
        workload=lambda: [_client(process) for process in workload],
    )
    return Memory(backend, system, workload, cluster)


def _client(process: MemoryProcess) -> WorkloadClient:
    runs = process.state() is not ProcessState.EXITED
    return WorkloadClient(name=process.name, node="client-1", process=process, runs=runs)
