"""Nodes of the cluster in memory, and the processes on them."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.clocks import ClockReading, FakeClock
from ackproof.infra.api.interface import (
    Command,
    InfraError,
    Process,
    ProcessState,
    Scheduled,
    Software,
)
from ackproof.infra.api.limits import Scarce
from ackproof.infra.api.storage import Damage
from ackproof.testing.memory.disks import MemoryDisk, MemoryFiles

_FATAL = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV)
"""Signals by which a process ends at once."""


@dataclass
class MemoryProcess:
    name: str
    pid: int = 1
    current: ProcessState = ProcessState.RUNNING
    code: int | None = None
    deaf: bool = False
    """Ignores signals, as a fault that does not bite."""
    stubborn: bool = False
    """Does not end when it is asked to."""
    signals: frozenset[int] = frozenset()
    times: Scheduled | None = None
    """How long it ran and waited for a processor."""

    def state(self) -> ProcessState:
        return self.current

    def scheduled(self) -> Scheduled | None:
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
    """What its server has on its disk."""
    full: bool = False
    """Nothing can be removed, as a fault that does not bite."""
    limits: dict[Scarce, int] = field(default_factory=dict)
    log: str | None = None
    """What its server has logged, where that can be fetched."""
    content: bool = False
    """Whatever the limit, it needs no more, as with a fault that does not bite."""

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

    def empty(self, directory: PurePosixPath) -> None:  # noqa: ARG002
        self.files = self.files if self.full else 0

    def entries(self, directory: PurePosixPath) -> int:  # noqa: ARG002
        return self.files

    def limit(self, what: Scarce, amount: int) -> None:
        self.limits[what] = amount

    def lift(self, what: Scarce) -> None:
        self.limits.pop(what, None)

    def counted(self, what: Scarce) -> Mapping[str, int]:
        if what not in self.limits:
            return {}
        met = 0 if self.content else 1
        if what is Scarce.CPU:
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
