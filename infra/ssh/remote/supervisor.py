"""A supervisor: the parent of one process of the run, which outlives every connection.

It writes down who the process is and how it ended, in files that appear as a whole. Whatever the
process starts stays below the supervisor (it is their subreaper), daemons in sessions of their own
too. SIGTERM makes it kill everything below it, and again until nothing is left. Killed with
SIGKILL, it takes the process itself along (parent-death signal); its exit status is unknown then.
Not handled: a logind that kills what a user leaves behind (KillUserProcesses=yes; Debian's and
Ubuntu's default is no).
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra.identity import ProcessIdentity

_SET_PARENT_DEATH_SIGNAL = 1
_SET_CHILD_SUBREAPER = 36
_CANNOT_START = 127


def write_whole(path: Path, content: object) -> None:
    """Write JSON to a file that appears as a whole."""
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(content))
    aside.replace(path)


def supervise(directory: Path) -> None:
    """Start the process that ``command.json`` in ``directory`` describes, and see to its end."""
    _prctl(_SET_CHILD_SUBREAPER, 1)
    ending: list[int] = []

    def end(number: int, _frame: object) -> None:
        ending.append(number)
        _kill_children()

    command = json.loads((directory / "command.json").read_text())
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    child = os.fork()
    if child == 0:
        _become(command)
    signal.signal(signal.SIGTERM, end)
    write_whole(directory / "process.json", _identities(child))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    for pid, status in _ended():
        if pid == child:
            write_whole(directory / "exit.json", os.waitstatus_to_exitcode(status))
        if ending:
            _kill_children()


def _identities(child: int) -> dict[str, Any]:
    # A child that has ended is still there, as nobody has waited for it: a zombie has a start too.
    supervisor = ProcessIdentity.of(os.getpid())
    return {
        "process": {**asdict(supervisor), "pid": child, "start": _start_of(child)},
        "supervisor": asdict(supervisor),
    }


def _start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def _ended() -> Iterator[tuple[int, int]]:
    """Process id and status of everything below us as it ends, until nothing is left."""
    while True:
        try:
            yield os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _kill_children() -> None:
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit() and _parent(directory) == os.getpid():
            os.kill(int(directory.name), signal.SIGKILL)  # ours to reap: it cannot be another


def _parent(directory: Path) -> int | None:
    try:
        return int((directory / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _become(command: Mapping[str, Any]) -> None:
    """Turn this process into the one wanted. Does not return."""
    try:
        os.setsid()
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, programs do not
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for descriptor in (1, 2):
            os.dup2(log, descriptor)
        os.chdir(command["directory"])
        os.execvpe(command["argv"][0], command["argv"], command["env"])
    except OSError as error:
        os.write(2, f"cannot start {command['argv'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_START)


def _prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
