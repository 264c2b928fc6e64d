"""The agent as a program. Roles:

    listen PATH [SECONDS]
                    serve each client of the Unix socket PATH, until SIGTERM, or until no client has
                    asked anything for so many seconds
    inherit FD      the same with a listening socket that was inherited
    serve           serve the client at standard input and output, until that ends
    connect PATH    connect standard input and output with the agent that listens at PATH

``python -I -S`` is enough to run it: see :func:`command_line`.
"""

import contextlib
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ackproof.infra.agent.wire import Wire, error_of

if TYPE_CHECKING:
    from ackproof.infra.agent.verbs import Verbs

_CHUNK = 1 << 16


def command_line(python: str, path: str, *arguments: str) -> Sequence[str]:
    """Return the command that runs the agent from ``path``, without any other search path.

    ``path`` contains this package. It is a directory or a zip file.
    """
    run = "from ackproof.infra.agent.main import main; main()"
    code = f"import sys; sys.path.insert(0, {path!r}); {run}"
    return [python, "-I", "-S", "-c", code, *arguments]


def main() -> None:
    """Run the role that the command line names."""
    role, *arguments = sys.argv[1:]
    if role == "connect":
        connect(*arguments)
        return
    from ackproof.infra.agent.verbs import VERBS  # connecting needs none of it

    take_on(role, arguments, VERBS)


def take_on(role: str, arguments: Sequence[str], verbs: "Verbs") -> None:
    """Run any role but ``connect``, with the functions in the table ``verbs``."""
    from ackproof.infra.agent.server import AgentServer

    if role == "serve":
        AgentServer(verbs).serve_one(StandardStreams())
    else:
        place, *lease = arguments
        listener = {"listen": listening, "inherit": inherited}[role](place)
        AgentServer(verbs).listen(listener, float(lease[0]) if lease else None)


def listening(path: str) -> socket.socket:
    """Return a socket that listens at ``path``. The path appears once the socket listens."""
    aside = f"{path}.new"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(aside)
    listener.listen()
    os.rename(aside, path)
    return listener


def inherited(descriptor: str) -> socket.socket:
    """Return the listening socket that was inherited.

    Children must not inherit it in turn. They would keep it open when the agent is dead, with no
    process to accept connections.
    """
    listener = socket.socket(fileno=int(descriptor))
    listener.set_inheritable(False)
    return listener


class StandardStreams:
    """Standard input and output as a stream."""

    def recv(self, size: int) -> bytes:
        return os.read(0, size)

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(1, rest) :]

    def settimeout(self, seconds: float | None) -> None:
        """Set no limit: the other end has one."""

    def close(self) -> None:
        """Do nothing: the streams end with the process."""


def connect(path: str) -> None:
    """Pass on data in both directions until one side ends.

    If no agent listens, the first request is answered with that error. Otherwise it would look like
    a lost connection, and be tried again.
    """
    here = StandardStreams()
    there = socket.socket(socket.AF_UNIX)
    try:
        os.chdir(os.path.dirname(path))  # a socket's path may have 108 bytes
        there.connect(os.path.basename(path))
    except OSError as error:
        wire = Wire(here)
        wire.header()
        for _ in wire.body():
            pass
        wire.end_body()
        gone = "its agent and every process below it are gone: was the host restarted?"
        wire.send_header(error_of(ConnectionError(f"{gone} ({error})")))
        wire.flush()
        return
    threading.Thread(target=_pump, args=(here.recv, there.sendall), daemon=True).start()
    _pump(there.recv, here.sendall)


def _pump(take: Callable[[int], bytes], give: Callable[[bytes], None]) -> None:
    # An agent that is killed before it has read its request resets the connection.
    with contextlib.suppress(ConnectionError):
        while data := take(_CHUNK):
            give(data)
    os._exit(0)
