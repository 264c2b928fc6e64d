"""The nodes, servers and links of the cluster in memory."""

import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import (
    ClockReading,
    Damage,
    FakeClock,
    LimitedResource,
    ProbeBlocks,
    ReportedTime,
)
from ackproof.infra.api.interface import (
    Capability,
    Command,
    ExternalView,
    InfraError,
    Node,
    PacketCounts,
    Process,
    ProcessState,
    SchedulingTimes,
    Software,
)

# --- nodes ----------------------------------------------------------------------------------------
#
# The nodes, and the processes on them.


# --- clocks ---------------------------------------------------------------------------------------

BETWEEN_MS = 500
"""The time that passes between two questions to a server."""


@dataclass
class MemoryClock:
    answers: Callable[[], bool]
    """Returns whether its server runs."""
    deaf: bool = False
    """Whether it cannot be set."""
    bound_ms: float = 1.0
    offset_ms: float = 0.0
    rate: float = 1.0
    now_ms: float = 0.0
    runs: list[tuple[int, float]] = field(default_factory=list)
    """All settings that it received."""
    _since_ms: float = 0.0

    def run(self, offset_ms: int, rate: float = 1.0) -> None:
        self.runs.append((offset_ms, rate))
        if not self.deaf:
            self.offset_ms, self.rate, self._since_ms = offset_ms, rate, self.now_ms

    def reported_time(self) -> ReportedTime:
        if not self.answers():
            raise InfraError("no answer")
        self.now_ms += BETWEEN_MS
        gained = (self.rate - 1) * (self.now_ms - self._since_ms)
        return ReportedTime(
            offset_ms=self.offset_ms + gained, bound_ms=self.bound_ms, at_ms=self.now_ms
        )


# --- disks ----------------------------------------------------------------------------------------


@dataclass
class MemoryDisk:
    deaf: bool = False
    """Whether it ignores everything that is done to it."""
    data: PurePosixPath = field(default_factory=lambda: PurePosixPath("/none/data"))
    synced: str = ""
    unsynced: str = ""
    keeps_all: bool = False
    """Whether unsynced data survives a power failure."""
    refusal: str | None = None
    limit: int | None = None
    damage: list[Damage] = field(default_factory=list)

    def lose_power(self, token: str, tail: str) -> None:
        if self.deaf:
            return
        self.synced = token
        if self.keeps_all:
            self.unsynced = token
        if tail != "lost":
            self.damage.append(Damage(file="orders-0/0.log", what="bytes at 7", there=True))

    def witnesses(self) -> ProbeBlocks:
        return ProbeBlocks(synced=self.synced, unsynced=self.unsynced)

    def cut_off(self) -> None:
        self._refuse("EIO")

    def make_read_only(self) -> None:
        self._refuse("EROFS")

    def restore(self) -> None:
        self.refusal = None

    def fill(self) -> None:
        self._refuse("ENOSPC")

    def empty(self) -> None:
        if self.refusal == "ENOSPC":
            self.refusal = None

    def slow(self, bytes_per_s: int) -> None:
        self.limit = None if self.deaf else bytes_per_s

    def unslow(self) -> None:
        self.limit = None

    def bytes_per_s(self) -> int | None:
        return self.limit

    def seconds_to_write(self, size: int) -> float:
        if self.refusal is not None:
            raise InfraError(self.refusal)
        return 0.001 if self.limit is None else size / self.limit

    def refuses_writes(self) -> str | None:
        return self.refusal

    def remove(self) -> None: ...

    def _refuse(self, why: str) -> None:
        if not self.deaf:
            self.refusal = why


@dataclass
class MemoryFiles:
    """The files in the log directories of one node. ``kinds`` has the files that exist. With
    ``deaf``, changes to them cannot be observed."""

    deaf: bool = False
    kinds: Sequence[str] = ("closed-segment", "active-segment", "index", "timeindex")
    damage: list[Damage] = field(default_factory=list)

    def flip_bit(self, kind: str) -> None:
        if kind not in self.kinds:
            raise InfraError(f"no {kind} has anything in it")
        self._done("orders-0/0.log", "bytes at 7")

    def remove_files(self, name: str) -> None:
        self._done(name, "gone")

    def _done(self, file: str, what: str) -> None:
        self.damage.append(Damage(file=file, what=what, there=not self.deaf))


