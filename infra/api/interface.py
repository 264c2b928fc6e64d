"""The interface of machines of every kind to the rest of the harness.

A :class:`Backend` makes nodes and the network between them. A :class:`Node` runs processes and
transfers files. A backend lists its capabilities, and a campaign that needs more is refused before
anything is deployed. Everything here is synchronous. Callers that want parallelism use threads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import NamedTuple, NoReturn, Protocol, TypeVar

from ackproof.infra.agent.impairments import Impairment
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import (
    Admin,
    BrokerCertificates,
    Clock,
    Clocks,
    Disk,
    RemoteTier,
    ResourceLimits,
    Storage,
    Upgrade,
    Voters,
)
from ackproof.infra.api.metadata import ClusterChange, Ensemble, Observer
from ackproof.infra.api.metadata import ZooKeeperCounters as ZooKeeperCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketCounts:
    """Packets, as the kernel counts them.

    Attributes:
        seen: Packets that an impairment may have affected; counted for losses only.
        hit: Packets that it affected.
    """

    seen: int
    hit: int


class Links(Protocol):
    """The links between nodes, each in one direction: impairments and measurements.

    The harness's own connection to a node is no link. Measurements are made from inside of
    ``source``. Times are in seconds unless said otherwise.
    """

    def impair(self, source: "Node", target: "Node", impairment: Impairment) -> None:
        """Begin an impairment, for open connections too. Idempotent. Several may be in force at
        once."""

    def mend(self, source: "Node", target: "Node", impairment: Impairment) -> None:
        """Undo :meth:`impair`. Idempotent."""

    def counted(self, source: "Node", target: "Node", impairment: Impairment) -> PacketCounts:
        """Return the packets since the impairment last began."""

    def tries(self, source: "Node", target: "Node", port: int, count: int, within: float) -> int:
        """Return how many of ``count`` new TCP connections succeed ``within`` seconds each.

        With less than a second, one packet in each direction decides.
        """

    def connecting_ms(
        self, source: "Node", target: "Node", port: int, count: int
    ) -> Sequence[float]:
        """Return the milliseconds that each of ``count`` new TCP connections takes.

        Connections that fail are left out.
        """

    def hold(self, name: str, source: "Node", target: "Node", port: int) -> bool:
        """Open an unused TCP connection and keep it as ``name``, one of the names of the source.

        Return whether it could be opened.
        """

    def held(self, name: str, source: "Node") -> str:
        """Return its state: ``open``, ``reset``, ``closed``, ``none``, or an error's text; between
        pods without agents ``silent`` if the other end does not answer."""

    def let_go(self, name: str, source: "Node") -> None:
        """Close a connection that :meth:`hold` opened. Idempotent."""

    def throughput_kbit(self, source: "Node", target: "Node", lasting: float) -> float:
        """Return the kilobits a second that a TCP connection of so many seconds carries."""


# --- servers of a cluster that was not deployed here ------------------------------------------


class ExternalView(Protocol):
    """The outside view of a server that was not deployed by the harness."""

    def accepts(self) -> bool:
        """Return whether it accepts connections. The kernel answers for a process that is
        stopped."""

    def answers(self) -> bool:
        """Return whether the process itself answers a request."""

    @property
    def attached(self) -> bool:
        """Return whether an agent is beside it, which sees its process and reads its logs."""

    def found(self) -> "Process":
        """Return the process that listens at its port, by the agent; the former one if there is
        none now. Raises LookupError if none was found yet."""

    def log_lines(self, words: Sequence[str], within_s: float) -> Sequence[str] | None:
        """Return the lines with one of ``words`` that the process has written to its own log in the
        last ``within_s`` seconds, by the agent; None if no log file was found. Raises as
        :meth:`found`."""

    @property
    def pod(self) -> "PodView | None":
        """Return the pod in which it runs; None outside Kubernetes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """The place of a pod in a cluster of Kubernetes.

    Attributes:
        uid: The identity of the pod. The pod that replaces it has another.
        node: The node that the pod is on; None while it waits for one.
        ready: Whether its containers are ready.
        ends: Whether it was told to end.
        held: Whether Ackproof keeps its owner from making another one.
        why: The reason that Kubernetes or an annotation gives for its end; None without one.
        name: The name of the pod.
        created: The time at which it was made, in seconds of the Unix epoch by the cluster's clock.
        restarts: How often the broker's container was started again in this pod.
        last_end: The reason for the last end of that container, such as ``OOMKilled``; None without
            one.
        last_status: The exit status of that end; None without one. 137 stands for signal 9.
    """

    uid: str
    node: str | None
    ready: bool = True
    ends: bool = False
    held: bool = False
    why: str | None = None
    name: str = ""
    created: float = 0.0
    restarts: int = 0
    last_end: str | None = None
    last_status: int | None = None


