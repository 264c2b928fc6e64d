"""Making a local node: a directory, a network namespace, and the agent in it."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path, PurePosixPath

import infra
from infra.agent.cgroups import RUN
from infra.agent.main import command_line
from infra.agent_client import AgentClient
from infra.copying import SeenThere
from infra.interface import InfraError
from infra.local.namespace import NetworkNamespace
from infra.local.network import Router
from infra.node import AgentNode, Made
from infra.sockets import Sockets
from infra.software import of_this_machine

_SOURCES = Path(infra.__file__).parents[1]
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH", RUN)
"""All that a node's processes see of our environment: it may hold secrets."""
_ENDS_WITHIN_S = 20.0


def make_node(name: str, directory: Path, namespace: NetworkNamespace, router: Router) -> AgentNode:
    """The node in ``namespace``, linked to ``router``, its files in ``directory``. Raises
    InfraError when there is no address left for it."""
    (directory / "logs").mkdir(parents=True)
    with ExitStack() as made:
        running, door = _start_agent(namespace, directory)
        made.callback(_end, running, name)
        address = router.attach(namespace)  # while the agent starts

        def last_words() -> str | None:
            return None if running.poll() is None else _log(directory).read_text(errors="replace")

        return AgentNode(
            Made(
                name=name,
                addresses=[address],
                directory=PurePosixPath(directory),
                agent=AgentClient(name, Sockets(name, door, last_words)),
                software=of_this_machine,
                shares=SeenThere(name, Path("/")),
                remove=made.pop_all().close,
            )
        )


def _start_agent(
    namespace: NetworkNamespace, directory: Path
) -> tuple["subprocess.Popen[bytes]", bytes]:
    """The agent's process, and where it listens: at an abstract name that the kernel has chosen, in
    our own network namespace and not in the node's. No file is left whoever is killed, and whoever
    asks before the agent is up simply waits."""
    with socket.socket(socket.AF_UNIX) as listener, _log(directory).open("wb") as log:
        listener.bind("")
        listener.listen()
        command = command_line(sys.executable, str(_SOURCES), "inherit", str(listener.fileno()))
        running = namespace.call(
            lambda: subprocess.Popen(
                command,
                pass_fds=(listener.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                start_new_session=True,
            )
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
