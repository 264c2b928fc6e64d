"""A server that ran on this machine before the agent came: its process is not the agent's.

The process is found by the port at which it listens. Each change is first noted in a file in the
directory of the run's claim, with its undoing. :func:`restore` undoes all of them, whatever becomes
of the agent.
"""

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from typing import Any

from ackproof.infra.agent import cgroups, disks, privilege, processes
from ackproof.infra.agent.stat import children, stat
from ackproof.infra.agent.wire import RefusedByNode

_PID = re.compile(r"\bpid=(\d+)")
_CHANGES = "changes.jsonl"
_FILLER = ".ackproof-filler"
_PROBE = ".ackproof-probe"
"""Files in a log directory. Kafka takes no notice of files there, but of directories."""
_NAMED_MAX = 5
_ENDED = frozenset("ZX")
_SEGMENT = re.compile(r"\d{20}\.log")
"""The name of a segment of a partition's log."""


def listener(port: int) -> int | None:
    """Return the process that listens on a TCP port, or None if there is none.

    Raises Refused if there are several.
    """
    found = _PID.findall(privilege.as_root(["ss", "-Hltnp", f"sport = :{port:d}"]))
    pids = {int(pid) for pid in found}
    if len(pids) > 1:
        named = ", ".join(map(str, sorted(pids)))
        raise RefusedByNode(f"several processes listen on port {port}: {named}")
    return next(iter(pids), None)


def found(port: int) -> dict[str, int] | None:
    """Return the ``pid`` and the ``start`` of the process that listens on a TCP port, or None if
    there is none. The two together name it for ever.

    Raises Refused if there are several.
    """
    pid = listener(port)
    with contextlib.suppress(ProcessLookupError):
        return None if pid is None else {"pid": pid, "start": stat(pid).start}
    return None


def seen(pid: int, start: int) -> dict[str, Any]:
    """Return the ``state`` of a process that :func:`found` named, and its ``scheduled`` times."""
    try:
        now = stat(pid)
    except ProcessLookupError:
        now = None
    if now is None or now.start != start or now.letter in _ENDED:
        return {"state": "exited", "scheduled": None}
    state = "stopped" if now.letter in processes.STOPPED else "running"
    return {"state": state, "scheduled": processes.scheduled_times(pid)}


def log_lines(pid: int, words: list[str], within_s: float) -> list[str] | None:
    """Return the lines with one of ``words`` in the log files of a process, in order.

    These are the files that it has open and whose names end with ``.log``, and what it has put
    aside beside them in the last ``within_s`` seconds. Segments of partitions are none. Return None
    if it has no such file open. Paths are seen as the process sees them, which may have another
    root.
    """
    opened = set(_log_files(pid))
    since = time.time() - within_s
    files = [
        entry
        for path in opened
        for entry in os.scandir(os.path.dirname(path))
        if entry.name.startswith(os.path.basename(path)) and entry.stat().st_mtime >= since
    ]
    lines = []
    for entry in sorted(files, key=lambda entry: entry.stat().st_mtime):
        with open(entry.path, encoding="utf-8", errors="replace") as file:
            lines += [line for line in file if any(word in line for word in words)]
    return lines if opened else None


def _log_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                if path.endswith(".log") and not _SEGMENT.fullmatch(os.path.basename(path)):
                    yield f"/proc/{pid}/root{path}"


def _server(port: int) -> int:
    pid = listener(port)
    if pid is None:
        raise RefusedByNode(f"no process listens on port {port}")
    return pid


def restore(directory: str) -> None:
    """Undo every change that is noted in ``directory``, the last one first. Idempotent.

    Raises Refused, once the others are undone, with those that cannot be undone.
    """
    failures = []
    for change in reversed(_noted(os.path.join(directory, _CHANGES))):
        try:
            _undo(change)
        except OSError as error:
            failures.append(f"{change}: {error}")
    if failures:
        raise RefusedByNode("; ".join(failures))


def _noted(path: str) -> list[dict[str, Any]]:
    """Return the changes in the file. A line that was being written announces none yet."""
    found = []
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        for line in file:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
    return found


