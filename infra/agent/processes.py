"""The node's processes: start, state, signals and end. Each is known by a number of the agent."""

import os
from collections.abc import Mapping, Sequence

from ackproof.infra.agent import cgroups, children
from ackproof.infra.agent.children import Child, in_main_thread
from ackproof.infra.agent.stat import schedule_times, stat

STOPPED = frozenset("Tt")
"""The letters of stopped processes (proc(5))."""
_started: list[Child] = []


def start(argv: Sequence[str], env: Mapping[str, str], directory: str, log: str) -> dict[str, int]:
    """Start a program with ``env`` added to the agent's environment, and its output in ``log``.

    Return its ``number`` and its ``pid``.
    """

    def start_it() -> dict[str, int]:
        os.makedirs(os.path.dirname(log), exist_ok=True)
        written = (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        streams = [nothing, written, (os.POSIX_SPAWN_DUP2, 1, 2)]
        there = ("env", f"--chdir={directory}", "--")
        child = children.spawn([*there, *argv], {**os.environ, **env}, streams)
        _started.append(child)
        return {"number": len(_started) - 1, "pid": child.pid}

    started = in_main_thread(start_it)
    cgroups.adopt(started["pid"])
    return started


def limit(what: str, amount: int) -> None:
    """Limit ``what`` for the running processes together; see ``cgroups.limit``."""
    cgroups.limit(what, amount, [child.pid for child in tuple(_started) if child.code is None])


def state(number: int) -> dict[str, object]:
    """Return the ``state`` (infra.api.interface.ProcessState) and the ``exit_code`` of a process.

    The exit code is negative for a signal, and None while the process lives. A process has exited
    once its exit code is known: after a kill, its first thread may be gone (a zombie in ``/proc``)
    while others still write.
    """

    def look() -> dict[str, object]:
        children.reap()
        child = _started[number]
        if child.code is not None:
            return {"state": "exited", "exit_code": child.code}
        stopped = stat(child.pid).letter in STOPPED
        return {"state": "stopped" if stopped else "running", "exit_code": None}

    return in_main_thread(look)


def scheduled(number: int) -> dict[str, int] | None:
    """Return the nanoseconds that its threads ran, and waited for a processor, since its start.

    Return None if the kernel does not count, or the process has exited. Threads that have ended are
    left out, so a sum may be smaller than the one before.
    """

    def look() -> dict[str, int] | None:
        child = _started[number]
        if child.code is not None:
            return None
        return scheduled_times(child.pid)

    return in_main_thread(look)


def scheduled_times(pid: int) -> dict[str, int] | None:
    """Return :func:`scheduled` of any process."""
    times = tuple(schedule_times(pid))
    if not times:
        return None
    ran, waited = (sum(each) for each in zip(*times, strict=True))
    return {"ran_ns": ran, "waited_ns": waited}


def send(number: int, signal_number: int) -> None:
    """Send a signal. Raises ProcessLookupError if the process has exited."""
    in_main_thread(lambda: children.signal_child(_started[number], signal_number))


def end_all() -> list[int | None]:
    """Kill every process and all that it has started.

    Return the exit codes of all that were ever started, by number.
    """

    def end() -> list[int | None]:
        children.end_all()
        return [child.code for child in _started]

    return in_main_thread(end)
