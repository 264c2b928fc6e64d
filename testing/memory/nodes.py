"""The nodes of the cluster in memory, and the processes on them."""

import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

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
    Command,
    InfraError,
    Process,
    ProcessState,
    SchedulingTimes,
    Software,
)

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
