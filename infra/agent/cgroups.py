"""Limits on CPU and memory by control groups.

The node's processes are put into a group of the agent that has a limit, and taken out when it is
lifted. Both versions of control groups are supported. Version 1 is described in Linux,
Documentation/admin-guide/cgroup-v1/memory.rst and scheduler/sched-bwc.rst, version 2 in
admin-guide/cgroup-v2.rst. The version that has the controller on this node is used.

Groups are made at the top of the hierarchy. In version 2 processes may be moved there from any
group. Memory is charged to the group in which it was touched first, and stays charged there. A
group therefore does not count what a process had before. Its limit is the amount of memory that can
be added.

A group belongs to the run in its name (``ACKPROOF_RUN``). When all processes of a run are dead,
:func:`remove` removes the groups that it left.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from ackproof.infra.agent import privilege
from ackproof.infra.agent.wire import RefusedByNode

RUN = "ACKPROOF_RUN"
"""The environment variable of the agent that names the run it belongs to, if it has a name."""

CPU = "cpu"
MEMORY = "memory"
_PREFIX = "ackproof-"
_OURS = f"{_PREFIX}{os.urandom(4).hex()}.{os.environ.get(RUN, '')}"
_PERIOD_US = 100_000
_GONE_WITHIN_S = 5.0


class Hierarchy(NamedTuple):
    """The place of a controller: the version and the directory of the topmost group."""

    version: int
    top: str


_limits: dict[str, int] = {}
"""The limits in force on this node, by controller."""


def obstacle(what: str) -> str | None:
    """Return why no group with a limit of ``what`` (CPU, MEMORY) can be made here, or None if one
    can.

    A group is made and removed again to find out.
    """
    group = f"{_PREFIX}trial-{_OURS.removeprefix(_PREFIX)}"
    try:
        _make(hierarchy_of(what), group, what, 1 << 20)
        _remove(f"{hierarchy_of(what).top}/{group}")
    except (RefusedByNode, OSError) as error:
        return str(error)
    return None


def limit(what: str, amount: int, pids: Iterable[int]) -> None:
    """Limit the amount that these processes, and those of :func:`adopt`, get together. Idempotent.

    Args:
        amount: For CPU, microseconds in each tenth of a second; for memory, bytes.

    Raises Refused or OSError if the limit cannot be set.
    """
    hierarchy = hierarchy_of(what)
    if hierarchy.version == 2 and _limits.keys() - {what}:
        # In version 2 a process is in one group for all controllers. With a group for each limit,
        # the second would take the process out of the first.
        raise RefusedByNode(
            f"{', '.join(_limits)} is limited already, and {what} cannot be limited as well"
        )
    _make(hierarchy, _OURS, what, amount)
    _limits[what] = amount
    for pid in pids:
        _join(_group(hierarchy), pid)


def adopt(pid: int) -> None:
    """Apply the limits in force to a process that was started.

    A process that cannot be limited runs without a limit: its starter must not take it for one that
    failed to start.
    """
    for what in tuple(_limits):
        with suppress(OSError, RefusedByNode):
            _join(_group(hierarchy_of(what)), pid)


def lift(what: str) -> None:
    """Move the processes out of the group, and remove the group. Idempotent."""
    _limits.pop(what, None)
    hierarchy = hierarchy_of(what)
    group = _group(hierarchy)
    if not os.path.isdir(group):
        return
    for pid in _members(group):
        _join(_home(hierarchy, what), pid)
    _remove(group)


def counted(what: str, *, here: bool = False) -> dict[str, int]:
    """Return what the kernel has counted since the limit was set; empty without a limit.

    With ``here``, return what it ever counted in the group that the agent itself is in. CPU has
    ``throttled`` (the tenths of a second in which a process had to wait) and ``throttled_us`` (the
    time waited). Memory has ``hits`` (how often the limit was reached) and ``killed`` (the
    processes killed for it).
    """
    hierarchy = hierarchy_of(what)
    group = _home(hierarchy, what) if here else _group(hierarchy)
    if not here and (what not in _limits or not os.path.isdir(group)):
        return {}
    return _counters(hierarchy, group, what)


# --- the group of a process that is not the agent's -----------------------------------------------


class ForeignGroup:
    """The control group in which a process is that the agent did not start.

    Raises Refused if the process is in no group of its own below the topmost.
    """

    def __init__(self, pid: int, what: str) -> None:
        self._what = what
        self._hierarchy = hierarchy_of(what)
        self.path = _group_of(f"/proc/{pid}/cgroup", self._hierarchy, what)
        if self.path == self._hierarchy.top:
            raise RefusedByNode(f"process {pid} has no control group of its own: run it as a unit")

    def members(self) -> set[int]:
        """Return the processes in the group and in the groups below it."""
        return {pid for group, _, _ in os.walk(self.path) for pid in _members(group)}

    def settings(self) -> dict[str, str]:
        """Return the present limit: the content of each of its files, by path."""
        files = _settings(self._hierarchy, self._what, 0)
        paths = [f"{self.path}/{file}" for file in files]
        if missing := [path for path in paths if not os.path.exists(path)]:
            raise RefusedByNode(f"the control group has no {missing[0]}")
        return {path: _read(path).strip() for path in paths}

    def limit(self, amount: int) -> None:
        """Limit CPU to ``amount`` microseconds in each tenth of a second, or memory to so many
        bytes beyond what the group has now."""
        if self._what == MEMORY:
            file = "memory.usage_in_bytes" if self._hierarchy.version == 1 else "memory.current"
            amount += int(_read(f"{self.path}/{file}"))
        for file, value in _settings(self._hierarchy, self._what, amount).items():
            _write(f"{self.path}/{file}", str(value))

    def counters(self) -> dict[str, int]:
        """Return what the kernel has ever counted in the group, named as in :func:`counted`."""
        return _counters(self._hierarchy, self.path, self._what)


def restore(settings: Mapping[str, str]) -> None:
    """Write former settings of a group back. Raises FileNotFoundError if the group is gone."""
    for path, text in settings.items():
        _write(path, text)


# --- files of the kernel --------------------------------------------------------------------------


def _counters(hierarchy: Hierarchy, group: str, what: str) -> dict[str, int]:
    if what == CPU:
        fields = _fields(f"{group}/cpu.stat")
        waited = fields.get("throttled_usec", fields.get("throttled_time", 0) // 1000)
        return {"throttled": fields["nr_throttled"], "throttled_us": waited}
    if hierarchy.version == 2:
        fields = _fields(f"{group}/memory.events")
        return {"hits": fields["max"], "killed": fields["oom_kill"]}
    killed = _fields(f"{group}/memory.oom_control").get("oom_kill", 0)
    return {"hits": int(_read(f"{group}/memory.failcnt")), "killed": killed}


def remove(run: str) -> None:
    """Remove the groups that a run has left. Raises Refused, and OSError while a process is in
    one."""
    for top in {hierarchy.top for what in (CPU, MEMORY) for hierarchy in _hierarchies(what)}:
        for name in os.listdir(top):
            if name.startswith(_PREFIX) and name.partition(".")[2] == run:
                _remove(f"{top}/{name}")


def hierarchy_of(what: str) -> Hierarchy:
    """Return the hierarchy of a controller. Raises Refused if none is mounted."""
    found = next(_hierarchies(what), None)
    if found is None:
        raise RefusedByNode(f"no control groups for {what} are mounted here")
    return found


def _hierarchies(what: str) -> Iterator[Hierarchy]:
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        mounted = [line.split() for line in mounts]
    for _, top, kind, options, *_rest in mounted:
        if kind == "cgroup" and what in options.split(","):
            yield Hierarchy(1, top)
        elif kind == "cgroup2" and what in _read(f"{top}/cgroup.controllers").split():
            yield Hierarchy(2, top)


def _make(hierarchy: Hierarchy, name: str, what: str, amount: int) -> None:
    if hierarchy.version == 2:
        _write(f"{hierarchy.top}/cgroup.subtree_control", f"+{what}")
    group = f"{hierarchy.top}/{name}"
    if not os.path.isdir(group):
        _as_we_may(lambda: os.mkdir(group), "mkdir", group)
    for file, value in _settings(hierarchy, what, amount).items():
        _write(f"{group}/{file}", str(value))


def _settings(hierarchy: Hierarchy, what: str, amount: int) -> dict[str, object]:
    """Return the content of each file of a group that sets a limit, by the file's name."""
    settings: dict[tuple[int, str], dict[str, object]] = {
        (1, CPU): {"cpu.cfs_period_us": _PERIOD_US, "cpu.cfs_quota_us": amount},
        (1, MEMORY): {"memory.limit_in_bytes": amount},
        (2, CPU): {"cpu.max": f"{amount} {_PERIOD_US}"},
        (2, MEMORY): {"memory.max": amount},
    }
    return settings[hierarchy.version, what]


