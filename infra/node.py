"""A node, whatever kind it is: what is done there is done by its agent."""

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ackproof.infra import copying
from ackproof.infra.agent_client import AgentClient
from ackproof.infra.artifacts import Artifact
from ackproof.infra.clocks import ClockReading
from ackproof.infra.copying import Shares
from ackproof.infra.disks import AgentDisk
from ackproof.infra.fake_clock import AgentClock
from ackproof.infra.interface import Command, InfraError, Software
from ackproof.infra.limits import AgentLimits
from ackproof.infra.process import AgentProcess
from ackproof.infra.scarcity import Scarce, Scarcity
from ackproof.infra.storage import Damage
from ackproof.infra.together import on_all

_END_TIMEOUT_S = 30.0
_EMPTY_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a backend has made for a node.

    Attributes:
        addresses: Every address that it may send from; at the first it is reached.
        directory: The node's own; ``logs`` in it is made by the backend.
        software: Finds out what ``Node.software`` is.
        shares: What of this machine the node sees.
        artifacts: Where those lie that it was given; None: it sees this machine's files.
        remove: Removes what was made, called once. Raises InfraError when it cannot.
        limits: Gives its processes too little; None: the agent does.
    """

    name: str
    addresses: Sequence[str]
    directory: PurePosixPath
    agent: AgentClient
    software: Callable[[], Software]
    shares: Shares
    artifacts: Mapping[Artifact, PurePosixPath] | None
    remove: Callable[[], None]
    limits: Scarcity | None = None


class AgentNode:
    """Implements ``infra.interface.Node``."""

    def __init__(self, made: Made) -> None:
        self._made = made
        self.name = made.name
        self.address = made.addresses[0]
        self.addresses = made.addresses
        self.directory = made.directory
        self.log_directory = made.directory / "logs"
        self.agent = made.agent
        self._limits = made.limits or AgentLimits(made.agent)
        self._software: Software | None = None
        self._lock = threading.Lock()
        self._processes: list[AgentProcess] = []
        self._disks: list[AgentDisk] = []
        self._closed = False

    @property
    def software(self) -> Software:
        if self._software is None:
            self._software = self._made.software()
        return self._software

    def where(self, artifact: Artifact) -> PurePosixPath:
        if self._made.artifacts is None:
            return PurePosixPath(artifact.path)
        if artifact not in self._made.artifacts:
            raise InfraError(f"{self.name} was not given {artifact.title} ({artifact.name})")
        return self._made.artifacts[artifact]

    def start(self, command: Command) -> AgentProcess:
        """Start ``command`` on the node. A program that does not exist ends with status 127 and a
        line in the log. Raises InfraError when the node is closed."""
        if self._closed:
            raise InfraError(f"{self.name} is closed: {command.name} cannot start there")
        started = self.agent.ask(
            "start",
            argv=list(command.argv),
            env=dict(command.env),
            directory=str(command.directory or self.directory),
            log=str(self.log_directory / f"{command.name}.log"),
        )
        process = AgentProcess(command.name, started["pid"], started["number"], self.agent)
        self._processes.append(process)
        return process

    def write(self, path: PurePosixPath, content: bytes) -> None:
        self.agent.write(path, content)

    def read(self, path: PurePosixPath) -> bytes:
        return self.agent.read(path)

    def empty(self, directory: PurePosixPath) -> None:
        self.agent.ask("empty", path=str(directory), timeout=_EMPTY_TIMEOUT_S)

    def entries(self, directory: PurePosixPath) -> int:
        try:
            found = self.agent.ask("tree", path=str(directory))
        except FileNotFoundError:
            return 0
        return sum(entry["name"] != "" for entry in found)

    def limit(self, what: Scarce, amount: int) -> None:
        self._limits.limit(what, amount)

    def lift(self, what: Scarce) -> None:
        self._limits.lift(what)

    def counted(self, what: Scarce) -> Mapping[str, int]:
        return self._limits.counted(what)

    def fetch(self, source: PurePosixPath, target: Path) -> None:
        copying.fetch(self.agent, source, target)

    def share(self, directory: Path) -> PurePosixPath:
        return self._made.shares.share(directory)

    def sync(self) -> None:
        self._made.shares.sync()

    def disk(self, name: str, megabytes: int) -> AgentDisk:
        disk = AgentDisk(self.agent, self.directory / "disks" / name, megabytes)
        self._disks.append(disk)
        return disk

    def flip_bit(self, directory: PurePosixPath, kind: str, draw: float) -> None:
        self.agent.ask("flip_bit", directory=str(directory), kind=kind, draw=draw)

    def flip_bits(self, directory: PurePosixPath, kind: str, draw: float) -> None:
        self.agent.ask("flip_bits", directory=str(directory), kind=kind, draw=draw)

    def remove_files(self, directory: PurePosixPath, name: str) -> None:
        self.agent.ask("remove_files", directory=str(directory), name=name)

    def damage(self, directory: PurePosixPath) -> Sequence[Damage]:
        return [Damage(**told) for told in self.agent.ask("damage", directory=str(directory))]

    def fake_clock(self) -> AgentClock:
        return AgentClock(self.agent, self.directory / "clock")

    def clock(self) -> ClockReading:
        return self.agent.clock()

    def close(self) -> None:
        """End every process and remove what was made for the node. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            with suppress(InfraError):  # who waits for a slow disk does not end before that
                on_all(AgentDisk.unslow, self._disks)
            ended = self._end_all()
            try:
                if ended is not None:
                    on_all(AgentDisk.remove, self._disks)
            finally:
                self._made.remove()
            for process in self._processes:
                code = ended[process.number] if ended and process.number < len(ended) else None
                process.ended(-signal.SIGKILL if code is None else code)
        finally:
            self.agent.close()

    def _end_all(self) -> Sequence[int | None] | None:
        """How each process ended, by number; None when the agent is gone: what was below it was
        killed then."""
        try:
            codes: list[int | None] = self.agent.ask("end_all", timeout=_END_TIMEOUT_S)
        except InfraError:
            return None
        return codes
