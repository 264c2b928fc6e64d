"""The agent as a program. Roles:

    listen PATH     serve whoever connects to the Unix socket PATH, until SIGTERM
    inherit FD      the same with a listening socket that was inherited
    serve           serve who is at standard input and output, until that ends
    connect PATH    be the way to the agent that listens at PATH, for one of the other kind

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
    """Runs the agent where ``path`` is what this package is found in, a directory or a zip file,
    without looking for anything else on the way."""
    run = "from ackproof.infra.agent.main import main; main()"
    code = f"import sys; sys.path.insert(0, {path!r}); {run}"
    return [python, "-I", "-S", "-c", code, *arguments]


def main() -> None:
    """Take on the role that the command line names."""
    role, *arguments = sys.argv[1:]
    if role == "connect":
        connect(*arguments)
        return
    from ackproof.infra.agent.verbs import VERBS  # a way needs none of it

    take_on(role, arguments, VERBS)


def take_on(role: str, arguments: Sequence[str], verbs: "Verbs") -> None:
    """Any role but ``connect``, with what is in the table ``verbs``."""
    from ackproof.infra.agent.server import Server

    if role == "serve":
        Server(verbs).serve_one(StandardStreams())
    else:
        Server(verbs).listen({"listen": listening, "inherit": inherited}[role](*arguments))


def listening(path: str) -> socket.socket:
    """A socket that listens at ``path``, where it appears when it does."""
    aside = f"{path}.new"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(aside)
    listener.listen()
    os.rename(aside, path)
    return listener


def inherited(descriptor: str) -> socket.socket:
    """The listening socket that we were given. What we start must not have it: it would keep the
    door open when we are dead, and nobody behind it."""
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
        """There is none: the other end has one."""

    def close(self) -> None:
        """With the process."""


def connect(path: str) -> None:
    """Pass on what comes, either way, until one side ends. Where nobody listens, the first request
    is answered with that: else it would look like a lost connection, and be tried again."""
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
        gone = "its agent is gone, and every process below it: was the host restarted?"
        wire.send_header(error_of(ConnectionError(f"{gone} ({error})")))
        wire.flush()
        return
    threading.Thread(target=_pump, args=(here.recv, there.sendall), daemon=True).start()
    _pump(there.recv, here.sendall)


def _pump(take: Callable[[int], bytes], give: Callable[[bytes], None]) -> None:
    # An agent that is killed before it has read what it was asked resets the connection.
    with contextlib.suppress(ConnectionError):
        while data := take(_CHUNK):
            give(data)
    os._exit(0)
