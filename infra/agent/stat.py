"""What the kernel says of a process: the one reader of ``/proc/<pid>/stat``."""

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple


class Stat(NamedTuple):
    """``letter``: of its state (proc(5): R, S, D, T, t, Z, X, ...). ``start``: when it started, in
    clock ticks since boot."""

    letter: str
    parent: int
    start: int


def stat(pid: int) -> Stat:
    """Raises ProcessLookupError when there is none of that id; a zombie is one."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            said = file.read()
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProcessLookupError(f"no process {pid}") from error
    # The second field, the program's name, may hold blanks and parentheses of its own.
    fields = said.rpartition(")")[2].split()
    return Stat(fields[0], int(fields[1]), int(fields[19]))


def schedule_times(pid: int) -> Iterator[tuple[int, int]]:
    """Yield how long each thread of a process ran, and how long it was ready to run and waited for
    a processor, in nanoseconds (the kernel's *Documentation/scheduler/sched-stats.rst*). Nothing
    where the kernel does not count, or the process is gone."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, ValueError):
                with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as file:
                    ran, waited, _ = map(int, file.read().split())
                yield ran, waited


def children(parent: int) -> Iterator[int]:
    """The processes whose parent is ``parent``, zombies too."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if stat(int(name)).parent == parent:
                    yield int(name)
            except ProcessLookupError:
                continue
