"""The effects that plans are made of, on the verbs of backends and processes."""

import signal
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.api.interface import Process, ProcessState
from ackproof.nemesis.interface import Cluster, Resource

PROCESS = "process"
DISK = "disk"
LINK = "link"
CLIENT = "client"
_KILLED_WITHIN_S = 10.0


class NotBegun(RuntimeError):
    """An effect that raises it has changed nothing: what it waited for did not come."""


def concerns_session(resource: Resource, broker: str, zookeepers: Iterable[str]) -> bool:
    """Whether what is done to it may keep a broker's session from ending, or from beginning, as it
    would otherwise: the broker's process, its links to ZooKeeper, ZooKeeper itself."""
    rest = set(resource.at).difference(zookeepers)
    return rest == {broker} or not rest


@dataclass(frozen=True, slots=True)
class OnServer:
    """An effect on something of a server's, by which its process may end."""

    server: str
    kind: ClassVar[str]

    @property
    def resource(self) -> Resource:
        return Resource(self.kind, (self.server,))

    @property
    def ends(self) -> str | None:
        return self.server

    def apply(self, cluster: Cluster) -> bool:
        raise NotImplementedError

    def undo(self, cluster: Cluster) -> None:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class OnProcess(OnServer):
    """On its process; undone by starting the server, on the same data."""

    kind: ClassVar[str] = PROCESS

    def undo(self, cluster: Cluster) -> None:
        server = cluster.server(self.server)
        if server.process.state() is ProcessState.EXITED:
            server.start()


@dataclass(frozen=True, slots=True)
class OnDisk(OnServer):
    """On what it keeps. What is gone stays so: nothing is undone."""

    kind: ClassVar[str] = DISK

    def undo(self, cluster: Cluster) -> None: ...


@dataclass(frozen=True, slots=True)
class StandBy(OnProcess):
    """Nothing done to a server's process yet; but it may end of the fault, and is started again at
    the end, when no other fault keeps it down."""

    def apply(self, cluster: Cluster) -> bool:  # noqa: ARG002
        return True

    def __str__(self) -> str:
        return f"stand by {self.server}"


@dataclass(frozen=True, slots=True)
class Kill(OnProcess):
    """SIGKILL."""

    def apply(self, cluster: Cluster) -> bool:
        return kill(cluster.server(self.server).process)

    def __str__(self) -> str:
        return f"kill {self.server}"


@dataclass(frozen=True, slots=True)
class Terminate(OnProcess):
    """SIGTERM, whose end is not waited for: of several servers that are to end together, the second
    would be asked when the first is gone."""

    def apply(self, cluster: Cluster) -> bool:
        try:
            cluster.server(self.server).process.signal(signal.SIGTERM)
        except ProcessLookupError:
            return False
        return True

    def undo(self, cluster: Cluster) -> None:
        process = cluster.server(self.server).process
        # One that was asked and still runs would end when the fault is over, and stay down. A
        # process that another effect has started meanwhile was never asked.
        if signal.SIGTERM in process.signals:
            kill(process)
        OnProcess.undo(self, cluster)

    def __str__(self) -> str:
        return f"terminate {self.server}"


@dataclass(frozen=True, slots=True)
class Empty(OnDisk):
    """Everything removed from a broker's data directories while it is down: the disk of a new
    machine."""

    @property
    def ends(self) -> None:
        return None

    def apply(self, cluster: Cluster) -> bool:
        """Raises RuntimeError while the broker runs: it would go on writing into files that have
        no name any more, and come back with half a disk."""
        broker = cluster.server(self.server)
        if broker.process.state() is not ProcessState.EXITED:
            raise RuntimeError(f"{self.server} runs: its disk is left alone")
        for directory in cluster.system.log_directories(broker):
            broker.node.empty(directory)
        return True

    def __str__(self) -> str:
        return f"empty the disk of {self.server}"


@dataclass(frozen=True, slots=True)
class Stop(OnProcess):
    """SIGSTOP, by which nothing ends; undone by SIGCONT."""

    @property
    def ends(self) -> None:
        return None

    def apply(self, cluster: Cluster) -> bool:
        return stop(cluster.server(self.server).process)

    def undo(self, cluster: Cluster) -> None:
        let_go_on(cluster.server(self.server).process)

    def __str__(self) -> str:
        return f"stop {self.server}"


@dataclass(frozen=True, slots=True)
class OnClient:
    """On a client of the workload: its process, and what that has started."""

    client: str

    @property
    def resource(self) -> Resource:
        return Resource(CLIENT, (self.client,))


@dataclass(frozen=True, slots=True)
class Crash(OnClient):
    """SIGKILL. It does not come back; at the end another one comes in its place, if it is said to
    (``comes_back``)."""

    comes_back: bool = False

    @property
    def ends(self) -> str:
        return self.client

    def apply(self, cluster: Cluster) -> bool:
        return kill(cluster.client(self.client).process)

    def undo(self, cluster: Cluster) -> None:
        if self.comes_back:
            cluster.bring_back(self.client)

    def __str__(self) -> str:
        return f"crash {self.client}"


@dataclass(frozen=True, slots=True)
class StopClient(OnClient):
    """SIGSTOP, undone by SIGCONT. Whoever does not live through it has ended by itself."""

    @property
    def ends(self) -> None:
        return None

    def apply(self, cluster: Cluster) -> bool:
        return stop(cluster.client(self.client).process)

    def undo(self, cluster: Cluster) -> None:
        let_go_on(cluster.client(self.client).process)

    def __str__(self) -> str:
        return f"stop {self.client}"


def stop(process: Process) -> bool:
    """SIGSTOP; False when it did not run."""
    if process.state() is not ProcessState.RUNNING:
        return False
    with suppress(ProcessLookupError):
        process.signal(signal.SIGSTOP)
        return True
    return False


def let_go_on(process: Process) -> None:
    """SIGCONT to a process that is stopped."""
    if process.state() is ProcessState.STOPPED:
        with suppress(ProcessLookupError):
            process.signal(signal.SIGCONT)


def kill(process: Process) -> bool:
    """SIGKILL, and wait for the end; False when there was nothing left to kill."""
    try:
        process.signal(signal.SIGKILL)
    except ProcessLookupError:
        return False
    # A kill that is healed at once finds the process still running, starts nothing, and then
    # it dies: the server would stay down though the fault is over.
    with suppress(TimeoutError):
        process.wait(_KILLED_WITHIN_S)
    return True
