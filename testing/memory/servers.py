"""The servers of the cluster in memory, and the backend on which they are deployed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ackproof.infra.api.interface import Capability, ExternalView, InfraError, Node, ProcessState
from ackproof.testing.memory.links import MemoryLinks
from ackproof.testing.memory.nodes import MemoryClock, MemoryDisk, MemoryNode, MemoryProcess


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
