"""Where things run: what the rest of the harness may ask of a machine, whatever kind it is.

A :class:`Backend` makes nodes and the network between them; a :class:`Node` runs processes and
hands over files. A backend lists its capabilities; what needs more is refused before anything is
deployed. Everything here is synchronous; callers that want parallelism use threads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import NamedTuple, NoReturn, Protocol, TypeVar

from ackproof.infra.agent.impairments import Impairment
from ackproof.infra.api.admin import Admin
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.clocks import Clock, Clocks
from ackproof.infra.api.limits import Scarcity
from ackproof.infra.api.metadata import ClusterChange, Ensemble, Observer
from ackproof.infra.api.metadata import ZooKeeperCounters as ZooKeeperCounters
from ackproof.infra.api.storage import Disk, Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Packets, as the kernel counts them.

    Attributes:
        seen: That an impairment might have befallen; counted for losses alone.
        hit: That it befell.
    """

    seen: int
    hit: int


class Links(Protocol):
    """What can be done to the links between nodes, each in its direction, and measured on them. The
    harness's own way to a node is no link. What is measured is tried for real, from inside of
    ``source``; times are in seconds unless said otherwise."""

    def impair(self, source: "Node", target: "Node", impairment: Impairment) -> None:
        """Begin with it, for open connections too. Idempotent. Several may be on at once."""

    def mend(self, source: "Node", target: "Node", impairment: Impairment) -> None:
        """Undo :meth:`impair`. Idempotent."""

    def counted(self, source: "Node", target: "Node", impairment: Impairment) -> Counted:
        """Since it last began."""

    def tries(self, source: "Node", target: "Node", port: int, count: int, within: float) -> int:
        """How many of ``count`` new TCP connections succeed, ``within`` a time each. Below a
        second, what decides is one packet in each direction."""

    def connecting_ms(
        self, source: "Node", target: "Node", port: int, count: int
    ) -> Sequence[float]:
        """How long each of ``count`` new TCP connections takes, in milliseconds; those that fail
        are left out."""

    def hold(self, name: str, source: "Node", target: "Node", port: int) -> bool:
        """Open a TCP connection that nobody uses, and keep it; whether that succeeded. ``name``:
        one of the source's."""

    def held(self, name: str, source: "Node") -> str:
        """What has become of it: ``open``, ``reset``, ``closed``, ``none``, or an error's text."""

    def let_go(self, name: str, source: "Node") -> None:
        """Close it. Idempotent."""

    def throughput_kbit(self, source: "Node", target: "Node", lasting: float) -> float:
        """Kilobits a second that a TCP connection of that length carries."""


# --- servers of a cluster that was not deployed here ------------------------------------------


class Distant(Protocol):
    """What is seen from outside of a server that was not deployed here."""

    def accepts(self) -> bool:
        """Whether it accepts connections. The kernel answers for a process that is stopped."""

    def answers(self) -> bool:
        """Whether it answers a request, asked itself."""


# --- brokers that join later ------------------------------------------------------------------


S_co = TypeVar("S_co", covariant=True)


class Added(Protocol[S_co]):
    """Those that joined a system since it was deployed. ``S_co``:
    ``infra.api.interface.Server``."""

    @property
    def there(self) -> Sequence[S_co]:
        """Those that were not removed, whether they run or not."""

    @property
    def next_id(self) -> int:
        """The lowest ``broker.id`` that no broker of the system ever had, nor a higher one."""

    def add(self, number: int) -> S_co:
        """A broker of that id, on a node that is made for it, configured as the others are and not
        started; if it is there already, that one. Raises InfraError where it cannot be had: nothing
        is left of it then."""

    def remove(self, number: int) -> None:
        """Remove the node of a broker that was added, with all that is on it: what still runs is
        killed. Idempotent. Raises InfraError when it cannot be; then it is still there."""


class NobodyJoins:
    """Implements :class:`Added` where nothing is deployed. ``why``: in words."""

    there: Sequence[NoReturn] = ()
    next_id = 0

    def __init__(self, why: str) -> None:
        self._why = why

    def add(self, number: int) -> NoReturn:
        raise LookupError(f"no broker {number} joins: {self._why}")

    def remove(self, number: int) -> None: ...


# --- machines ---------------------------------------------------------------------------------


class Capability(StrEnum):
    """What some backends can do and others cannot."""

    SIGNALS = "signals"
    """Send any signal to a process (SIGKILL, SIGSTOP, SIGCONT, ...)."""

    CUT_LINKS = "cut-links"
    """Silently drop packets from one node to another, in that direction alone, for open
    connections too."""

    LOSSY_LINKS = "lossy-links"
    """Drop some of the packets from one node to another."""

    RESET_LINKS = "reset-links"
    """Answer packets from one node to another with a reset."""

    NARROW_LINKS = "narrow-links"
    """Let packets from one node to another pass at a given rate."""

    SLOW_LINKS = "slow-links"
    """Delay packets from one node to another."""

    LIMIT_CPU = "limit-cpu"
    """Let the processes of a node have no more than a part of one core."""

    LIMIT_MEMORY = "limit-memory"
    """Let the processes of a node have no more than so much memory beyond what they have."""

    LOSE_UNSYNCED_WRITES = "lose-unsynced-writes"
    """Give a node disks of its own: that forget what was not fsynced, as at a power failure, and
    that fail."""

    SLOW_DISKS = "slow-disks"
    """Let such a disk read and write only so many bytes a second."""

    FAKE_CLOCKS = "fake-clocks"
    """Let the servers of a node go by another time than the true one."""

    FURTHER_NODES = "further-nodes"
    """Make a node while a cluster runs, and remove it."""


