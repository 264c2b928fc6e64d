"""An agent on this machine that is a child of ours, and serves a node from within its directory."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ackproof import infra
from ackproof.infra.agent.main import command_line
from ackproof.infra.agent_client import AgentClient
from ackproof.infra.interface import InfraError
from ackproof.infra.sockets import Sockets

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH")
"""All that a node's processes see of our environment: it may hold secrets."""

_SOURCES = Path(infra.__file__).parents[2]
_ENDS_WITHIN_S = 20.0

Running = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class AgentProcess:
    """The agent of the node ``name``. ``door``: where it listens; ``log``: what it has to say."""

    name: str
    running: Running
    door: bytes
    log: Path

    def client(self) -> AgentClient:
        """Asks it."""
        return AgentClient(self.name, Sockets(self.name, self.door, self._last_words))

    def end(self) -> None:
        """The agent ends everything below it first. Raises InfraError when it does not end."""
        self.running.terminate()
        try:
            self.running.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            self.running.kill()
            told = f"the agent of {self.name} does not end (process {self.running.pid})"
            raise InfraError(told) from error

    def _last_words(self) -> str | None:
        if self.running.poll() is None:
            return None
        return self.log.read_text(errors="replace")


def start(
    name: str,
    directory: Path,
    *,
    before: Sequence[str] = (),
    inherited: Sequence[str] = INHERITED,
    within: Callable[[Callable[[], Running]], Running] = lambda spawn: spawn(),
) -> AgentProcess:
    """It listens at an abstract name that the kernel has chosen, in our own network namespace. No
    file is left whoever is killed, and whoever asks before the agent is up simply waits.

    Args:
        before: A command that is to execute the agent's.
        inherited: Of our environment.
        within: Calls what starts the process, from wherever that is to be started.
    """
    log_file = directory / "agent.log"
    with socket.socket(socket.AF_UNIX) as listener, log_file.open("wb") as log:
        listener.bind("")
        listener.listen()
        command = command_line(sys.executable, str(_SOURCES), "inherit", str(listener.fileno()))
        running = within(
            lambda: subprocess.Popen(
                [*before, *command],
                pass_fds=(listener.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: os.environ[name] for name in inherited if name in os.environ},
                start_new_session=True,
            )
        )
        return AgentProcess(name, running, listener.getsockname(), log_file)
