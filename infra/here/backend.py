"""The backend here: this machine as it is, without namespaces, for the clients of a cluster that is
there already. They go where this machine's network leads; nothing is cut, and nothing is deployed.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path, PurePosixPath

import infra
from infra.agent.main import command_line
from infra.agent.parents import dying_with
from infra.agent_client import AgentClient
from infra.copying import SeenThere
from infra.interface import Capability, InfraError, Node
from infra.links import AgentLinks
from infra.node import AgentNode, Made
from infra.nodes import Nodes
from infra.sockets import Sockets
from infra.software import of_this_machine

CAPABILITIES = frozenset({Capability.SIGNALS})
"""Of the clients' processes."""

_ADDRESS = "127.0.0.1"
_SOURCES = Path(infra.__file__).parents[1]
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH")
"""All that a node's processes see of our environment: it may hold secrets."""
_ENDS_WITHIN_S = 20.0


class HereBackend:
    """Implements ``infra.interface.Backend``. A node is a directory and an agent.

    Nodes are to be made by a thread that lives as long as they: the kernel tells an agent that its
    parent has died when that thread ends.

    Args:
        directory: Of the caller's, who also removes it; each node's files lie below
            ``<directory>/<node name>``.
    """

    name = "here"

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._nodes = Nodes(self._make)
        self.capabilities = CAPABILITIES
        self.links = AgentLinks(self._nodes)

    def node(self, name: str) -> AgentNode:
        """Raises ValueError for a name that is none, InfraError when closed."""
        return self._nodes.get(name)

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        return self._nodes.reaches(source, target, port, timeout)

    def close(self) -> None:
        if self._nodes.close():
            for node in self._nodes.made():
                node.close()

    def _make(self, name: str) -> AgentNode:
        directory = self._directory / name
        (directory / "logs").mkdir(parents=True)
        running, door = _start_agent(directory)

        def last_words() -> str | None:
            return None if running.poll() is None else _log(directory).read_text(errors="replace")

        return AgentNode(
            Made(
                name=name,
                addresses=[_ADDRESS],
                directory=PurePosixPath(directory),
                agent=AgentClient(name, Sockets(name, door, last_words)),
                software=of_this_machine,
                shares=SeenThere(name, Path("/")),
                remove=lambda: _end(running, name),
            )
        )


def _start_agent(directory: Path) -> tuple["subprocess.Popen[bytes]", bytes]:
    """The agent's process, and where it listens: at an abstract name that the kernel has chosen."""
    with socket.socket(socket.AF_UNIX) as listener, _log(directory).open("wb") as log:
        listener.bind("")
        listener.listen()
        command = command_line(sys.executable, str(_SOURCES), "inherit", str(listener.fileno()))
        running = subprocess.Popen(
            # There is no PID namespace whose end would take it along.
            [*dying_with(os.getpid()), *command],
            pass_fds=(listener.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            start_new_session=True,
        )
        return running, listener.getsockname()


def _end(running: "subprocess.Popen[bytes]", name: str) -> None:
    """The agent ends everything below it first."""
    running.terminate()
    try:
        running.wait(_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired as error:
        running.kill()
        raise InfraError(f"the agent of {name} does not end (process {running.pid})") from error


def _log(directory: Path) -> Path:
    return directory / "agent.log"
