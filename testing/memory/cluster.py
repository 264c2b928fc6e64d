"""A small cluster in memory that really implements the interfaces of infra.

Processes change state when they receive signals, links drop when they are cut, and the view of the
cluster follows from both. The proofs of a fault can therefore be true or false.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from ackproof.infra.api.capabilities import (
    AdminTimeout,
    CertificateProblem,
    Election,
    HandshakeResult,
    LogDirectory,
    NoSuchTopic,
    TierProblem,
    TierUse,
    Upgrade,
    Voters,
)
from ackproof.infra.api.interface import (
    ClusterView,
    InfraError,
    PartitionView,
    ProcessState,
    Server,
    ViewUnavailable,
    ZooKeeperCounters,
)
from ackproof.infra.api.metadata import ClusterChange, Observer
from ackproof.nemesis.interface import Cluster, WorkloadClient
from ackproof.testing.memory.servers import (
    MemoryAdded,
    MemoryBackend,
    MemoryNode,
    MemoryProcess,
    MemoryServer,
    memory_server,
)

# --- administration -------------------------------------------------------------------------------
#
# The view shows the effect of each order, or does not.


Key = tuple[str, int]

_DIRECTORIES = ("/disks/1", "/disks/2")
"""The log directories that each broker describes."""


@dataclass
class MemoryAdmin:
    """An administrator. ``view`` is that of the cluster. A leader remains while it can, because a
    new order of replicas is no election."""

    view: Callable[[], ClusterView]
    answer_ms: int = 20
    assigned: dict[Key, list[int]] = field(default_factory=dict)
    """The replicas that were ordered, by partition."""
    own: dict[str, int] = field(default_factory=dict)
    """The numbers of partitions of topics that were created by orders."""
    isrs: dict[Key, list[int]] = field(default_factory=dict)
    """The ISRs that do not include all replicas."""
    epochs: dict[Key, int] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    starts: dict[Key, int] = field(default_factory=dict)
    leads: dict[Key, int] = field(default_factory=dict)
    lies: dict[tuple[int, str, int], str] = field(default_factory=dict)
    """The log directories of replicas that were moved, by broker and partition. The others lie in
    the first one."""
    moving: dict[tuple[int, str, int], str] = field(default_factory=dict)
    """The log directories to which replicas are being moved."""
    limits: dict[int, int] = field(default_factory=dict)
    """The limits of moves between log directories, by broker. With one, no move ends."""
    group_configs: dict[tuple[str, str], str] = field(default_factory=dict)
    """The settings of groups, by group and name."""
    deaf: bool = False
    """Whether it accepts orders and does nothing, like a fault without effect."""
    silent: bool = False
    """Whether it executes orders without changing the view."""
    refusal: Exception | None = None
    refusals: float = float("inf")
    """The number of further orders that are refused."""
    orders: list[str] = field(default_factory=list)

    def leader(self, key: Key, isr: Sequence[int]) -> int:
        """Return the leader among the live in-sync replicas."""
        before = self.leads.get(key)
        return before if before is not None and before in isr else isr[0] if isr else -1

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], within_s: float
    ) -> None:
        def carry_out() -> None:
            one = self.view().partitions.get((topic, partition))
            if one is None:
                raise NoSuchTopic(topic)
            self.leads[topic, partition] = one.leader
            self.assigned[topic, partition] = list(replicas)

        self._order("reassign", within_s, carry_out)

    def elect(self, election: Election, topic: str, partition: int, within_s: float) -> bool:
        key = topic, partition
        one = self.view().partitions[key]
        if election is Election.UNCLEAN and one.leader != -1:
            return False

        def carry_out() -> None:
            live = [b for b in one.replicas if b in self.view().brokers]
            if election is Election.UNCLEAN:
                self.isrs[key] = live[:1]
            self.leads.pop(key, None)
            self.epochs[key] = one.leader_epoch + 1

        self._order(f"elect {election}", within_s, carry_out)
        return True

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], within_s: float
    ) -> None:
        def carry_out() -> None:
            self.own[topic] = len(assignment)
            self.assigned |= {(topic, n): list(ids) for n, ids in enumerate(assignment)}

        self._order("create", within_s, carry_out)

    def grow_topic(self, topic: str, partitions: int, within_s: float) -> None:
        self._order("grow", within_s, lambda: self.own.update({topic: partitions}))

    def delete_topic(self, topic: str, within_s: float) -> None:
        self._order("delete", within_s, lambda: self.own.pop(topic, None))

    def set_topic_config(self, topic: str, name: str, value: str | None, within_s: float) -> None:
        def carry_out() -> None:
            own = self.configs.setdefault(topic, {})
            own.pop(name, None)
            own |= {} if value is None else {name: value}

        self._order("set", within_s, carry_out)

    def topic_config(self, topic: str) -> Mapping[str, str]:
        self.view()
        return dict(self.configs.get(topic, {}))

    def append(self, topic: str, partition: int, records: int, within_s: float) -> None:
        assert records > 0
        self._order("append", within_s, lambda: self.starts.setdefault((topic, partition), 0))

    def delete_records(self, topic: str, partition: int, before: int, within_s: float) -> None:
        self._order("trim", within_s, lambda: self.starts.update({(topic, partition): before}))

    def log_start(self, topic: str, partition: int, within_s: float) -> int:
        assert within_s > 0
        return self.starts.get((topic, partition), 0)

    def log_directories(self, broker: int, within_s: float) -> Sequence[LogDirectory]:
        assert within_s > 0
        if broker not in self.view().brokers:
            raise AdminTimeout(f"broker {broker}")
        there = [key for key, one in self.view().partitions.items() if broker in one.replicas]
        return [
            LogDirectory(
                path=path,
                logs=frozenset(key for key in there if self._lies(broker, key) == path),
                futures=frozenset(key for key in there if self.moving.get((broker, *key)) == path),
            )
            for path in _DIRECTORIES
        ]

    def move_log(
        self, broker: int, topic: str, partition: int, directory: str, within_s: float
    ) -> None:
        key = broker, topic, partition
        moves = self.moving if broker in self.limits else self.lies
        self._order("move", within_s, lambda: moves.update({key: directory}))

    def limit_log_moves(self, broker: int, bytes_per_s: int | None, within_s: float) -> None:
        def carry_out() -> None:
            self.limits.pop(broker, None)
            if bytes_per_s is not None:
                self.limits[broker] = bytes_per_s
                return
            for key in [key for key in self.moving if key[0] == broker]:
                self.lies[key] = self.moving.pop(key)

        self._order("limit", within_s, carry_out)

    def set_group_config(self, group: str, name: str, value: str, within_s: float) -> None:
        key = group, name
        self._order("set group", within_s, lambda: self.group_configs.update({key: value}))

    def _lies(self, broker: int, key: Key) -> str:
        return self.lies.get((broker, *key), _DIRECTORIES[0])

    def _order(self, order: str, within_s: float, carry_out: Callable[[], object]) -> None:
        assert within_s > 0
        self.orders.append(order)
        if self.refusal is not None and self.refusals > 0:
            self.refusals -= 1
            raise self.refusal
        try:
            if not self.deaf:
                carry_out()
        except ViewUnavailable as silence:
            raise AdminTimeout(order) from silence
        if self.silent:
            raise AdminTimeout(order)


# --- cluster --------------------------------------------------------------------------------------


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


# --- certificates ---------------------------------------------------------------------------------


@dataclass
class MemoryCertificates:
    """The certificates of brokers in memory: a serial number each, and why clients refuse it."""

    given: dict[str, int] = field(default_factory=dict)
    """The serial number of the last certificate of each broker that was given one."""
    loaded: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    """The serial number that each broker shows, and why clients refuse it."""
    deaf: bool = False
    """Whether brokers do not load what they are given, like a fault without effect."""
    silent: bool = False
    """Whether no broker answers."""

    def renew(self, broker: str) -> None:
        self._give(broker, None)

    def spoil(self, broker: str, problem: CertificateProblem) -> None:
        self._give(broker, f"the certificate is {problem}")

    def installed(self, broker: str) -> dict[str, int]:
        return {"CLIENTS": self.given.get(broker, 0)}

    def shown(self, broker: str) -> HandshakeResult:
        serial, refusal = self.loaded.get(broker, (0, None))
        return HandshakeResult(serials={"CLIENTS": serial}, refusal=refusal)

    def _give(self, broker: str, refusal: str | None) -> None:
        if self.silent:
            raise InfraError("no answer")
        self.given[broker] = self.given.get(broker, 0) + 1
        if not self.deaf:
            self.loaded[broker] = self.given[broker], refusal


# --- the remote tier ------------------------------------------------------------------------------


@dataclass
class MemoryTier:
    """The remote tier in memory. Each look at a broker is also an operation of it."""

    problems: dict[int, TierProblem] = field(default_factory=dict)
    """The fault that is on, by broker id."""
    uses: dict[int, TierUse] = field(default_factory=dict)
    deaf: bool = False
    """Whether no fault has an effect."""

    def disturb(self, broker: int, problem: TierProblem, delay_ms: int) -> None:  # noqa: ARG002
        self.problems[broker] = problem
        self.uses[broker] = TierUse(problem=problem, disturbed=0, passed=0)

    def restore(self, broker: int) -> None:
        if not self.deaf:
            self.problems.pop(broker, None)

    def use(self, broker: int) -> TierUse:
        before = self.uses.get(broker, TierUse(problem=None, disturbed=0, passed=0))
        problem = self.problems.get(broker)
        struck = problem is not None and not self.deaf
        self.uses[broker] = TierUse(
            problem=problem,
            disturbed=before.disturbed + struck,
            passed=0 if struck else before.passed + 1,
        )
        return self.uses[broker]


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
    connection: Mapping[str, str] = field(default_factory=dict)
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
    voters: Voters | None = None
    removed: Sequence[Server] = ()
    certificates: "MemoryCertificates" = field(init=False)
    remote_tier: MemoryTier = field(default_factory=MemoryTier)
    ensemble: MemoryEnsemble = field(init=False)
    admin: MemoryAdmin = field(init=False)
    added: MemoryAdded = field(init=False)

    def __post_init__(self) -> None:
        self.certificates = MemoryCertificates()
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
        bad = (name for name, one in self.system.certificates.loaded.items() if one[1])
        found += [f"{name} shows a bad certificate" for name in sorted(bad)]
        tier = sorted(self.system.remote_tier.problems.items())
        found += [f"the remote tier is {problem} for broker {one}" for one, problem in tier]
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
        self.system.certificates.deaf = True
        self.system.remote_tier.deaf = True
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