class PodRefusal(Exception):
    """The cluster refused a change of a pod or a node, and nothing has changed."""


class PodView(Protocol):
    """The pod of a server in Kubernetes, whichever pod that is at the time, and its node.

    All methods raise :class:`InfraError` if the API server does not answer.
    """

    @property
    def lost_storage(self) -> str | None:
        """Return the storage of its log directories that is lost with the pod, in words; None if
        none is known to be."""

    def place(self) -> PodPlace | None:
        """Return where the pod is; None if there is none now."""

    def places(self) -> Mapping[str, PodPlace]:
        """Return where the pods of all brokers are, by server. A broker without a pod is left
        out."""

    def restarter(self, former: PodPlace) -> str:
        """Return, in words, what had a former pod of this server restarted, by Strimzi's events."""

    def order_roll(self, uid: str) -> bool:
        """Order Strimzi's operator to replace the pod of that ``uid``, by an annotation. Return
        False if another pod has taken its place. Raises PodRefusal if it is no pod of Strimzi's, or
        has the annotation already."""

    def withdraw_roll(self, uid: str) -> None:
        """Undo :meth:`order_roll`, as far as the operator has not replaced the pod yet."""

    def cordon(self, node: str) -> bool:
        """Keep new pods off a node. Return False if this run has done so already. Raises PodRefusal
        for a node that something else has cordoned."""

    def uncordon(self, node: str) -> None:
        """Undo :meth:`cordon`. A node that this run has not cordoned is left as it is."""

    def is_cordoned(self, node: str) -> bool:
        """Return whether a node takes no new pods, by this run or anything else."""

    def evict(self, uid: str, within_s: float, *, budgets: bool) -> bool:
        """Ask the cluster to end the pod of that ``uid`` gracefully. Return False if another pod
        has taken its place, or it was told to end already.

        ``budgets`` says whether PodDisruptionBudgets are respected. A refusal by one is repeated
        for ``within_s`` seconds. Raises PodRefusal with the last refusal.
        """

    def cpu_limit(self) -> int | None:
        """Return the CPU limit of the server's container that the kubelet reports, in thousandths
        of one core; None without one."""

    def silence(self) -> None:
        """Drop all packets of the pod, in both directions, silently, by the agent in it."""

    def unsilence(self) -> None:
        """Undo :meth:`silence`, as far as the pod is still the same."""

    def is_silent(self) -> bool:
        """Return whether :meth:`silence` is in force, and no connection to the server succeeds."""


# --- brokers that join later ------------------------------------------------------------------


S_co = TypeVar("S_co", covariant=True)


class BrokerAdditions(Protocol[S_co]):
    """The brokers that joined a system since it was deployed.

    ``S_co`` is ``infra.api.interface.Server``.
    """

    @property
    def there(self) -> Sequence[S_co]:
        """Return those that were not removed, whether they run or not."""

    @property
    def next_id(self) -> int:
        """Return the lowest ``broker.id`` above all that the system's brokers ever had."""

    def add(self, number: int) -> S_co:
        """Return a broker of that id on a node of its own, configured as the others and not
        started.

        If it exists, return that one. Raises InfraError if it cannot be made, and leaves nothing
        then.
        """

    def remove(self, number: int) -> None:
        """Remove the node of an added broker with everything on it, and kill what still runs there.

        Idempotent. Raises InfraError if that fails; the node still exists then.
        """


class NoBrokerAdditions:
    """The :class:`BrokerAdditions` of systems to which no broker can be added. ``why`` says the
    reason."""

    there: Sequence[NoReturn] = ()
    next_id = 0

    def __init__(self, why: str) -> None:
        self._why = why

    def add(self, number: int) -> NoReturn:
        raise LookupError(f"broker {number} cannot join: {self._why}")

    def remove(self, number: int) -> None: ...


# --- machines ---------------------------------------------------------------------------------


