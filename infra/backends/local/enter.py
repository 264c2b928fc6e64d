"""Going into namespaces of our own before anything is deployed.

The process that the user sees becomes the outer one (``infra.backends.local.outer``), in a fresh
network namespace that will be the router. Its child is the first process of a fresh PID namespace
(``infra.backends.local.init``), and that one's child the command itself, executed once more:

    outer ── init (PID 1) ── command ── brokers, ZooKeeper, clients

The outer one dying takes init along (parent-death signal), init dying takes everything along
(the kernel), and with the last process the namespaces go, and every interface, rule and mount in
them. Not root, a user namespace comes first, in which we are.

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
from ackproof.infra.api.interface import Capability, InfraError
from ackproof.infra.api.limits import Scarce
from ackproof.infra.backends.local.processes import FORWARDED
from ackproof.infra.backends.local.processes import marked as inside
from ackproof.infra.machine.registry import STATE_DIRECTORY, Kind, Registry
from ackproof.infra.node.capability_probes import AS_ROOT, OF_ROOT

__all__ = ["can_enter", "enter", "host_network", "inside", "obstacles", "undoable", "unlimited"]

_HOST_NETWORK = "ACKPROOF_HOST_NETWORK"
_PROGRAMS = ("unshare", "nsenter", "setpriv", "env")
_INSTALL = {"nft": "apt-get install nftables", "tc": "apt-get install iproute2"}
"""On Debian and Ubuntu."""
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
"""Switches that forbid user namespaces: where, the forbidding value, and what mends it."""


def enter(
    argv: Sequence[str],
    run_id: str,
    *,
    kind: Kind = Kind.RUN,
    results: Path | None = None,
    scratch: Path | None = None,
) -> NoReturn:
    """Replace this process by one that runs ``argv`` inside fresh namespaces and exits with its
    status (128 + n when signal n ended it, 5 for its 1: ``infra.backends.local.processes``).
    Terminal, signals and descriptors are passed through.

    Args:
        argv: The command, as a rule ours again: ``[sys.executable, *sys.orig_argv[1:]]``. Inside,
            :func:`inside` is true, so that it goes on instead of entering again.
        run_id: Names the run in the registry; must be new.
        results: Where the run leaves its results; kept.
        scratch: A directory for what is removed when the run ends, however it ends. Made here;
            must not exist or be empty.

    Raises InfraError when we are inside already or the machine does not let us in.
    """
    if inside():
        raise InfraError("inside the run's namespaces already")
    flags = _way_in()
    registry = Registry.open()
    # The outer process unblocks them when it can hand them down: one that comes earlier is kept,
    # and the entry in the registry is removed again.
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
    """None when :func:`enter` would work here, tried for real; else what is missing and how to
    mend it."""
    try:
        _way_in()
    except InfraError as error:
        return str(error)
    return None


def obstacles() -> dict[str, str | None]:
    """By capability of links between nodes, None where it is there, tried for real; else why not,
    and how to mend it. What enters the namespaces is assumed to work."""
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
    return f"{program} does not work here ({complaint}){remedy}"


def unlimited(what: Scarce) -> str | None:
    """None when processes can be given too little of ``what`` here, tried for real; else why
    not."""
    if _way_in() != _AS_ROOT:
        return "control groups are made by root alone: sudo"
    return cgroups.obstacle(what)


def undoable(capability: Capability) -> str | None:
    """None when disks or clocks can do this here (:mod:`infra.node.capability_probes`), tried for
    real; else why not."""
    flags = _way_in()
    if capability in OF_ROOT and flags != _AS_ROOT:
        return f"{AS_ROOT}: sudo"
    return (
        _try(flags, sys.executable, "-P", "-m", "ackproof.infra.node.capability_probes", capability)
        or None
    )


def host_network() -> int | None:
    """A descriptor of the network namespace that we came from; None when not root there, since
    nothing could be done with it."""
    descriptor = os.environ.get(_HOST_NETWORK)
    return None if descriptor is None else int(descriptor)


def _way_in() -> tuple[str, ...]:
    """The flags of ``unshare`` that work here. Raises InfraError."""
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
    raise InfraError(f"this machine does not let us make namespaces ({complaint}); {_remedy()}")


def _try(flags: Sequence[str], *argv: str, text: str = "") -> str:
    """Empty when ``argv`` runs in namespaces made with these flags, with ``text`` as its input;
    else the complaint."""
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
    # What is in Python's buffers would be lost: exec does not flush them.
    sys.stdout.flush()
    sys.stderr.flush()
