"""The effects that plans are made of, on the verbs of backends and processes."""

import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from infra.interface import ProcessState
from nemesis.interface import Cluster, Link, Resource

PROCESS = "process"
LINK = "link"
_KILLED_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL to a server's process; undone by starting the server, on the same data."""

    server: str

    @property
    def resource(self) -> Resource:
        return Resource(PROCESS, (self.server,))

    @property
    def ends(self) -> str:
        return self.server

    def apply(self, cluster: Cluster) -> bool:
        process = cluster.server(self.server).process
        try:
            process.signal(signal.SIGKILL)
        except ProcessLookupError:
            return False
        # A kill that is healed at once finds the process still running, starts nothing, and then
        # it dies: the server would stay down though the fault is over.
        with suppress(TimeoutError):
            process.wait(_KILLED_WITHIN_S)
        return True

    def undo(self, cluster: Cluster) -> None:
        server = cluster.server(self.server)
        if server.process.state() is ProcessState.EXITED:
            server.start()

    def __str__(self) -> str:
        return f"kill {self.server}"


@dataclass(frozen=True, slots=True)
class Stop:
    """SIGSTOP to a server's process; undone by SIGCONT."""

    server: str
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        return Resource(PROCESS, (self.server,))

    def apply(self, cluster: Cluster) -> bool:
        process = cluster.server(self.server).process
        if process.state() is not ProcessState.RUNNING:
            return False
        with suppress(ProcessLookupError):
            process.signal(signal.SIGSTOP)
            return True
        return False

    def undo(self, cluster: Cluster) -> None:
        process = cluster.server(self.server).process
        if process.state() is ProcessState.STOPPED:
            with suppress(ProcessLookupError):
                process.signal(signal.SIGCONT)

    def __str__(self) -> str:
        return f"stop {self.server}"


@dataclass(frozen=True, slots=True)
class Cut:
    """Every packet of a link dropped, silently."""

    link: Link
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        return Resource(LINK, (self.link.source, self.link.target))

    def apply(self, cluster: Cluster) -> bool:
        cluster.backend.cut(cluster.node(self.link.source), cluster.node(self.link.target))
        return True

    def undo(self, cluster: Cluster) -> None:
        cluster.backend.heal(cluster.node(self.link.source), cluster.node(self.link.target))

    def __str__(self) -> str:
        return f"cut {self.link}"
