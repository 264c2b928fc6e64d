"""A small cluster in memory that really implements the interfaces of infra.

Processes change state when they receive signals, links drop when they are cut, and the view of the
cluster follows from both. The proofs of a fault can therefore be true or false.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ackproof.infra.api.capabilities import Upgrade
from ackproof.infra.api.interface import (
    ClusterView,
    PartitionView,
    ProcessState,
    Server,
    ViewUnavailable,
    ZooKeeperCounters,
)
from ackproof.infra.api.metadata import ClusterChange, Observer
from ackproof.nemesis.interface import Cluster, WorkloadClient
from ackproof.testing.memory.admin import MemoryAdmin
from ackproof.testing.memory.nodes import MemoryNode, MemoryProcess
from ackproof.testing.memory.servers import MemoryAdded, MemoryBackend, MemoryServer, memory_server

# --- ZooKeeper ------------------------------------------------------------------------------------


@dataclass
class MemoryEnsemble:
    """A ZooKeeper ensemble in memory. Sessions end, and registrations change their owner, on
    request.

    Args:
        servers: The ZooKeeper servers.
        has_quorum: Whether it answers.
        registered: The registered brokers by id, with their own sessions.
    """

    servers: Sequence[Server]
    has_quorum: Callable[[], bool]
    registered: Callable[[], Mapping[int, int]]
    ended: dict[int, int] = field(default_factory=dict)
    """The number of a broker's sessions that were ended, by broker."""
    occupying: dict[int, int] = field(default_factory=dict)
    """The session of the nemesis that holds a broker's registration."""
    ours: frozenset[int] = frozenset()
    deaf: bool = False
    """Whether it does nothing and reports success, like a fault without effect."""

    def modes(self) -> Mapping[str, str]:
        if not self.has_quorum():
            return {}
        serving = [s for s in self.servers if s.process.state() is ProcessState.RUNNING]
        return {s.name: "follower" if s is not serving[0] else "leader" for s in serving}

    def end_session(self, session: int) -> bool:
        if session in self.occupying.values():
            self.occupying = {b: held for b, held in self.occupying.items() if held != session}
            return True
        holder = next((b for b, held in self.registered().items() if held == session), None)
        if holder is None:
            return False
        if not self.deaf:
            self.ended[holder] = self.ended.get(holder, 0) + 1
        return True

    def occupy(self, broker: int) -> bool:
        if broker not in self.registered() or broker in self.occupying:
            return False
        if not self.deaf:
            self.end_session(self.registered()[broker])
            self.occupying[broker] = -1 - len(self.ours)
            self.ours |= {self.occupying[broker]}
        return True

    def vacate(self, broker: int) -> None:
        self.occupying.pop(broker, None)


# --- the cluster ----------------------------------------------------------------------------------

_CONTROLLER_PORT = 9093


@dataclass
class MemorySystem:
    """The system in memory. Its view follows from the processes and the links.

    - ZooKeeper answers while a majority of its servers run and reach each other.
    - A broker is registered while it runs and reaches a running ZooKeeper server. If brokers are
      also ZooKeeper servers, that server must reach a majority.
    - The leader is the first registered replica. Leaders do not change while no broker can be the
      controller.
    """

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
    """The sessions of brokers that have another session than the one with which their process
    began."""
    replicas: Mapping[int, list[int]] = field(default_factory=dict)
    """The replicas by partition, if they are not all brokers."""
    written: Mapping[tuple[str, int], PartitionView] = field(default_factory=dict)
    """The state that the last controller wrote."""
    lingering: set[int] = field(default_factory=set)
    """The brokers whose first session has not expired, whatever their state."""
    zxid: int = 0
    """The zxid of the last transaction. Every look is one."""
    believes: MemoryServer | None = None
    """A server that claims to lead ZooKeeper when none does."""
    upgrade: Upgrade | None = None
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

    @property
    def metadata_connect(self) -> tuple[str, str]:
        return "zookeeper.connect", self.zookeeper_connect

    def observer(
        self,
        on_change: Callable[[ClusterChange], None],
        clock: Callable[[], int],
    ) -> Observer:
        """Raise NotImplementedError. Use the view instead."""
        raise NotImplementedError("nothing watches a cluster in memory: ask for its view")

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
        """Return the sessions that expired. The session of a killed process expires; a process that
        was asked to end has closed its session."""
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


@dataclass
class Memory:
    """The parts of the cluster with their own types."""

    backend: MemoryBackend
    system: MemorySystem
    workload: list[MemoryProcess]
    cluster: Cluster

    @property
    def disturbances(self) -> Sequence[str]:
        """Return a sentence for each part that differs from its state when the cluster was made."""
        ways = {*self.backend.links_cut, *((one[0], one[1]) for one in self.backend.links.on)}
        found = [f"the link {source}->{target} is disturbed" for source, target in sorted(ways)]
        for server in dict.fromkeys(
            server.name for server in (*self.system.brokers, *self.system.zookeepers)
        ):
            found += self._of_server(self.backend.servers[server])
        held = sorted(self.system.ensemble.occupying)
        return [*found, *(f"the registration of broker {broker} is held" for broker in held)]

    def _of_server(self, server: MemoryServer) -> Iterator[str]:
        if (state := server.process.state()) is not ProcessState.RUNNING:
            yield f"{server.name} is {state.value}"
        if server.clock.offset_ms or server.clock.rate != 1:
            yield f"the clock of {server.name} is wrong"
        yield from (f"{server.name} has limited {what.value}" for what in server.node.limits)
        if any(disk.refusal is not None or disk.limit is not None for disk in server.disks):
            yield f"a disk of {server.name} is disturbed"

    def deafen(self) -> None:
        """Make the cluster ignore everything that is done to it from now on."""
        self.backend.leaky = True
        self.system.ensemble.deaf = True
        self.system.admin.deaf = True
        for process in self.workload:
            process.deaf = True
        for server in (*self.system.brokers, *self.system.zookeepers):
            server.process.deaf = True
            server.node.logs.deaf = True
            server.node.full = server.node.content = True
            server.clock.deaf = True
            for disk in server.disks:
                disk.deaf = True


class Once:
    """A wait that checks its condition once."""

    def until(self, condition: Callable[[], bool], *, at_most: float, poll: float) -> bool:
        return at_most >= 0 and poll > 0 and condition()


def memory_cluster(brokers: int = 3, zookeepers: int = 1, *, combined: bool = False) -> Memory:
    """Return a cluster in memory. With ``combined``, the first brokers keep the metadata
    themselves, as many as ``zookeepers``."""
    backend = MemoryBackend()
    there = [memory_server("broker", number, 9092) for number in range(1, brokers + 1)]
    apart = [memory_server("zookeeper", number, 2181) for number in range(1, zookeepers + 1)]
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