class ProcessState(StrEnum):
    """State of a process as the operating system tells it."""

    RUNNING = "running"
    STOPPED = "stopped"
    """SIGSTOPped (state T)."""
    EXITED = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to start on a node. Never passed through a shell.

    Attributes:
        name: What the process is called in logs and errors; its output goes to ``<name>.log``.
        argv: Program and arguments.
        env: Added to the node's own environment.
        directory: Working directory on the node; the node's own by default.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    directory: PurePosixPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """Where the programs are that a node runs.

    Attributes:
        python: A Python that has this project's rooms and the libraries they need on a node.
        java: Java 17 or newer.
        zookeeper_class_path: Java's class path of ZooKeeper and all it needs.
    """

    python: str
    java: str
    zookeeper_class_path: str


class Scheduled(NamedTuple):
    """How long the threads of a process ran, and how long they were ready to run and waited for a
    processor, since it started, all threads together, in nanoseconds."""

    ran_ns: int
    waited_ns: int


class Process(Protocol):
    """A started process, known by its id (never by its command line)."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int:
        """Process id in the node's own numbering."""

    @property
    def signals(self) -> frozenset[int]:
        """Every signal that was sent to it here. One that was asked to end may do so at any time
        later."""

    def state(self) -> ProcessState: ...

    def scheduled(self) -> Scheduled | None:
        """None where nobody counts, and once it has exited."""

    def exit_code(self) -> int | None:
        """Exit status, negative for a signal as in ``subprocess``; None while it lives."""

    def signal(self, signal_number: int) -> None:
        """Send a signal. Raises ProcessLookupError when it has exited."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, at most ``timeout`` seconds (TimeoutError); its exit status."""


class Node(Storage, Clocks, Scarcity, Protocol):
    """One machine of the cluster: a namespace, a container or a host."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """IP address at which the other nodes and the harness reach it."""

    @property
    def directory(self) -> PurePosixPath:
        """A writable directory of the node's own, empty at first."""

    @property
    def log_directory(self) -> PurePosixPath:
        """Where process output goes (``<name>.log``)."""

    @property
    def software(self) -> Software:
        """Raises InfraError when something of it is missing."""

    def where(self, artifact: Artifact) -> PurePosixPath:
        """Its path on the node. Raises InfraError where the backend was opened without it and the
        node does not see this machine's files."""

    def start(self, command: Command) -> Process: ...

    def write(self, path: PurePosixPath, content: bytes) -> None:
        """Write a file, making its directories."""

    def read(self, path: PurePosixPath) -> bytes: ...

    def empty(self, directory: PurePosixPath) -> None:
        """Remove everything in a directory, for good; the directory itself stays. One that is not
        there is empty."""

    def entries(self, directory: PurePosixPath) -> int:
        """How many files and directories there are below a directory; 0 where there is none."""

    def fetch(self, source: PurePosixPath, target: Path) -> None:
        """Copy a file or a whole directory from the node to this machine."""

    def share(self, directory: Path) -> PurePosixPath:
        """The directory on the node for what shall come to ``directory`` of this machine: the same
        files where the node sees ours, else copies, made every few seconds and by :meth:`sync`.
        Names that begin with a dot are left out."""

    def sync(self) -> None:
        """Return when everything written below shared directories until now is on this machine.
        Raises InfraError when it cannot be fetched."""


