"""A process on a local node: a child of ours, known by its id."""

import os
import signal
import subprocess
from contextlib import suppress

import psutil

from infra.interface import ProcessState

_GONE = frozenset({psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
_STOPPED = frozenset({psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP})


class LocalProcess:
    """Implements ``infra.interface.Process``. As long as it is not reaped, which only we do, its
    id cannot come to mean another process."""

    def __init__(self, name: str, child: subprocess.Popen[bytes]) -> None:
        self.name = name
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    def state(self) -> ProcessState:
        if self._child.poll() is not None:
            return ProcessState.EXITED
        try:
            status = psutil.Process(self.pid).status()
        except psutil.NoSuchProcess:  # reaped by another thread since
            return ProcessState.EXITED
        if status in _GONE:
            return ProcessState.EXITED
        return ProcessState.STOPPED if status in _STOPPED else ProcessState.RUNNING

    def exit_code(self) -> int | None:
        return self._child.poll()

    def signal(self, signal_number: int) -> None:
        if self._child.poll() is not None:
            raise ProcessLookupError(f"{self.name} (process {self.pid}) has exited")
        os.kill(self.pid, signal_number)

    def wait(self, timeout: float | None = None) -> int:
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(
                f"{self.name} (process {self.pid}) still lives after {timeout} s"
            ) from error

    def kill(self) -> None:
        """End it and what it started (its process group), stopped or not; wait for its end."""
        if self._child.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._child.wait()
