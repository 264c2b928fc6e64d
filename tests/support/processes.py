"""Programs that run beside a test, and waiting for what they do."""

import contextlib
import itertools
import os
import resource
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil

from infra.waiting import wait_until

TIMEOUT_S = 60
PORTS = range(15_000, 32_000)

_numbers = itertools.count(os.getpid() * 997)


def until(what: str, condition: Callable[[], object], timeout_s: float = TIMEOUT_S) -> None:
    """Waits for ``condition`` to be true; fails naming ``what`` did not happen."""
    wait_until(lambda: bool(condition()), timeout_s, what, interval=0.05)


def free_port() -> int:
    """A port of our own: below those that the kernel gives to outgoing connections, so that
    nobody takes it while its owner is not running, and unlike those of other test processes."""
    for number in _numbers:
        port = PORTS[number % len(PORTS)]
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("the numbers do not end")


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

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

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
