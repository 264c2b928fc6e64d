"""``python by_hand.py start|stop|kill|pause|resume DIRECTORY``: a broker as somebody starts it by
hand who knows nothing of the harness. The directory holds its ``server.properties``; what runs is
known by the file ``pid`` there."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from infra.waiting import wait_until

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
    command = [sys.executable, "-m", "broker", "--config", str(directory / "server.properties")]
    with (directory / "server.log").open("ab") as log:
        running = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (directory / "pid").write_text(str(running.pid))


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