class Capability(StrEnum):
    """An ability that some backends have and others lack."""

    SIGNALS = "signals"
    """Send any signal to a process (SIGKILL, SIGSTOP, SIGCONT, ...)."""

    CUT_LINKS = "cut-links"
    """Silently drop packets from one node to another, in one direction, for open connections
    too."""

    LOSSY_LINKS = "lossy-links"
    """Drop some of the packets from one node to another."""

    RESET_LINKS = "reset-links"
    """Answer packets from one node to another with a reset."""

    NARROW_LINKS = "narrow-links"
    """Let packets from one node to another pass at a given rate."""

    SLOW_LINKS = "slow-links"
    """Delay packets from one node to another."""

    LIMIT_CPU = "limit-cpu"
    """Limit the processes of a node to a part of one core."""

    LIMIT_MEMORY = "limit-memory"
    """Limit the memory that the processes of a node can have beyond what they have."""

    LOSE_UNSYNCED_WRITES = "lose-unsynced-writes"
    """Give a node disks of its own, which can fail and can forget unsynced data, as a power failure
    does."""

    FILL_DISKS = "fill-disks"
    """Take all the room that is left on the disks of a server's logs, and give it back."""

    SLOW_DISKS = "slow-disks"
    """Limit the bytes a second that a node's own disk reads and writes."""

    FAKE_CLOCKS = "fake-clocks"
    """Give the servers of a node another time than the true one."""

    FURTHER_NODES = "further-nodes"
    """Make a node while a cluster runs, and remove it."""

    MOVE_PODS = "move-pods"
    """Know the Kubernetes nodes of brokers' pods, and take the pods off a node."""


class ProcessState(StrEnum):
    """The state of a process by the operating system."""

    RUNNING = "running"
    STOPPED = "stopped"
    """SIGSTOPped (state T)."""
    EXITED = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program to start on a node. It is never passed through a shell.

    Attributes:
        name: The name of the process in logs and errors; its output goes to ``<name>.log``.
        argv: The program and its arguments.
        env: Variables that are added to the node's own environment.
        directory: The working directory on the node; the node's own by default.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    directory: PurePosixPath | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """The paths of the programs that a node runs.

    Attributes:
        python: A Python that has this project's rooms and the libraries they need on a node.
        java: Java 17 or newer.
        zookeeper_class_path: Java's class path of ZooKeeper and all it needs.
    """

    python: str
    java: str
    zookeeper_class_path: str


class SchedulingTimes(NamedTuple):
    """The time that a process ran, and waited for a processor while ready, since its start.

    It is the sum over all threads, in nanoseconds.
    """

    ran_ns: int
    waited_ns: int


class Process(Protocol):
    """A started process, identified by its id and never by its command line."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int:
        """Return the process id in the node's own numbering."""

    @property
    def signals(self) -> frozenset[int]:
        """Return every signal that was sent to it here. After a request to end, it may end at any
        later time."""

    def state(self) -> ProcessState: ...

    def scheduled(self) -> SchedulingTimes | None:
        """Return its times; None if they are not counted, and after its exit."""

    def exit_code(self) -> int | None:
        """Return the exit status, negative for a signal as in ``subprocess``; None while it
        lives."""

    def signal(self, signal_number: int) -> None:
        """Send a signal. Raises ProcessLookupError if the process has exited."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, at most ``timeout`` seconds (TimeoutError), and return its exit
        status."""


