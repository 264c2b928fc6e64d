"""The claim of a run on this host: one run at a time, as long as its harness sends requests.

The run's directory is the claim. Every request of the harness renews its modification time. After a
long silence, the guard ends what the run has here and removes what it made.
"""

import ipaddress
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import Any

from ackproof.infra.agent import attached, cgroups, children, disks, links, privilege, throttle
from ackproof.infra.agent.children import carry_out, in_main_thread
from ackproof.infra.agent.wire import RefusedByNode
from ackproof.infra.machine.identity import ProcessIdentity
from ackproof.infra.machine.waiting import wait_until


def again(role: str, *arguments: str) -> Sequence[str]:
    """Return the command line of this program in another role."""
    return [sys.executable, "-I", "-S", sys.argv[0], role, *arguments]


# --- addresses of this host -------------------------------------------------------------------


def addresses() -> list[str]:
    """Return every address of the host that other hosts can use.

    The one at which the harness has reached it by SSH is among them.
    """
    return sorted({*_ssh_connection()[2:3], *_of_interfaces()})


def ssh_port() -> int | None:
    """Return the port of the harness's connection, or None if it did not come by SSH."""
    return int(_ssh_connection()[3]) if _ssh_connection() else None


def _ssh_connection() -> list[str]:
    """Return the address and port of the client, and the address and port here; empty if the
    harness did not come by SSH."""
    return os.environ.get("SSH_CONNECTION", "").split()


def _of_interfaces() -> list[str]:
    program = which("ip", path=privilege.search_path())
    if program is None:
        return []
    _, listing, _ = carry_out([program, "-j", "address"])
    entries = [info for link in json.loads(listing or "[]") for info in link["addr_info"]]
    found = [ipaddress.ip_address(entry["local"]) for entry in entries if "local" in entry]
    return [str(address) for address in found if not (address.is_loopback or address.is_link_local)]


# --- the claim of this host -------------------------------------------------------------------


SOCKET = "agent.sock"
LOG = "agent.log"
_SERVES_WITHIN_S = 20.0
_ENDS_WITHIN_S = 20.0
_ALIVE_S = 60.0
"""The silence after which a harness counts as dead, in seconds.

A harness sends a request every few seconds. One that has been silent for longer may only be cut
off. Its processes are left to run, unless another run wants the host.
"""

_CLAIM = "run.json"
_GUARD = "guard.json"
_LEASE = "lease"
_IMPAIRED = "impaired"
_INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "USER", "LOGNAME",
    "SSH_CONNECTION",
)  # fmt: skip


def acquire(
    base: str, run: str, holder: str, lease_s: float, env: Mapping[str, str], ended_by: str
) -> None:
    """Take the host for ``run``, also from a dead one, and start its agent.

    Raises Refused while another living run has the host.

    Args:
        holder: The user of the run, for others to read.
        env: Variables for the run's processes, added to those of a login.
        ended_by: How the run can be ended, for others to read.
    """
    claimed = place(base)
    there = tenant(base)
    if there is not None and there["run"] != run and not there["alive"]:
        release(base)
    aside = claimed.with_name(f"run.{os.getpid()}.new")
    aside.mkdir(parents=True)
    (aside / _LEASE).touch()
    claim = {"run": run, "holder": holder, "lease_s": lease_s, "ended_by": ended_by}
    _write_whole(aside / _CLAIM, claim)
    try:
        aside.rename(claimed)  # one of two succeeds: a directory with content is not replaced
    except OSError:
        shutil.rmtree(aside)
        _check_ours(base, run)
    if not (claimed / _GUARD).exists():
        own = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        _write_whole(claimed / _GUARD, asdict(_start_guard(base, {**own, **env, cgroups.RUN: run})))
    wait_until((claimed / SOCKET).exists, _SERVES_WITHIN_S, "the run's agent")


def renew(base: str, run: str) -> None:
    """Renew the claim. Raises Refused if the run does not have the host any more."""
    there = tenant(base)
    if there is None or there["run"] != run:
        raise RefusedByNode(
            "the run has lost this host: the run was silent for too long, or was removed"
        )
    os.utime(place(base) / _LEASE)


def tenant(base: str) -> dict[str, Any] | None:
    """Return the run that has the host, how long it has been silent, and whether it counts as
    alive.

    Return None if no run has it.
    """
    claimed = place(base)
    try:
        claim: dict[str, Any] = json.loads((claimed / _CLAIM).read_text())
        claim["silent_s"] = max(0.0, time.time() - (claimed / _LEASE).stat().st_mtime)
    except FileNotFoundError:
        return None
    return claim | {"alive": claim["silent_s"] < _ALIVE_S}


