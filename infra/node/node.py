"""A node of any backend: its processes, disks, clock and limits, all by way of its agent."""

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ackproof.infra.agent.disks import DATA
from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import (
    ClockQuery,
    ClockReading,
    Damage,
    LimitedResource,
    ProbeBlocks,
    ReportedTime,
    ResourceLimits,
)
from ackproof.infra.api.interface import (
    Command,
    InfraError,
    ProcessState,
    SchedulingTimes,
    Software,
)
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node import copying
from ackproof.infra.node.agent_client import AgentClient
from ackproof.infra.node.copying import Shares

_FOREVER_S = float("inf")
_LOOK_EVERY_S = 0.05


class AgentProcess:
    """An ``infra.api.interface.Process`` that the agent started.

    Every method may raise InfraError if the agent does not answer.
    """

    def __init__(self, name: str, pid: int, number: int, agent: AgentClient) -> None:
        self.name = name
        self.pid = pid
        self.number = number
        self._agent = agent
        self._exit_code: int | None = None
        self._signals: set[int] = set()

    @property
    def signals(self) -> frozenset[int]:
        return frozenset(self._signals)

    def state(self) -> ProcessState:
        if self._exit_code is not None:
            return ProcessState.EXITED
        answer = self._agent.ask("state", number=self.number)
        self._exit_code = answer["exit_code"]
        return ProcessState(answer["state"])

    def scheduled(self) -> SchedulingTimes | None:
        if self._exit_code is not None:
            return None
        answer = self._agent.ask("scheduled", number=self.number)
        return None if answer is None else SchedulingTimes(**answer)

    def exit_code(self) -> int | None:
        self.state()
        return self._exit_code

    def signal(self, signal_number: int) -> None:
        if self._exit_code is not None:
            raise ProcessLookupError(f"{self.name} (process {self.pid}) has exited")
        self._signals.add(int(signal_number))  # before: it may be sent although the answer is lost
        self._agent.ask("signal", number=self.number, signal_number=int(signal_number))

    def wait(self, timeout: float | None = None) -> int:
        what = f"the end of {self.name} (process {self.pid})"
        limit = _FOREVER_S if timeout is None else timeout
        wait_until(lambda: self.exit_code() is not None, limit, what, _LOOK_EVERY_S)
        assert self._exit_code is not None
        return self._exit_code

    def ended(self, exit_code: int) -> None:
        """Note the end of the process at the close of its node, after which no agent can be
        asked."""
        self._exit_code = exit_code


# --- resource limits --------------------------------------------------------------------------


_US_PER_THOUSANDTH = 100
"""The microseconds in each tenth of a second for a thousandth of a core."""


def in_units_of_the_agent(what: LimitedResource, amount: int) -> int:
    """Return an amount of ``infra.api.capabilities.ResourceLimits`` as the agent takes it."""
    return amount * _US_PER_THOUSANDTH if what is LimitedResource.CPU else amount


class AgentLimits:
    """An ``infra.api.capabilities.ResourceLimits`` by control groups that the agent makes."""

    def __init__(self, agent: AgentClient) -> None:
        self._agent = agent

    def limit(self, what: LimitedResource, amount: int) -> None:
        self._agent.ask("limit", what=what, amount=in_units_of_the_agent(what, amount))

    def lift(self, what: LimitedResource) -> None:
        self._agent.ask("lift", what=what)

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
        found: dict[str, int] = self._agent.ask("counted", what=what)
        return found


# --- disks ------------------------------------------------------------------------------------


_DISK_WITHIN_S = 60.0


class AgentDisk:
    """An ``infra.api.interface.Disk``, made and mounted at ``path`` by the constructor."""

    def __init__(self, agent: AgentClient, path: PurePosixPath, megabytes: int) -> None:
        self._agent = agent
        self._path = path
        self._ask("make_disk", megabytes=megabytes)

    @property
    def data(self) -> PurePosixPath:
        return self._path / DATA

    def lose_power(self, token: str, tail: str) -> None:
        self._ask("lose_power", token=token, tail=tail)

    def witnesses(self) -> ProbeBlocks:
        found: Mapping[str, str] = self._ask("witnesses")
        return ProbeBlocks(**found)

    def cut_off(self) -> None:
        self._ask("cut_off")

    def make_read_only(self) -> None:
        self._ask("make_read_only")

    def restore(self) -> None:
        self._ask("restore_disk")

    def fill(self) -> None:
        self._ask("fill_disk")

    def empty(self) -> None:
        self._ask("empty_disk")

    def slow(self, bytes_per_s: int) -> None:
        self._ask("slow_disk", bytes_per_s=bytes_per_s)

    def unslow(self) -> None:
        self._ask("unslow_disk")

    def bytes_per_s(self) -> int | None:
        limit: int | None = self._ask("bytes_per_s")
        return limit

    def seconds_to_write(self, size: int) -> float:
        seconds: float = self._ask("seconds_to_write", size=size)
        return seconds

    def refuses_writes(self) -> str | None:
        refusal: str | None = self._ask("refuses_writes")
        return refusal

    def remove(self) -> None:
        self._ask("remove_disk")

    def _ask(self, verb: str, **arguments: object) -> Any:
        return self._agent.ask(verb, timeout=_DISK_WITHIN_S, path=str(self._path), **arguments)