# --- nodes and processes --------------------------------------------------------------------------

_FATAL = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
"""The signals that end a process at once."""


@dataclass
class MemoryProcess:
    name: str
    pid: int = 1
    current: ProcessState = ProcessState.RUNNING
    code: int | None = None
    deaf: bool = False
    """Whether it ignores signals, like a fault without effect."""
    stubborn: bool = False
    """Whether it does not end when it is asked to."""
    signals: frozenset[int] = frozenset()
    times: SchedulingTimes | None = None
    """The times for which it ran and waited for a processor."""

    def state(self) -> ProcessState:
        return self.current

    def scheduled(self) -> SchedulingTimes | None:
        return self.times

    def exit_code(self) -> int | None:
        return self.code

    def signal(self, signal_number: int) -> None:
        self.signals |= {signal_number}
        if self.deaf:
            return
        if self.current is ProcessState.EXITED:
            raise ProcessLookupError(self.name)
        if signal_number in _FATAL:
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
    """The number of files of its server on its disk."""
    full: bool = False
    """Whether nothing can be removed, like a fault without effect."""
    limits: dict[LimitedResource, int] = field(default_factory=dict)
    log: str | None = None
    """The log of its server, if it can be fetched."""
    content: bool = False
    """Whether it needs no more than any limit, like a fault without effect."""

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

    def tail(self, path: PurePosixPath, most: int, known: int) -> tuple[int, str] | None:
        content = self.read(path)
        return None if len(content) == known else (len(content), content[-most:].decode())

    def empty(self, directory: PurePosixPath) -> None:  # noqa: ARG002
        self.files = self.files if self.full else 0

    def entries(self, directory: PurePosixPath) -> int:  # noqa: ARG002
        return self.files

    def limit(self, what: LimitedResource, amount: int) -> None:
        self.limits[what] = amount

    def lift(self, what: LimitedResource) -> None:
        self.limits.pop(what, None)

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
        if what not in self.limits:
            return {}
        met = 0 if self.content else 1
        if what is LimitedResource.CPU:
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


# --- servers --------------------------------------------------------------------------------------
#
# The servers, and the backend on which they are deployed.


@dataclass
class MemoryServer:
    name: str
    id: int
    node: MemoryNode
    port: int
    process: MemoryProcess
    starts: int = 0
    peer_ports: tuple[int, ...] = ()
    distant: ExternalView | None = None
    stillborn: bool = False
    """Whether it ends as soon as it is started."""
    clock: MemoryClock = field(init=False)

    def __post_init__(self) -> None:
        self.clock = MemoryClock(lambda: self.process.state() is ProcessState.RUNNING)

    @property
    def service_ports(self) -> Sequence[int]:
        return (self.port,)

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
    """Whether it cuts nothing, like a fault without effect."""
    clings: bool = False
    """Whether it does not remove nodes."""
    servers: dict[str, "MemoryServer"] = field(default_factory=dict)
    """The servers by the names of their nodes. A node without a listening server cannot be
    reached."""
    calls: list[tuple[str, str, str]] = field(default_factory=list)
    """Every ``cut`` and ``heal``, with source and target."""
    links: "MemoryLinks" = field(init=False)

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
    """The brokers that join and leave."""

    backend: MemoryBackend
    next_id: int
    there: list[MemoryServer] = field(default_factory=list)
    full: bool = False
    """Whether there is no node for another broker."""
    stillborn: bool = False
    """Whether brokers that join end at once."""

    def add(self, number: int) -> MemoryServer:
        if self.full:
            raise InfraError("no node is left")
        name = f"broker-{number}"
        if name not in self.backend.servers:
            joining = memory_server("broker", number, 9092)
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


def memory_server(name: str, number: int, port: int) -> MemoryServer:
    """Return a running server on a node of its own."""
    full = f"{name}-{number}"
    return MemoryServer(full, number, MemoryNode(full, full), port, MemoryProcess(full))


# --- links ----------------------------------------------------------------------------------------
#
# The links, with all impairments and measurements.


QUICK_MS = 0.1
WIDE_KBIT = 100_000.0
On = tuple[str, str, Impairment]


