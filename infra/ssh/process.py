"""A process on a host, known to its supervisor there."""

import signal
from pathlib import PurePosixPath
from typing import Any

from infra.interface import ProcessState
from infra.ssh.connection import Connection
from infra.waiting import wait_until

_STOPPED = frozenset({"T", "t"})
_FOREVER_S = 10 * 365 * 86400.0
_LOOK_EVERY_S = 0.1


class SshProcess:
    """Implements ``infra.interface.Process``. Every method may raise InfraError when its host is
    not to be had."""

    def __init__(self, name: str, pid: int, connection: Connection, state: PurePosixPath) -> None:
        self.name = name
        self.pid = pid
        self._connection = connection
        self._state = str(state)
        self._exit_code: int | None = None

    def state(self) -> ProcessState:
        if self._exit_code is not None:
            return ProcessState.EXITED
        letter = self._look()["letter"]
        if letter is None:
            return ProcessState.EXITED
        return ProcessState.STOPPED if letter in _STOPPED else ProcessState.RUNNING

    def exit_code(self) -> int | None:
        if self._exit_code is None:
            self._exit_code = self._look()["exit"]
        return self._exit_code

    def signal(self, signal_number: int) -> None:
        if self._exit_code is not None:
            raise ProcessLookupError(f"{self.name} (process {self.pid}) has exited")
        self._connection.ask("signal", state=self._state, number=int(signal_number))

    def wait(self, timeout: float | None = None) -> int:
        wait_until(
            lambda: self.exit_code() is not None,
            _FOREVER_S if timeout is None else timeout,
            f"{self.name} (process {self.pid}) to end",
            _LOOK_EVERY_S,
        )
        assert self._exit_code is not None
        return self._exit_code

    def closed(self) -> None:
        """Its host was released, which has killed it unless its end is known."""
        if self._exit_code is None:
            self._exit_code = -signal.SIGKILL

    def _look(self) -> Any:
        return self._connection.ask("look", state=self._state)