# --- clock ------------------------------------------------------------------------------------


_CLOCK_WITHIN_S = 30.0


class AgentClock:
    """An ``infra.api.capabilities.FakeClock``, with its files in ``directory`` on the node."""

    def __init__(self, agent: AgentClient, directory: PurePosixPath) -> None:
        self._agent = agent
        self._directory = str(directory)
        self.under: Sequence[str] = self._ask("make_clock", directory=self._directory)

    def started(self, pid: int) -> None:
        self._ask("forget_shared", pid=pid)

    def run(self, offset_ms: int, rate: float) -> None:
        self._ask("run_clock", directory=self._directory, offset_ms=offset_ms, rate=rate)

    def reported_time(self, question: ClockQuery) -> ReportedTime:
        answer: dict[str, float] = self._ask(
            "told_time",
            address=question.address,
            port=question.port,
            say=question.say.hex(),
            line=question.line,
            log=str(question.log),
        )
        return ReportedTime(**answer)

    def _ask(self, verb: str, **arguments: object) -> Any:
        return self._agent.ask(verb, timeout=_CLOCK_WITHIN_S, **arguments)


# --- node -------------------------------------------------------------------------------------


_END_TIMEOUT_S = 30.0
_EMPTY_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """The parts that a backend has made for a node.

    Attributes:
        addresses: Every address that it may send from; it is reached at the first.
        directory: The node's own directory; the backend makes ``logs`` in it.
        software: Returns the value of ``Node.software``.
        shares: The part of this machine that the node sees.
        artifacts: The paths of the artifacts that it has; None if it sees this machine's files.
        remove: Removes what was made, called once. Raises InfraError if it cannot.
        limits: Limits the resources of its processes; None if the agent does.
        impairs: Whether links may be impaired there. If not, the other ends do what they can.
    """

    name: str
    addresses: Sequence[str]
    directory: PurePosixPath
    agent: AgentClient
    software: Callable[[], Software]
    shares: Shares
    artifacts: Mapping[Artifact, PurePosixPath] | None
    remove: Callable[[], None]
    limits: ResourceLimits | None = None
    impairs: bool = True


class AgentNode:
    """An ``infra.api.interface.Node`` with an agent."""

    def __init__(self, made: NodeParts) -> None:
        self._made = made
        self.name = made.name
        self.address = made.addresses[0]
        self.addresses = made.addresses
        self.directory = made.directory
        self.log_directory = made.directory / "logs"
        self.agent = made.agent
        self.impairs = made.impairs
        self._limits: ResourceLimits = made.limits or AgentLimits(made.agent)
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
            raise InfraError(f"{self.name} did not receive {artifact.title} ({artifact.name})")
        return self._made.artifacts[artifact]

    def start(self, command: Command) -> AgentProcess:
        """Start ``command`` on the node.

        A program that does not exist ends with status 127 and a line in the log. Raises InfraError
        if the node is closed.
        """
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

    def tail(self, path: PurePosixPath, most: int, known: int) -> tuple[int, str] | None:
        found = self.agent.ask("tail", path=str(path), most=most, known=known)
        return None if found is None else (found["size"], found["text"])

    def empty(self, directory: PurePosixPath) -> None:
        self.agent.ask("empty", path=str(directory), timeout=_EMPTY_TIMEOUT_S)

    def entries(self, directory: PurePosixPath) -> int:
        try:
            found = self.agent.ask("tree", path=str(directory))
        except FileNotFoundError:
            return 0
        return sum(entry["name"] != "" for entry in found)

    def limit_by(self, limits: ResourceLimits) -> None:
        """Limit resources by other means from now on: the processes are not the agent's."""
        self._limits = limits

    def limit(self, what: LimitedResource, amount: int) -> None:
        self._limits.limit(what, amount)

    def lift(self, what: LimitedResource) -> None:
        self._limits.lift(what)

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
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
        return [Damage(**entry) for entry in self.agent.ask("damage", directory=str(directory))]

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
            with suppress(InfraError):  # a process that waits for a slow disk does not end
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
        """Return how each process ended, by number.

        Return None if the agent is gone: its processes were killed then.
        """
        try:
            codes: list[int | None] = self.agent.ask("end_all", timeout=_END_TIMEOUT_S)
        except InfraError:
            return None
        return codes
