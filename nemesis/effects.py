"""The effects that plans consist of, by the operations of backends and processes."""

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


class EffectNotBegun(RuntimeError):
    """The error of an effect that has changed nothing: what it waited for did not happen."""


def concerns_session(resource: Resource, broker: str, zookeepers: Iterable[str]) -> bool:
    """Return whether an effect on the resource may keep a broker's session from ending or
    beginning. That is so for the broker's process, its links to ZooKeeper, and ZooKeeper itself."""
    rest = set(resource.at).difference(zookeepers)
    return rest == {broker} or not rest


@dataclass(frozen=True, slots=True)
class OnServer:
    """An effect on a part of a server, by which its process may end."""

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


class Passing:
    """A mark of effects that are over once they are applied, such as a server that was stopped and
    runs again. If the server ends later, it has ended by itself."""

    __slots__ = ()


class EndsNothing:
    """A base of effects by which no process ends, before the base that says what they change."""

    __slots__ = ()

    @property
    def ends(self) -> None:
        return None


@dataclass(frozen=True, slots=True)
class OnProcess(OnServer):
    """An effect on a server's process, undone by starting the server, on the same data."""

    kind: ClassVar[str] = PROCESS

    def undo(self, cluster: Cluster) -> None:
        server = cluster.server(self.server)
        if server.process.state() is ProcessState.EXITED:
            server.start()


@dataclass(frozen=True, slots=True)
class OnDisk(OnServer):
    """An effect on a server's data. Lost data stays lost: nothing is undone."""

    kind: ClassVar[str] = DISK

    def undo(self, cluster: Cluster) -> None: ...


@dataclass(frozen=True, slots=True)
class ProcessClaim(OnProcess):
    """A claim on a server's process without an effect yet. It may end of the fault, and is started
    again at the end, when no other fault keeps it down."""

    def apply(self, cluster: Cluster) -> bool:  # noqa: ARG002
        return True

    def __str__(self) -> str:
        return f"wait for {self.server}"


@dataclass(frozen=True, slots=True)
class ProcessKill(OnProcess):
    """A SIGKILL."""

    def apply(self, cluster: Cluster) -> bool:
        return kill(cluster.server(self.server).process)

    def __str__(self) -> str:
        return f"kill {self.server}"


@dataclass(frozen=True, slots=True)
class Terminate(OnProcess):
    """A SIGTERM, without waiting for the end. If several servers must end together, the second
    would otherwise be told when the first is gone."""

    def apply(self, cluster: Cluster) -> bool:
        try:
            cluster.server(self.server).process.signal(signal.SIGTERM)
        except ProcessLookupError:
            return False
        return True

    def undo(self, cluster: Cluster) -> None:
        process = cluster.server(self.server).process
        # A process that was told to end and still runs would end when the fault is over, and stay
        # down. A process that another effect has started meanwhile was never told.
        if signal.SIGTERM in process.signals:
            kill(process)
        OnProcess.undo(self, cluster)

    def __str__(self) -> str:
        return f"terminate {self.server}"


@dataclass(frozen=True, slots=True)
class EmptiedDisk(EndsNothing, OnDisk):
    """The removal of everything from a broker's data directories while it is down, like the disk of
    a new machine."""

    def apply(self, cluster: Cluster) -> bool:
        """Empty the directories. Raise RuntimeError while the broker runs: it would continue to
        write into files without a name, and come back with half a disk."""
        broker = cluster.server(self.server)
        if broker.process.state() is not ProcessState.EXITED:
            raise RuntimeError(f"{self.server} runs: its disk is not changed")
        for directory in cluster.system.log_directories(broker):
            broker.node.empty(directory)
        return True

    def __str__(self) -> str:
        return f"empty the disk of {self.server}"


@dataclass(frozen=True, slots=True)
class ProcessStop(EndsNothing, OnProcess):
    """A SIGSTOP, by which nothing ends, undone by SIGCONT."""

    def apply(self, cluster: Cluster) -> bool:
        return stop(cluster.server(self.server).process)

    def undo(self, cluster: Cluster) -> None:
        let_go_on(cluster.server(self.server).process)

    def __str__(self) -> str:
        return f"stop {self.server}"


@dataclass(frozen=True, slots=True)
class OnClient:
    """An effect on a client of the workload: its process, and the processes it has started."""

    client: str

    @property
    def resource(self) -> Resource:
        return Resource(CLIENT, (self.client,))


@dataclass(frozen=True, slots=True)
class ClientCrash(OnClient):
    """A SIGKILL. The client does not come back. At the end another one replaces it if
    ``comes_back`` says so."""

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
class StopClient(EndsNothing, OnClient):
    """A SIGSTOP, undone by SIGCONT. A client that does not survive it has ended by itself."""

    def apply(self, cluster: Cluster) -> bool:
        return stop(cluster.client(self.client).process)

    def undo(self, cluster: Cluster) -> None:
        let_go_on(cluster.client(self.client).process)

    def __str__(self) -> str:
        return f"stop {self.client}"


def stop(process: Process) -> bool:
    """Send SIGSTOP. Return False if the process did not run."""
    if process.state() is not ProcessState.RUNNING:
        return False
    with suppress(ProcessLookupError):
        process.signal(signal.SIGSTOP)
        return True
    return False


def let_go_on(process: Process) -> None:
    """Send SIGCONT to a process that is stopped."""
    if process.state() is ProcessState.STOPPED:
        with suppress(ProcessLookupError):
            process.signal(signal.SIGCONT)


def kill(process: Process) -> bool:
    """Send SIGKILL, and wait for the end. Return False if there was nothing left to kill."""
    try:
        process.signal(signal.SIGKILL)
    except ProcessLookupError:
        return False
    # If a kill is healed at once, the healing could find the process still running, start nothing,
    # and then the process dies. The server would stay down though the fault is over.
    with suppress(TimeoutError):
        process.wait(_KILLED_WITHIN_S)
    return True