def _note(change: dict[str, Any]) -> None:
    with open(_CHANGES, "a", encoding="utf-8") as file:
        file.write(json.dumps(change) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _undo(change: dict[str, Any]) -> None:
    """Undo a change. What it changed may be gone: a control group ends with its unit."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        if "remove" in change:
            os.unlink(change["remove"])
        elif "resume" in change:
            _send(change["resume"], change["start"], signal.SIGCONT)
        else:
            cgroups.restore(change["restore"])


# --- signals --------------------------------------------------------------------------------------


def pause(port: int) -> None:
    """Stop the server's process until :func:`resume`. Raises Refused for the first process of a
    container, to which the kernel passes no such signal from within."""
    pid = _server(port)
    if pid == 1:
        raise RefusedByNode("it is the first process of its container, which cannot be paused")
    start = stat(pid).start
    _note({"resume": pid, "start": start})
    _send(pid, start, signal.SIGSTOP)


def resume(port: int) -> None:
    """Let the server's process continue. Idempotent."""
    pid = _server(port)
    _send(pid, stat(pid).start, signal.SIGCONT)


def _send(pid: int, start: int, number: int) -> None:
    """Send a signal to the process that started then. Raises ProcessLookupError if it has ended,
    whichever process has its id now."""
    descriptor = os.pidfd_open(pid)
    try:
        if stat(pid).start != start:
            raise ProcessLookupError(f"process {pid} is another one by now")
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


# --- room on the disk of its logs -----------------------------------------------------------------


def fill(directory: str) -> None:
    """Take all the room that is left on the disk of a log directory. Idempotent."""
    path = os.path.join(directory, _FILLER)
    _note({"remove": path})
    disks.take_room(path)


def empty(directory: str) -> None:
    """Undo :func:`fill`. Idempotent."""
    _undo({"remove": os.path.join(directory, _FILLER)})


def refuses_writes(directory: str) -> str | None:
    """Return the error with which a synced write fails there, see ``disks.refuses_writes``.

    A server that ends may give room back. While the disk must be full, that is taken first.
    """
    filler = os.path.join(directory, _FILLER)
    if os.path.exists(filler):
        disks.take_room(filler)
    return disks.refusal(os.path.join(directory, _PROBE))


# --- limits ---------------------------------------------------------------------------------------
#
# The limit is that of the control group in which the server is, which must hold nothing else. With
# systemd it is that of its unit.


class _Limit:
    """A limit in force: the group, what the kernel had counted before, and the former settings."""

    def __init__(self, group: cgroups.ForeignGroup) -> None:
        self.group = group
        self.before = group.counters()
        self.settings = group.settings()


_limits: dict[str, _Limit] = {}
"""The limits in force, by controller."""


def limit_obstacle(what: str) -> str | None:
    """Return why no process can be limited here, or None if one in a group of its own can. Nothing
    is changed."""
    try:
        cgroups.hierarchy_of(what)
    except RefusedByNode as refused:
        return str(refused)
    return None


def limit(port: int, what: str, amount: int) -> None:
    """Limit a controller of the server's own control group. Idempotent.

    Args:
        amount: For CPU, microseconds in each tenth of a second; for memory, bytes beyond what the
            group has now.

    Raises Refused if the group holds other processes, too.
    """
    if what in _limits:
        return
    pid = _server(port)
    group = cgroups.ForeignGroup(pid, what)
    if others := group.members() - {*_parents(pid), *_family(pid)}:
        named = ", ".join(map(str, sorted(others)[:_NAMED_MAX]))
        raise RefusedByNode(f"its control group {group.path} has other processes, too: {named}")
    new = _Limit(group)
    _note({"restore": new.settings})
    _limits[what] = new
    group.limit(amount)


def lift(what: str) -> None:
    """Undo :func:`limit`. Idempotent."""
    if (limited := _limits.pop(what, None)) is not None:
        _undo({"restore": limited.settings})


def counted(what: str) -> dict[str, int]:
    """Return what the kernel has counted since the limit was set; empty without a limit.

    A group ends with its unit, and the limit with it.
    """
    if what not in _limits:
        return {}
    with contextlib.suppress(FileNotFoundError):
        now = _limits[what].group.counters()
        return {name: value - _limits[what].before.get(name, 0) for name, value in now.items()}
    return {}


def _parents(pid: int) -> Iterator[int]:
    """Yield the processes that started this one. A unit may begin with a shell that waits."""
    while (pid := stat(pid).parent) > 0:
        yield pid


def _family(pid: int) -> Iterator[int]:
    yield pid
    for child in children(pid):
        yield from _family(child)