def _remove(group: str) -> None:
    """Remove a group. The kernel takes a moment to forget a process that has ended."""
    over = time.monotonic() + _GONE_WITHIN_S
    while True:
        try:
            _as_we_may(lambda: os.rmdir(group), "rmdir", group)
        except FileNotFoundError:
            return
        except (OSError, RefusedByNode):
            if time.monotonic() >= over:
                raise
            time.sleep(0.05)
        else:
            return


def _group(hierarchy: Hierarchy) -> str:
    return f"{hierarchy.top}/{_OURS}"


def _home(hierarchy: Hierarchy, what: str) -> str:
    """Return the group of the agent and of what it starts, or the topmost if that is not
    visible."""
    return _group_of("/proc/self/cgroup", hierarchy, what)


def _group_of(listing: str, hierarchy: Hierarchy, what: str) -> str:
    with open(listing, encoding="utf-8") as groups:
        for line in groups:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            ours = what in controllers.split(",") if hierarchy.version == 1 else not controllers
            if ours and os.path.isdir(f"{hierarchy.top}{path}"):
                return f"{hierarchy.top}{path}"
    return hierarchy.top


def _join(group: str, pid: int) -> None:
    try:
        _write(f"{group}/cgroup.procs", str(pid))
    except (OSError, RefusedByNode):
        if os.path.isdir(f"/proc/{pid}"):  # a process that has ended needs no group
            raise


def _members(group: str) -> list[int]:
    return [int(pid) for pid in _read(f"{group}/cgroup.procs").split()]


def _fields(path: str) -> dict[str, int]:
    lines = (line.split() for line in _read(path).splitlines())
    return {name: int(value) for name, value in lines}


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _write(path: str, text: str) -> None:
    def write() -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    _as_we_may(write, "tee", path, text=text)


def _as_we_may(act: Callable[[], object], *argv: str, text: str = "") -> None:
    """Act directly if the agent runs as root, else by a program that sudo starts."""
    if os.geteuid() == 0:
        act()
    else:
        privilege.as_root(argv, text)
