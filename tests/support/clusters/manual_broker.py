"""``python manual_broker.py start|stop|kill|pause|resume DIRECTORY``: a broker as a user
starts it by hand who knows nothing of the harness. The directory holds its ``server.properties``,
and in ``command``, as JSON, what it is started with, if that is not the bundled broker; what runs
is known by the file ``pid`` there."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ackproof.infra.machine.waiting import wait_until

COMMAND = "command"
_ENDS_WITHIN_S = 50
_SIGNALS = {"pause": signal.SIGSTOP, "resume": signal.SIGCONT}


def main(what: str, directory: Path) -> None:
    if what == "start":
        start(directory)
    elif what in _SIGNALS:
        os.kill(pid_of(directory), _SIGNALS[what])
    else:
        end(directory, signal.SIGTERM if what == "stop" else signal.SIGKILL)


def start(directory: Path) -> None:
    with (directory / "server.log").open("ab") as log:
        running = subprocess.Popen(
            _command(directory),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (directory / "pid").write_text(str(running.pid))


def inventory(directories: Mapping[int, Path]) -> Mapping[str, Any]:
    """The section ``servers`` of a campaign file: commands, for the brokers in ``directories``."""
    words = ("start", "stop", "kill", "pause", "resume")
    return {
        f"broker-{n}": {
            "commands": {word: [sys.executable, __file__, word, str(directory)] for word in words}
        }
        for n, directory in directories.items()
    }


def _command(directory: Path) -> list[str]:
    try:
        words: list[str] = json.loads((directory / COMMAND).read_text())
    except FileNotFoundError:
        return [
            sys.executable,
            "-P",
            "-m",
            "ackproof.broker",
            "--config",
            str(directory / "server.properties"),
        ]
    return words


def end(directory: Path, signal_number: int) -> None:
    """Nothing happens to one that is gone."""
    with suppress(ProcessLookupError, FileNotFoundError):
        pid = pid_of(directory)
        os.kill(pid, signal_number)
        wait_until(lambda: not runs(pid), _ENDS_WITHIN_S, f"the end of {pid}")


def pid_of(directory: Path) -> int:
    return int((directory / "pid").read_text())


def runs(pid: int) -> bool:
    """A zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
