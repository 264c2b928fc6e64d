"""A process in a node's container, asked about by way of the container's supervisor."""

import json
import signal
import socket
from typing import Any

from infra.docker.supervisor import SOCKET
from infra.identity import ProcessIdentity
from infra.interface import InfraError, ProcessState
from infra.waiting import wait_until

_ANSWER_TIMEOUT_S = 10.0


class ContainerGone(InfraError):
    """The container is no more, nor is any process in it."""


class Supervisor:
    """A container's first process, seen from outside. ``init``: its identity on this machine."""

    def __init__(self, node: str, init: ProcessIdentity) -> None:
        self._node = node
        self._init = init
        # By way of the container's own file system: nothing needs to be mounted into it.
        self._path = f"/proc/{init.pid}/root{SOCKET}"

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Its answer. Raises ContainerGone, and InfraError when it does not answer or refuses."""
        if not self._init.lives():
            raise ContainerGone(f"the container of {self._node} is gone")
        try:
            answer = self._exchange(request)
        except (OSError, ValueError) as error:
            if not self._init.lives():
                raise ContainerGone(f"the container of {self._node} is gone") from error
            raise InfraError(f"{self._node} does not answer: {error}") from error
        if "error" in answer:
            raise InfraError(f"{self._node}: {answer['error']}")
        return answer

    def listens(self) -> bool:
        """Whether it serves yet. Raises ContainerGone."""
        try:
            self.ask({"ping": None})
        except ContainerGone:
            raise
        except InfraError:
            return False
        return True

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_ANSWER_TIMEOUT_S)
            connection.connect(self._path)
            with connection.makefile("rwb") as stream:
                stream.write(json.dumps(request).encode() + b"\n")
                stream.flush()
                answer: dict[str, Any] = json.loads(stream.readline())
                return answer


class DockerProcess:
    """Implements ``infra.interface.Process``. With the container, the kernel kills every process
    in it: they exited by SIGKILL then, unless seen to have ended otherwise."""

    def __init__(self, name: str, supervisor: Supervisor, number: int, pid: int) -> None:
        self.name = name
        self.pid = pid
        self._supervisor = supervisor
        self._number = number
        self._exit_code: int | None = None

    def state(self) -> ProcessState:
        if self._exit_code is not None:
            return ProcessState.EXITED
        try:
            answer = self._supervisor.ask({"state": self._number})
        except ContainerGone:
            answer = {"state": ProcessState.EXITED, "exit_code": -signal.SIGKILL}
        self._exit_code = answer["exit_code"]
        return ProcessState(answer["state"])

    def exit_code(self) -> int | None:
        self.state()
        return self._exit_code

    def signal(self, signal_number: int) -> None:
        try:
            sent = self._supervisor.ask({"signal": [self._number, int(signal_number)]})["sent"]
        except ContainerGone:
            sent = False
        if not sent:
            raise ProcessLookupError(f"{self.name} (process {self.pid}) has exited")

    def wait(self, timeout: float | None = None) -> int:
        what = f"the end of {self.name} (process {self.pid})"
        limit = float("inf") if timeout is None else timeout
        wait_until(lambda: self.exit_code() is not None, limit, what)
        assert self._exit_code is not None
        return self._exit_code
