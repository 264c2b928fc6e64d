"""The cost of a command: processor time and memory of the command and of all processes that it
started."""

import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_LOOK_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a command.

    Attributes:
        cpu_s: The user and system time of all its processes, which hardly depends on other work of
            the machine.
        wall_s: The elapsed time, which is only meaningful on an otherwise idle machine.
        peak_mb: The greatest sum of resident sets in MiB. Shared pages count for each process.
        worker_mb: The greatest resident set of one Python process below the first, in MiB.

    The processes are measured twenty times a second, so the time between the last measurement of a
    process and its end is missing.
    """

    wall_s: float
    cpu_s: float
    peak_mb: int
    worker_mb: int


def run(command: Sequence[str], output: Path) -> Cost:
    """Run a command to its end and write its output to a file.

    Raises: subprocess.CalledProcessError: The command did not end with 0 or 1 (a violated
    guarantee).
    """
    began = time.perf_counter()
    with output.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        watch = _Watch(process.pid)
        status = process.wait()
    wall_s = time.perf_counter() - began
    watch.end()
    if status not in (0, 1):
        raise subprocess.CalledProcessError(status, command, output.read_bytes()[-2000:])
    return Cost(
        wall_s=wall_s,
        cpu_s=sum(watch.cpu_s.values()),
        peak_mb=watch.peak >> 20,
        worker_mb=watch.worker >> 20,
    )


class _Watch:
    """The use of a process and its descendants: the processor time of each by pid (fewer than a
    wrap-around of pids), the greatest sum of their bytes, and the greatest number of bytes of one
    worker."""

    def __init__(self, pid: int) -> None:
        self.cpu_s: dict[int, float] = {}
        self.peak = 0
        self.worker = 0
        self._pid = pid
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def end(self) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(_LOOK_S):
            resident = list(self._resident())
            self.peak = max(self.peak, sum(size for _, size in resident))
            workers = [size for name, size in resident[1:] if name.startswith("python")]
            self.worker = max([self.worker, *workers])

    def _resident(self) -> Iterator[tuple[str, int]]:
        try:
            first = psutil.Process(self._pid)
            processes = [first, *first.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    name, size = process.name(), process.memory_info().rss
            except psutil.NoSuchProcess:
                continue
            self.cpu_s[process.pid] = times.user + times.system
            yield name, size
