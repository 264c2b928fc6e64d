"""The entry into namespaces of the run's own, before anything is deployed.

The process that the user started becomes the outer one (``infra.backends.local.outer``), in a fresh
network namespace that will be the router. Its child is the first process of a fresh PID namespace
(``infra.backends.local.init``). The child of that is the command itself, executed once more:

    outer ── init (PID 1) ── command ── brokers, ZooKeeper, clients

If the outer one dies, init dies too (parent-death signal). If init dies, everything dies (the
kernel). The namespaces end with the last process, and every interface, rule and mount in them.
Without root, the run first enters a user namespace.

util-linux does the work. Its ``unshare --fork`` is not used: before 2.41 it swallows SIGTERM.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ackproof.infra.agent import cgroups, queues, rules
from ackproof.infra.agent.cgroups import RUN
from ackproof.infra.agent.privilege import search_path
from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.backends.local.processes import FORWARDED
from ackproof.infra.backends.local.processes import marked as inside
from ackproof.infra.machine.registry import STATE_DIRECTORY, EntryKind, Registry
from ackproof.infra.node.capability_probes import AS_ROOT, OF_ROOT

__all__ = ["can_enter", "enter", "host_network", "inside", "obstacles", "undoable", "unlimited"]

_HOST_NETWORK = "ACKPROOF_HOST_NETWORK"
_PROGRAMS = ("unshare", "nsenter", "setpriv", "env")
_INSTALL = {"nft": "apt-get install nftables", "tc": "apt-get install iproute2"}
"""The commands that install the programs on Debian and Ubuntu."""
_AS_ROOT: tuple[str, ...] = ()
_AS_USER = ("--user", "--map-root-user")
_OBSTACLES = (
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
"""The switches that forbid user namespaces: the path, the forbidding value, and the remedy."""


def enter(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: EntryKind = EntryKind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """Replace this process by one that runs ``argv`` inside fresh namespaces and exits with its
    status.

    The status is 128 + n when signal n ended it, and 5 for its 1:
    ``infra.backends.local.processes``. Terminal, signals and descriptors are passed through.

    Args:
        argv: The command, as a rule this one again: ``[sys.executable, *sys.orig_argv[1:]]``.
            Inside, :func:`inside` is true, so that it goes on instead of entering again.
        run_id: The name of the run in the registry, which must be new.
        results: The directory of the run's results; kept.
        scratch: A directory that is removed when the run ends, however it ends. It is made here,
            and must be empty if it exists.

    Raises InfraError inside of namespaces, or if the machine allows none.
    """
    if inside():
        raise InfraError("already inside the run's namespaces")
    flags = _way_in()
    registry = Registry.open()
    # The outer process unblocks the signals when it can pass them on. An earlier one is kept, and
    # the entry in the registry is removed again.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    registry.add(run_id, kind, results=results, scratch=scratch, rootless=flags == _AS_USER)
    environ = {**os.environ, STATE_DIRECTORY: str(registry.directory), RUN: run_id}
    environ.pop(_HOST_NETWORK, None)
    if flags == _AS_ROOT:
        descriptor = os.open("/proc/self/ns/net", os.O_RDONLY)
        os.set_inheritable(descriptor, True)
        environ[_HOST_NETWORK] = str(descriptor)
    outer = [sys.executable, "-P", "-m", "ackproof.infra.backends.local.outer", run_id, "--", *argv]
    _flush()
    os.execvpe("unshare", ["unshare", *flags, "--net", "--pid", "--", *outer], environ)


def can_enter() -> str | None:
    """Return what is missing for :func:`enter` and the remedy, or None if it works here."""
    try:
        _way_in()
    except InfraError as error:
        return str(error)
    return None


def obstacles() -> dict[str, str | None]:
    """Return for each capability of links between nodes why it is missing and the remedy.

    None stands for a capability that a trial found. The entry into namespaces is assumed to work.
    """
    way_in = _way_in()
    found = {
        name: _unless("nft", _try(way_in, "nft", "--check", "--file", "-", text=trial))
        for name, trial in rules.trials().items()
    }
    queueing = _unless("tc", _try(way_in, "tc", "-batch", "-", text=queues.trial()))
    narrow = found["narrow-links"] or queueing
    return {**found, "narrow-links": narrow, "slow-links": narrow}


def _unless(program: str, complaint: str) -> str | None:
    if not complaint:
        return None
    lacking = shutil.which(program, path=search_path()) is None
    remedy = f": install it (Debian, Ubuntu: {_INSTALL[program]})" if lacking else ""
    return f"{program} does not work on this machine ({complaint}){remedy}"


def unlimited(what: LimitedResource) -> str | None:
    """Return why processes cannot be limited in ``what`` here, or None if a trial succeeds."""
    if _way_in() != _AS_ROOT:
        return "only root can create control groups: use sudo"
    return cgroups.obstacle(what)


def undoable(capability: Capability) -> str | None:
    """Return why disks or clocks cannot do this here, or None if they can.

    A trial decides (:mod:`infra.node.capability_probes`).
    """
    flags = _way_in()
    if capability in OF_ROOT and flags != _AS_ROOT:
        return f"{AS_ROOT}: sudo"
    return (
        _try(flags, sys.executable, "-P", "-m", "ackproof.infra.node.capability_probes", capability)
        or None
    )


def host_network() -> int | None:
    """Return a descriptor of the network namespace from which the run was started.

    Return None without root there, since the descriptor would be of no use.
    """
    descriptor = os.environ.get(_HOST_NETWORK)
    return None if descriptor is None else int(descriptor)


def _way_in() -> tuple[str, ...]:
    """Return the flags of ``unshare`` that work here. Raises InfraError."""
    if not sys.platform.startswith("linux"):
        raise InfraError(f"the local backend needs Linux namespaces; this is {sys.platform}")
    missing = [program for program in _PROGRAMS if shutil.which(program) is None]
    if missing:
        raise InfraError(
            f"not found: {', '.join(missing)}; install the packages util-linux and coreutils"
        )
    complaint = ""
    for flags in (_AS_ROOT, _AS_USER) if os.geteuid() == 0 else (_AS_USER,):
        complaint = _try(flags, "setpriv", "--pdeathsig", "KILL", "true")
        if not complaint:
            return flags
    raise InfraError(f"this machine does not allow namespaces ({complaint}); {_remedy()}")


def _try(flags: Sequence[str], *argv: str, text: str = "") -> str:
    """Run ``argv`` in namespaces made with these flags, with ``text`` as its input.

    Return its complaint, or an empty text if it succeeds.
    """
    try:
        done = subprocess.run(
            ["unshare", *flags, "--net", "--pid", "--fork", "--mount-proc", "--", *argv],
            input=text,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "PATH": search_path()},
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def _remedy() -> str:
    for path, forbidding, remedy in _OBSTACLES:
        switch = Path(path)
        if switch.exists() and switch.read_text().strip() == forbidding:
            return f"as root: {remedy}"
    return "run as root, or in a container with --privileged, or use --backend docker"


def _flush() -> None:
    # Python's buffers would be lost: exec does not flush them.
    sys.stdout.flush()
    sys.stderr.flush()