class Node(Storage, Clocks, ResourceLimits, Protocol):
    """One machine of the cluster: a namespace, a container or a host."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Return the IP address at which the other nodes and the harness reach it."""

    @property
    def directory(self) -> PurePosixPath:
        """Return a writable directory of the node's own, empty at first."""

    @property
    def log_directory(self) -> PurePosixPath:
        """Return the directory of process output (``<name>.log``)."""

    @property
    def software(self) -> Software:
        """Return the paths of its programs. Raises InfraError if one is missing."""

    def where(self, artifact: Artifact) -> PurePosixPath:
        """Return the artifact's path on the node.

        Raises InfraError if the backend was opened without it and the node does not see this
        machine's files.
        """

    def start(self, command: Command) -> Process: ...

    def write(self, path: PurePosixPath, content: bytes) -> None:
        """Write a file, and make its directories."""

    def read(self, path: PurePosixPath) -> bytes: ...

    def tail(self, path: PurePosixPath, most: int, known: int) -> tuple[int, str] | None:
        """Return the size of a growing text file and its last whole lines, at most ``most`` bytes,
        or None if its size is ``known``.

        Raises FileNotFoundError or InfraError.
        """

    def empty(self, directory: PurePosixPath) -> None:
        """Remove everything in a directory for good, and keep the directory.

        A directory that does not exist is empty.
        """

    def entries(self, directory: PurePosixPath) -> int:
        """Return the number of files and directories below a directory; 0 if it does not exist."""

    def fetch(self, source: PurePosixPath, target: Path) -> None:
        """Copy a file or a whole directory from the node to this machine."""

    def share(self, directory: Path) -> PurePosixPath:
        """Return the directory on the node whose content must come to ``directory`` of this
        machine.

        They are the same files if the node sees those of this machine. Otherwise copies are made
        every few seconds and by :meth:`sync`. Names that begin with a dot are left out.
        """

    def sync(self) -> None:
        """Wait until everything written below shared directories before the call is on this
        machine.

        Raises InfraError if it cannot be fetched.
        """


class Backend(Protocol):
    """A kind of place where clusters run."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    @property
    def links(self) -> Links: ...

    def node(self, name: str) -> Node:
        """Return the node of that name, which the first call makes. ``name`` is
        ``[a-z][a-z0-9-]*``."""

    def remove(self, name: str) -> None:
        """End what runs on the node of that name, and remove it with all that was made for it.

        Idempotent. Raises InfraError if that fails.
        """

    def remains(self, name: str) -> Sequence[str]:
        """Return what exists of the node of that name now; nothing once it is removed."""

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        """Return whether a new TCP connection from ``source`` to ``target``:``port`` succeeds.

        It is tried from inside ``source``, for at most ``timeout`` seconds.
        """

    def close(self) -> None:
        """Stop every process and remove everything that was made. Idempotent."""


# --- what is deployed ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """ZooKeeper's data of one partition."""

    topic: str
    partition: int
    leader: int
    """Broker id; -1 without a leader."""
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    leader_epoch: int
    controller_epoch: int
    elr: tuple[int, ...] = ()
    """The eligible leader replicas (KIP-966). They may be elected while the ISR is empty."""
    version: int | None = field(default=None, compare=False)
    """The version of the znode that holds the ISR, which each write raises by one; None without
    one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """ZooKeeper's data of the cluster at one moment.

    Attributes:
        brokers: Registered broker ids with the ZooKeeper session that holds each registration.
        controller: The broker id of the controller; None while there is none.
        controller_epoch: The value of ``/controller_epoch``; 0 before the first controller.
        partitions: The partitions by (topic, partition).
        by_isr_order: Whether a dead leader is succeeded by the first of the ISR, as before Kafka
            0.8.2 (KAFKA-1502), and not by the first assigned replica in the ISR.
    """

    brokers: Mapping[int, int]
    controller: int | None
    controller_epoch: int
    partitions: Mapping[tuple[str, int], PartitionView]
    by_isr_order: bool = False


class Server(Protocol):
    """One server process of the system under test, on a node of its own.

    It is a broker or a ZooKeeper server. Restarted after it was killed, it keeps its data.
    """

    @property
    def name(self) -> str:
        """Return the name, such as ``broker-1`` or ``zookeeper-1``."""

    @property
    def id(self) -> int:
        """Return ``broker.id``, or ZooKeeper's ``myid``."""

    @property
    def node(self) -> Node: ...

    @property
    def port(self) -> int:
        """Return the port on which it serves its clients."""

    @property
    def service_ports(self) -> Sequence[int]:
        """Return the ports of a broker for clients and for other brokers, ``port`` first; of a
        ZooKeeper server, ``port``."""

    @property
    def peer_ports(self) -> Sequence[int]:
        """Return the ports at which servers of its kind talk to each other.

        The first is the one at which each of them listens. Empty if they are each other's clients.
        """

    @property
    def process(self) -> Process:
        """Return the process last started."""

    @property
    def disks(self) -> Sequence[Disk]:
        """Return the disks of its log directories, one each; empty if they are on the node's own
        disk."""

    @property
    def clock(self) -> Clock | None:
        """Return the fake clock that it uses; None if it uses the true one."""

    @property
    def distant(self) -> ExternalView | None:
        """Return the outside view of a server that was not deployed here.

        Return None if it was deployed here, and its node can be asked.
        """

    def start(self) -> Process:
        """Start it, also again. Does not wait until it serves."""


