"""What a command costs: processor time and memory of it and of everything that it started."""

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
    """Of a command. ``cpu_s``: user and system, of all its processes: it hardly depends on what
    else the machine does; ``wall_s``: means something alone on the machine; ``peak_mb``: the
    greatest sum of resident sets (pages that processes share count in each); ``worker_mb``: the
    greatest of one Python process below the first; MiB. Looked at twenty times a second: what a
    process did since the last look before its end is missing."""

    wall_s: float
    cpu_s: float
    peak_mb: int
    worker_mb: int


def run(command: Sequence[str], output: Path) -> Cost:
    """Run a command to its end, its output into a file.

    Raises:
        subprocess.CalledProcessError: It did not end with 0 or 1 (a broken guarantee).
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
    """Of a process and its descendants: the processor time of each, by pid (as many as these do not
    come round); the greatest sum of their bytes, and the greatest of one worker."""

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
