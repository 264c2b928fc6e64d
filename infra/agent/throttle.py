"""Slow disks: the kernel limits the bytes a second of a device (blk-throttle).

With cgroup v1 the limit is set for the root group and for the agent's own group. The kernel writes
buffered data back in the name of the first, and processes sync in the name of the second. With v2
it is set for the agent's own group, if that has the controller ``io``. The device is a loop device
of the harness, so that no other program is slowed down.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ackproof.infra.agent import privilege
from ackproof.infra.agent.wire import RefusedByNode

_SYS_BLOCK = "/sys/block"
_NO_CONTROLLER = "no cgroup here has the controller blkio (v1) or io (v2)"


def obstacle() -> str | None:
    """Return why devices cannot be slowed down here, or None if they can. Nothing is changed."""
    limits = list(_limits())
    if not limits:
        return _NO_CONTROLLER
    try:
        for path, _, unlimited in limits:
            # A limit for a device that does not exist is refused with ENODEV if the kernel knows
            # limits.
            privilege.as_root(["tee", path], f"0:0 {unlimited}\n")
    except RefusedByNode as refusal:
        return None if "No such device" in str(refusal) else str(refusal)
    return None


def slow(path: str, bytes_per_s: int) -> None:
    """Limit reads and writes of the device of the file system at ``path``. Raises Refused."""
    limits = list(_limits())
    if not limits:
        raise RefusedByNode(_NO_CONTROLLER)
    for limit, some, _ in limits:
        _set(limit, f"{_device(path)} {some.format(bytes_per_s)}\n")


def unslow(path: str) -> None:
    """Undo :func:`slow`. Idempotent."""
    _lift(_device(path))


def bytes_per_s(path: str) -> int | None:
    """Return the kernel's limit for writes to the device of ``path``, or None without one."""
    device = _device(path)
    for limit, _, _ in _limits():
        for line in _read(limit).splitlines():
            number, _, rest = line.partition(" ")
            said = rest.partition("wbps=")[2].split(" ")[0] or rest
            if number == device and said.isdecimal() and "read_bps" not in limit:
                return int(said)
    return None


def lift_below(directory: str) -> None:
    """Lift the limits of every loop device whose image lies below ``directory``.

    They are left by a run that was killed, whose last writes would otherwise take hours.
    """
    within = os.path.realpath(directory) + os.sep
    # A host may have no /sys. Then no disk was slowed down there either.
    for name in os.listdir(_SYS_BLOCK) if os.path.isdir(_SYS_BLOCK) else ():
        image = _read(f"{_SYS_BLOCK}/{name}/loop/backing_file").strip()
        if image.startswith(within):
            _lift(_read(f"{_SYS_BLOCK}/{name}/dev").strip())


def _lift(device: str) -> None:
    for limit, _, unlimited in _limits():
        if any(line.split(" ")[0] == device for line in _read(limit).splitlines()):
            _set(limit, f"{device} {unlimited}\n")


def _set(limit: str, text: str) -> None:
    # As root, not by a program: the process that lifts leftover limits may be unable to start one
    # (init).
    if os.geteuid() != 0:
        privilege.as_root(["tee", limit], text)
        return
    try:
        with open(limit, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise RefusedByNode(f"{limit}: {error.strerror}") from error


def _device(path: str) -> str:
    number = os.stat(path).st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def _limits() -> Iterator[tuple[str, str, str]]:
    """Yield the files that hold limits, the format of a limit, and the text for none."""
    own = _own_groups()
    for kind, where, options in _hierarchies():
        if kind == "cgroup" and "blkio" in options:
            for group in dict.fromkeys(("/", own.get("blkio", "/"))):
                for name in ("read_bps_device", "write_bps_device"):
                    path = os.path.join(where, group.lstrip("/"), f"blkio.throttle.{name}")
                    if os.path.exists(path):
                        yield path, "{}", "0"
        elif kind == "cgroup2":
            path = os.path.join(where, own.get("", "/").lstrip("/"), "io.max")
            if os.path.exists(path):
                yield path, "rbps={0} wbps={0}", "rbps=max wbps=max"


def _hierarchies() -> Iterator[tuple[str, str, Sequence[str]]]:
    for line in _read("/proc/self/mounts").splitlines():
        _, where, kind, options, *_ = line.split()
        yield kind, where, options.split(",")


def _own_groups() -> dict[str, str]:
    """Return the agent's groups by controller; that of v2 has the empty name (``cgroups(7)``)."""
    groups = {}
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), group))
    return groups


def _read(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8") as file:
        return file.read()
    return ""