class Backend(Protocol):
    """A kind of place where clusters run."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    @property
    def links(self) -> Links: ...

    def node(self, name: str) -> Node:
        """The node of that name, made at first asking. ``name``: ``[a-z][a-z0-9-]*``."""

    def remove(self, name: str) -> None:
        """End what runs on the node of that name, and remove it with all that was made for it.
        Idempotent. Raises InfraError when it cannot be."""

    def remains(self, name: str) -> Sequence[str]:
        """What there is of the node of that name, looked at anew; nothing once it is removed."""

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        """Whether a new TCP connection from ``source`` to ``target``:``port`` succeeds, tried for
        real from inside ``source``; at most ``timeout`` seconds."""

    def close(self) -> None:
        """Stop every process and remove whatever was made. Idempotent."""


# --- what is deployed ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """What ZooKeeper says of one partition."""

    topic: str
    partition: int
    leader: int
    """Broker id; -1 without a leader."""
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    leader_epoch: int
    controller_epoch: int
    version: int | None = field(default=None, compare=False)
    """Of the znode that holds the ISR: each write raises it by one. None: it is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What ZooKeeper says of the cluster at one moment.

    Attributes:
        brokers: Registered broker ids with the ZooKeeper session that holds each registration.
        controller: Broker id of the controller, None while there is none.
        controller_epoch: As in ``/controller_epoch``; 0 before the first controller.
        partitions: By (topic, partition).
        by_isr_order: Whether a leader that dies is succeeded by the first of the ISR, as before
            Kafka 0.8.2 (KAFKA-1502), and not by the first assigned replica that is in it.
    """

    brokers: Mapping[int, int]
    controller: int | None
    controller_epoch: int
    partitions: Mapping[tuple[str, int], PartitionView]
    by_isr_order: bool = False


class Server(Protocol):
    """One server process of the system under test, on a node of its own: a broker or a
    ZooKeeper server. Started again after it was killed, it keeps its data."""

    @property
    def name(self) -> str:
        """``broker-1``, ``zookeeper-1``."""

    @property
    def id(self) -> int:
        """``broker.id``, or ZooKeeper's ``myid``."""

    @property
    def node(self) -> Node: ...

    @property
    def port(self) -> int:
        """Port it serves its clients on."""

    @property
    def peer_ports(self) -> Sequence[int]:
        """Ports at which servers of its kind talk to each other, the one first at which each of
        them listens; empty where they are each other's clients."""

    @property
    def process(self) -> Process:
        """The process last started."""

    @property
    def disks(self) -> Sequence[Disk]:
        """Those that hold its log directories, one each; none where they are the node's own."""

    @property
    def clock(self) -> Clock | None:
        """The fake one that it goes by; None where it goes by the true one."""

    @property
    def distant(self) -> Distant | None:
        """What is seen of it from outside, where that is all; None where it was deployed here, and
        its node tells."""

    def start(self) -> Process:
        """Start it (again). Does not wait until it serves."""


class Timings(Protocol):
    """The settings that waits are derived from; known before anything is deployed."""

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        """The session timeout in force: ``zookeeper.session.timeout.ms``, with KRaft
        ``broker.session.timeout.ms``."""

    @property
    def replica_lag_time_max_ms(self) -> int:
        """``replica.lag.time.max.ms`` in force."""


class System(Timings, Protocol):
    """The cluster under test, deployed on a backend."""

    @property
    def name(self) -> str: ...

    @property
    def brokers(self) -> Sequence[Server]:
        """Those that are deployed."""

    @property
    def added(self) -> "Added[Server]":
        """Those that join later, and may leave again. They are none of ``brokers``."""

    @property
    def zookeepers(self) -> Sequence[Server]:
        """The servers that keep the metadata: ZooKeeper's, or with KRaft the controllers."""

    @property
    def ensemble(self) -> Ensemble: ...

    @property
    def bootstrap_servers(self) -> str:
        """Kafka's ``bootstrap.servers``."""

    @property
    def metadata_connect(self) -> tuple[str, str]:
        """Where its metadata are: the name of Kafka's property, and its value."""

    @property
    def admin(self) -> Admin: ...

    def deploy(self) -> None:
        """Start every server and wait until each is registered and serves; raises
        DeploymentError with what did not come up and the tail of its log."""

    def view(self) -> ClusterView:
        """Read now, from those who keep the metadata. Raises ViewUnavailable when they do not
        answer."""

    def observer(
        self, on_change: Callable[[ClusterChange], None], clock: Callable[[], int]
    ) -> Observer:
        """Reports what changes; ``clock``: nanoseconds of the Unix epoch."""

    def zookeeper_leader(self) -> Server | None:
        """The server that leads the ensemble, or is the only one; None while nobody does."""

    def zookeeper_counters(self) -> Sequence[ZooKeeperCounters]:
        """Of every ZooKeeper server, now. Raises ViewUnavailable when one does not answer."""

    def expired_sessions(self) -> frozenset[int]:
        """The sessions that ZooKeeper has expired so far, as its servers' logs tell: of a session
        that is gone, whether it was ended by its client or by silence. Raises ViewUnavailable when
        a log cannot be read."""

    def log_directories(self, broker: Server) -> Sequence[PurePosixPath]:
        """The broker's ``log.dirs``, each with one directory per replica, and nothing of the
        broker's besides: emptied, they are the disks of a new machine."""

    def close(self) -> None:
        """Stop every server, gently first. Idempotent."""


class InfraError(Exception):
    """The infrastructure failed, through no fault of the system under test."""


class DeploymentError(InfraError):
    """A server did not come up.

    Args:
        words: Why, in the first line; the end of its log may follow.
        server: The one, where it is known.
    """

    def __init__(self, words: str, server: Server | None = None) -> None:
        super().__init__(words)
        self.server = server


class ViewUnavailable(InfraError):
    """Those who keep the metadata did not answer in time."""


class ViewUnsupported(InfraError):
    """The metadata has something that this version of Ackproof cannot read. Waiting does not help,
    so that it ends what needs the metadata, with its own cause."""
