"""Programs that run beside a test, and waiting for what they do."""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

TIMEOUT_S = 120
"""Generous: it only matters when something is broken."""
PORTS = range(15_000, 32_000)
"""Below those that the kernel gives to outgoing connections: no process gets one by chance."""
BLOCK = 50
"""How many of them a test process takes at once."""


def until(what: str, condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Waits for ``condition`` to be true; fails naming ``what`` did not happen."""
    wait_until(lambda: bool(condition()), timeout_s, what, interval=0.05)


def free_port() -> int:
    """A port that stays this test process's own, also while nothing listens there.

    Asking the kernel whether it is free would not do: the port of a broker that is down for a
    moment is free, and another test process would take it.
    """
    return next(_ports)


def _own_ports() -> Iterator[int]:
    """Blocks of ports, each reserved by a name in the abstract namespace, which like the ports
    belongs to the network namespace, and which the kernel frees when the process ends."""
    for first in PORTS[::BLOCK]:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0ackproof-test-ports-{first}")
        except OSError:
            claim.close()
            continue
        claim.detach()  # open as long as the process lives
        yield from filter(_is_free, range(first, first + BLOCK))
    raise AssertionError("every block of ports is taken")


def _is_free(port: int) -> bool:
    """False: a process outside the tests uses it."""
    with contextlib.suppress(OSError), socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return True
    return False


_ports = _own_ports()


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class Process:
    """A program with its output in a file; the kernel kills it when the test process dies."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.log = log
        self._command = ["setpriv", "--pdeathsig", "KILL", *command]
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def awake(self) -> bool:
        """Whether it is any use to ask it something."""
        return self.running and not self._paused

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._paused = False
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def pause(self) -> None:
        """Stops it: it neither answers nor notices that time passes."""
        self._paused = True
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets it go on; harmless when it was killed meanwhile."""
        self._paused = False
        self.signal(signal.SIGCONT)

    def limit_file_size(self, max_bytes: int) -> None:
        """From now on every file of the running program is full at ``max_bytes`` (EFBIG)."""
        assert self._process is not None
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (max_bytes, max_bytes))

    def limit_growth(self, max_bytes: int) -> None:
        """From now on the running program gets no more memory than this beyond what it has."""
        has = psutil.Process(self.pid).memory_info().vms
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_AS)
        resource.prlimit(self.pid, resource.RLIMIT_AS, (has + max_bytes, hard))

    def wait(self, timeout_s: float = TIMEOUT_S) -> int:
        assert self._process is not None
        return self._process.wait(timeout_s)

    def kill(self) -> None:
        """SIGKILL, and gone when this returns; harmless when not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


# A process and everything below it, as this machine sees it.


def family(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The process and everything below it; none of a process that has ended."""
    try:
        parent = psutil.Process(process.pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all of them end."""
    _, alive = psutil.wait_procs(processes, timeout=PATIENCE_S)
    return not alive


# What a program prints must not depend on how Python hashes.

ROOT = Path(__file__).parents[3]


def printed(*arguments: str, seeds: int = 2) -> set[str]:
    """Return the outputs of a Python with these arguments, under several hash seeds."""
    return {_printed(arguments, str(seed)) for seed in range(1, seeds + 1)}


def _printed(arguments: tuple[str, ...], hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