@dataclass
class MemoryLinks:
    """The links of the cluster, as ``infra.api.interface.Links``. Losses are exact here: the
    expected number of connections fails. A complete cut is the backend's ``cut``."""

    backend: "MemoryBackend"
    on: set[On] = field(default_factory=set)
    hits: Counter[On] = field(default_factory=Counter)
    seen: Counter[On] = field(default_factory=Counter)
    connections: dict[tuple[str, str], str] = field(default_factory=dict)
    """The held connections by source and name: their state, or the target while they are open."""
    busy_ms: float = 0.0
    """The time that the machine itself takes for a connection."""

    def impair(self, source: Node, target: Node, impairment: Impairment) -> None:
        if impairment == CUT:
            self.backend.cut(source, target)
        else:
            self.backend.calls.append(("impair", source.name, target.name))
            if not self.backend.leaky:
                self.on.add((source.name, target.name, impairment))
        if not self.backend.leaky:
            self.hits[source.name, target.name, impairment] = 0
            self.seen[source.name, target.name, impairment] = 0

    def mend(self, source: Node, target: Node, impairment: Impairment) -> None:
        if impairment == CUT:
            self.backend.heal(source, target)
        else:
            self.backend.calls.append(("mend", source.name, target.name))
            self.on.discard((source.name, target.name, impairment))

    def counted(self, source: Node, target: Node, impairment: Impairment) -> PacketCounts:
        what = (source.name, target.name, impairment)
        return PacketCounts(seen=self.seen[what], hit=self.hits[what])

    def tries(self, source: Node, target: Node, port: int, count: int, within: float) -> int:
        if not self.backend.reaches(source, target, port, within):
            return 0
        kept = 1.0
        for one in self._between(source, target, port, "loss"):
            kept *= 1 - one[2].amount / 100
            self.seen[one] += count
            self.hits[one] += round(count * one[2].amount / 100)
        return round(count * kept)

    def connecting_ms(self, source: Node, target: Node, port: int, count: int) -> Sequence[float]:
        if not self.backend.reaches(source, target, port):
            return []
        slow = self._between(source, target, port, "slow")
        self.hits.update(dict.fromkeys(slow, count))
        return [QUICK_MS + self.busy_ms + sum(one[2].amount for one in slow)] * count

    def hold(self, name: str, source: Node, target: Node, port: int) -> bool:
        reached = self.backend.reaches(source, target, port)
        self.connections[source.name, name] = target.name if reached else "none"
        return reached

    def held(self, name: str, source: Node) -> str:
        there = self.connections.get((source.name, name), "none")
        ends = {source.name, there}
        for one in sorted(self.on):
            if set(one[:2]) == ends and one[2].kind.startswith("reset"):
                self.hits[one] += 1
                self.connections[source.name, name] = there = "reset"
        return there if there in ("none", "reset") else "open"

    def let_go(self, name: str, source: Node) -> None:
        self.connections.pop((source.name, name), None)

    def throughput_kbit(self, source: Node, target: Node, lasting: float) -> float:
        one_way = [o for o in self.on if o[:2] == (source.name, target.name)]
        narrow = [one for one in one_way if one[2].kind == "narrow"]
        self.hits.update(dict.fromkeys(narrow, round(100 * lasting)))
        return min([WIDE_KBIT, *(float(one[2].amount) for one in narrow)])

    def lets_through(self, source: Node, target: Node, port: int) -> bool:
        """Return whether a new connection succeeds. A link that blocks it counts a packet: the
        first packet on its way, and the answer only if the first packet arrived."""
        stopping = [
            one
            for kind in ("loss", "reset")
            for one in self._between(source, target, port, kind)
            if kind == "reset" or one[2].amount == CUT.amount
        ]
        for way in ((source.name, target.name), (target.name, source.name)):
            if way in self.backend.links_cut:
                stopping.append((*way, CUT))
        there = [one for one in stopping if one[0] == source.name]
        self.hits.update(there or stopping)
        return not stopping

    def _between(self, source: Node, target: Node, port: int, kind: str) -> list[On]:
        ends = {source.name, target.name}
        return [
            one
            for one in sorted(self.on)
            if set(one[:2]) == ends
            and one[2].kind == kind
            and (not one[2].ports or port in one[2].ports)
        ]
