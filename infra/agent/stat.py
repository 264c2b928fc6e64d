"""The kernel's facts about a process: the only reader of ``/proc/<pid>/stat``."""

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple


class ProcessStat(NamedTuple):
    """The state of a process.

    ``letter`` is the letter of its state (proc(5): R, S, D, T, t, Z, X, ...). ``start`` is its
    start in clock ticks since boot.
    """

    letter: str
    parent: int
    start: int


def stat(pid: int) -> ProcessStat:
    """Return the state of a process, which may be a zombie. Raises ProcessLookupError without
    one."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            said = file.read()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProcessLookupError(f"no process {pid}") from error
    # The second field, the program's name, may hold blanks and parentheses.
    fields = said.rpartition(")")[2].split()
    return ProcessStat(fields[0], int(fields[1]), int(fields[19]))


def schedule_times(pid: int) -> Iterator[tuple[int, int]]:
    """Yield for each thread of a process how long it ran and how long it waited for a processor.

    The unit is nanoseconds (the kernel's *Documentation/scheduler/sched-stats.rst*). Yield nothing
    if the kernel does not count, or the process is gone.
    """
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError):
                with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                    ran, waited, _ = map(int, file.read().split())
                yield ran, waited


def children(parent: int) -> Iterator[int]:
    """Yield the processes whose parent is ``parent``, zombies too."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if stat(int(name)).parent == parent:
                    yield int(name)
            except ProcessLookupError:
                continue
