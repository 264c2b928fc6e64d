"""The first process of a node's container (``python -m infra.docker.supervisor <log directory>``).

It starts the node's processes, knows how each ended, and reaps what is orphaned. None of them
ends the container, and neither does the harness's death: only its removal does, which kills them
all. It is asked by way of a Unix socket, one JSON object a connection:

    {"start": {"name", "argv", "env", "directory"}}   -> {"number", "pid"}
    {"state": number}                                 -> {"state", "exit_code"}
    {"signal": [number, signal number]}               -> {"sent"}
    {"software": null}                                -> infra.interface.Software
    {"ping": null}                                    -> {}

One thread, so nothing happens between looking at a process and signalling it: its id cannot come
to mean another.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra.interface import InfraError
from infra.software import of_this_machine

SOCKET = Path("/run/ackproof.sock")
_REQUEST_TIMEOUT_S = 10.0
_STATES = {"T": "stopped", "t": "stopped", "Z": "exited", "X": "exited"}


class Supervisor:
    """The processes of one node; their output goes to ``<logs>/<name>.log``."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: list[subprocess.Popen[bytes]] = []
        self._living: dict[int, subprocess.Popen[bytes]] = {}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked; the answer. Raises ValueError for what is no request."""
        match request:
            case {"start": command}:
                return self._start(**command)
            case {"state": number}:
                child = self._children[number]
                return {"state": self._state(child), "exit_code": child.returncode}
            case {"signal": [number, signal_number]}:
                return {"sent": self._signal(self._children[number], signal_number)}
            case {"software": None}:
                return asdict(of_this_machine())
            case {"ping": None}:
                return {}
        raise ValueError(f"not a request: {request}")

    def reap(self) -> None:
        """Take note of every process that has ended, children's orphans too."""
        while (ended := _ended()) is not None:
            child = self._living.pop(ended, None)
            if child is None:
                os.waitpid(ended, 0)
            else:
                child.wait()

    def _start(
        self, name: str, argv: list[str], env: dict[str, str], directory: str
    ) -> dict[str, Any]:
        # env becomes the program itself, or says in the log why not, and ends with 127.
        with (self._logs / f"{name}.log").open("ab") as log:
            child = subprocess.Popen(
                ["env", "--", *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env={**os.environ, **env},
                start_new_session=True,
            )
        self._children.append(child)
        self._living[child.pid] = child
        return {"number": len(self._children) - 1, "pid": child.pid}

    def _state(self, child: "subprocess.Popen[bytes]") -> str:
        if child.pid not in self._living:
            return "exited"
        # The second field, the program's name, may hold blanks and parentheses of its own.
        stat = Path(f"/proc/{child.pid}/stat").read_text()
        return _STATES.get(stat.rpartition(")")[2].split()[0], "running")

    def _signal(self, child: "subprocess.Popen[bytes]", number: int) -> bool:
        if child.pid not in self._living:
            return False
        os.kill(child.pid, number)
        return True


def main(logs: Path) -> None:
    """Serve until killed."""
    logs.mkdir(parents=True, exist_ok=True)
    supervisor = Supervisor(logs)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(SOCKET))
    listener.listen(64)
    wakeup, waker = socket.socketpair()
    for end in (wakeup, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        selector.register(wakeup, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is wakeup:
                    wakeup.recv(4096)
                    supervisor.reap()
                else:
                    _serve(listener, supervisor)


def _serve(listener: socket.socket, supervisor: Supervisor) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as stream:
        connection.settimeout(_REQUEST_TIMEOUT_S)
        try:
            request = json.loads(stream.readline())
            supervisor.reap()
            answer = supervisor.answer(request)
        except ConnectionError:  # the harness died
            return
        except (InfraError, OSError, ValueError, LookupError, TypeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        try:
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()
        except OSError:  # the harness died
            return


def _ended() -> int | None:
    """The id of a process that ended and is not reaped yet; None when there is none."""
    try:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return None if ended is None else ended.si_pid


if __name__ == "__main__":
    main(Path(sys.argv[1]))
