"""Nodes on this machine. Each is a directory and an agent, which is a child of this process."""

import ipaddress
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ackproof import infra
from ackproof.infra.agent.main import command_line
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.software import of_this_machine
from ackproof.infra.node.agent_client import AgentClient, Sockets
from ackproof.infra.node.copying import SamePathShares
from ackproof.infra.node.node import AgentNode, NodeParts

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH")
"""All variables of this environment that a node's processes get: others may hold secrets."""

_SOURCES = Path(infra.__file__).parents[2]
_ENDS_WITHIN_S = 20.0

Running = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class LocalAgent:
    """The agent of the node ``name``. It listens at ``door``, and writes its messages to
    ``log``."""

    name: str
    running: Running
    door: bytes
    log: Path

    def client(self) -> AgentClient:
        """Return a client of the agent."""
        return AgentClient(self.name, Sockets(self.name, self.door, self._last_words))

    def end(self) -> None:
        """End the agent, which first ends everything below it. Raises InfraError if it does not
        end."""
        self.running.terminate()
        try:
            self.running.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            self.running.kill()
            reason = f"the agent of {self.name} does not end (process {self.running.pid})"
            raise InfraError(reason) from error

    def _last_words(self) -> str | None:
        if self.running.poll() is None:
            return None
        return self.log.read_text(errors="replace")


def start_agent(
    name: str,
    directory: Path,
    *,
    before: Sequence[str] = (),
    inherited: Sequence[str] = INHERITED,
    within: Callable[[Callable[[], Running]], Running] = lambda spawn: spawn(),
) -> LocalAgent:
    """Start an agent that listens at an abstract name of the kernel, in this network namespace.

    No file is left, whichever process is killed. A client that connects before the agent is up
    waits.

    Args:
        before: A command that executes the agent's command.
        inherited: The variables of this environment that it gets.
        within: Calls the function that starts the process, from the place where it must start.
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
        return LocalAgent(name, running, listener.getsockname(), log_file)


def addresses_of_interfaces() -> list[str]:
    """Return every address of this machine that other hosts can use."""
    import psutil  # the validation of a campaign imports this module, and needs no address

    found = [
        ipaddress.ip_address(one.address)
        for each in psutil.net_if_addrs().values()
        for one in each
        if one.family in (socket.AF_INET, socket.AF_INET6)
    ]
    return [str(one) for one in found if not (one.is_loopback or one.is_link_local)]


# --- nodes ------------------------------------------------------------------------------------


class Directories:
    """The directories of a backend's nodes by name, below a directory of the caller."""

    def __init__(self, parent: Path) -> None:
        self._parent = parent.absolute()

    def make(self, name: str) -> Path:
        directory = self._parent / name
        (directory / "logs").mkdir(parents=True)
        return directory

    def remove(self, name: str) -> None:
        """Remove the directory of a node. Idempotent."""
        if (self._parent / name).exists():
            shutil.rmtree(self._parent / name)

    def remains(self, name: str) -> Sequence[str]:
        """Return what is left of a node, see ``infra.api.interface.Backend``."""
        directory = self._parent / name
        return [str(directory)] if directory.exists() else []


def node_of(
    agent: LocalAgent,
    addresses: Sequence[str],
    directory: Path,
    remove: Callable[[], None],
    *,
    impairs: bool = True,
) -> AgentNode:
    """Return the node that this agent serves. The others are described in
    ``infra.node.node.NodeParts``."""
    return AgentNode(
        NodeParts(
            name=agent.name,
            addresses=addresses,
            directory=PurePosixPath(directory),
            agent=agent.client(),
            software=of_this_machine,
            shares=SamePathShares(agent.name, Path("/")),
            artifacts=None,
            remove=remove,
            impairs=impairs,
        )
    )