def impair(addresses: Sequence[str], **what: Any) -> None:
    """Begin an impairment by :func:`infra.agent.links.impair` that spares this host's sshd.

    The harness may be on a node, or come by way of one. A file is written first: without it,
    releasing needs no root. The request goes to the run's agent, which is in the directory of its
    claim.
    """
    written = Path(_IMPAIRED)
    first = not written.exists()
    written.touch()
    try:
        links.impair(addresses, spared_port=ssh_port(), **what)
    except RefusedByNode:
        if first:  # nothing was done
            written.unlink()
        raise


def mend(addresses: Sequence[str], **what: Any) -> None:
    """Undo :func:`impair`."""
    links.mend(addresses, spared_port=ssh_port(), **what)


def release(base: str) -> None:
    """End what the run has here and remove what it made: processes, rules, files.

    Raises Refused if something does not end.
    """
    claimed = place(base)
    lift(base)
    if (claimed / _GUARD).exists():
        guard = ProcessIdentity(**json.loads((claimed / _GUARD).read_text()))
        if not guard.end(signal.SIGTERM, _ENDS_WITHIN_S):
            raise RefusedByNode(f"a process on the host does not end (guard {guard.pid})")
    remove(base)


def lift(base: str) -> None:
    """Lift the limits to the run's disks: a process that waits for a slow one does not end."""
    throttle.lift_below(str(place(base)))


def remove(base: str) -> None:
    """Remove what a run without processes has made."""
    claimed = place(base)
    if not claimed.exists():
        return
    attached.restore(str(claimed))
    for disk in disks.below(str(claimed)):
        disks.remove(disk)
    if (claimed / _IMPAIRED).exists():
        links.remove()
    if (there := tenant(base)) is not None:
        cgroups.remove(there["run"])
    # The claim goes with the rest, as a whole: a second harness sees all of it or nothing.
    aside = claimed.with_name(f"run.{os.getpid()}.removed")
    claimed.rename(aside)
    shutil.rmtree(aside)


def purge(base: str) -> None:
    """Release the host, and remove everything that was ever put here."""
    release(base)
    shutil.rmtree(base, ignore_errors=False)


def place(base: str) -> Path:
    """Return the directory that is the claim."""
    return Path(base) / "run"


def _check_ours(base: str, run: str) -> None:
    there = tenant(base)
    if there is None:
        raise RefusedByNode("another run is releasing the host: try again")
    if there["run"] != run:
        raise RefusedByNode(
            f"the host is in use by {there['holder']} (run {there['run']}), last active "
            f"{there['silent_s']:.0f} s ago; that run is ended by: {there['ended_by']}"
        )


def _start_guard(base: str, env: Mapping[str, str]) -> ProcessIdentity:
    """Start the guard in a session of its own, without streams of the connection.

    The guard is therefore not affected by the end of the connection.
    """
    streams = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
    guard = children.in_main_thread(
        lambda: children.spawn(again("guard", base), env, streams, dies_with_us=False)
    )
    return ProcessIdentity.of(guard.pid)


def _write_whole(path: Path, content: object) -> None:
    """Write JSON to a file that appears as a whole."""
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps(content))
    aside.replace(path)


# --- guard ------------------------------------------------------------------------------------
#
# The guard: the parent of a run's agent, which makes sure that the host is cleaned up.
#
# It is the agent's subreaper: killed with SIGKILL, the agent leaves its daemons below the guard,
# which ends them. SIGTERM makes it end everything and exit. When the run has been silent for longer
# than its lease, the guard ends everything and removes what the run has made, whatever happens to
# harness and network. Not handled: a logind that kills what a user leaves behind
# (KillUserProcesses=yes; Debian's and Ubuntu's default is no).


_LOOK_EVERY_S = 5.0


def guard(base: str) -> None:
    """Start the agent of the run that has this host, and clean up after it."""
    children.adopt_orphans()
    os.chdir(place(base))
    # The loop ends with the watch: if an agent could not be started (a full disk), the guard would
    # otherwise stay and watch nothing.
    children.run_while(lambda: _watch(base))
    children.end_all()


def _watch(base: str) -> None:
    log = (os.POSIX_SPAWN_OPEN, 2, LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    command = again("listen", SOCKET)
    agent = in_main_thread(lambda: children.spawn(command, os.environ, [log]))
    while not _abandoned(base) and not agent.ended.wait(_LOOK_EVERY_S):
        pass
    lift(base)
    in_main_thread(children.end_all)
    while not _abandoned(base):
        time.sleep(_LOOK_EVERY_S)
    remove(base)


def _abandoned(base: str) -> bool:
    there = tenant(base)
    return there is None or there["silent_s"] > there["lease_s"]