class Timings(Protocol):
    """The settings from which waits are derived. They are known before anything is deployed."""

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        """Return the session timeout in force.

        It is ``zookeeper.session.timeout.ms``, or with KRaft ``broker.session.timeout.ms``.
        """

    @property
    def replica_lag_time_max_ms(self) -> int:
        """Return the ``replica.lag.time.max.ms`` in force."""


class System(Timings, Protocol):
    """The cluster under test, deployed on a backend."""

    @property
    def name(self) -> str: ...

    @property
    def brokers(self) -> Sequence[Server]:
        """Return the brokers that are deployed."""

    @property
    def added(self) -> "BrokerAdditions[Server]":
        """Return the brokers that join later and may leave again. They are not among
        ``brokers``."""

    @property
    def zookeepers(self) -> Sequence[Server]:
        """Return the servers that keep the metadata: ZooKeeper's, or with KRaft the controllers."""

    @property
    def removed(self) -> Sequence[Server]:
        """Return the servers that were removed for good, which an open fault may still name. They
        are not among the others."""

    @property
    def ensemble(self) -> Ensemble: ...

    @property
    def bootstrap_servers(self) -> str:
        """Return the value of Kafka's ``bootstrap.servers``."""

    @property
    def connection(self) -> Mapping[str, str]:
        """Return librdkafka's further properties with which clients connect, such as
        certificates and passwords. Empty for connections in the clear."""

    @property
    def metadata_connect(self) -> tuple[str, str]:
        """Return the name and value of Kafka's property for the address of the metadata."""

    @property
    def admin(self) -> Admin: ...

    @property
    def certificates(self) -> BrokerCertificates | None:
        """Return the certificates of its brokers; None if they have none that can be exchanged."""

    @property
    def remote_tier(self) -> RemoteTier | None:
        """Return the remote tier of its brokers; None without one, or if it is not Ackproof's."""

    @property
    def upgrade(self) -> Upgrade | None:
        """Return the change to another release that its servers can make; None if they cannot."""

    @property
    def voters(self) -> Voters | None:
        """Return the voters of the metadata quorum; None if they cannot be changed."""

    def deploy(self) -> None:
        """Start every server and wait until each is registered and serves.

        Raises DeploymentError with the server that failed and the end of its log.
        """

    def view(self) -> ClusterView:
        """Read the metadata now. Raises ViewUnavailable if the servers that keep it do not
        answer."""

    def observer(
        self, on_change: Callable[[ClusterChange], None], clock: Callable[[], int]
    ) -> Observer:
        """Return an observer that reports changes; ``clock`` is nanoseconds of the Unix epoch."""

    def zookeeper_leader(self) -> Server | None:
        """Return the server that leads the ensemble, or is the only one; None without a leader."""

    def zookeeper_counters(self) -> Sequence[ZooKeeperCounters]:
        """Return the counters of every ZooKeeper server. Raises ViewUnavailable if one does not
        answer."""

    def expired_sessions(self) -> frozenset[int]:
        """Return the sessions that ZooKeeper has expired so far, by its servers' logs.

        They distinguish a session that expired from one that its client ended. Raises
        ViewUnavailable if a log cannot be read.
        """

    def log_directories(self, broker: Server) -> Sequence[PurePosixPath]:
        """Return the broker's ``log.dirs``, which hold one directory for each replica.

        They hold nothing else of the broker. Emptied, they are the disks of a new machine.
        """

    def close(self) -> None:
        """Stop every server, gently first. Idempotent."""


class InfraError(Exception):
    """A failure of the infrastructure, which the system under test did not cause."""


class DeploymentError(InfraError):
    """A server did not come up.

    Args:
        words: The reason in the first line; the end of its log may follow.
        server: The server, if it is known.
    """

    def __init__(self, words: str, server: Server | None = None) -> None:
        super().__init__(words)
        self.server = server


class ViewUnavailable(InfraError):
    """The servers that keep the metadata did not answer in time."""


class ViewUnsupported(InfraError):
    """The metadata has something that this version of Ackproof cannot read.

    Waiting does not help. It ends what needs the metadata, with its own cause.
    """
