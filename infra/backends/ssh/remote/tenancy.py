"""Who has this host: one run at a time, as long as its harness is heard of.

The run's directory is the claim. Its modification time is renewed by every word of the harness;
when that has been silent for long, the guard ends what the run has here and removes what it made.
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

from ackproof.infra.agent import cgroups, children, disks, links, privilege, throttle
from ackproof.infra.agent.children import carry_out, in_main_thread
from ackproof.infra.agent.wire import Refused
from ackproof.infra.machine.identity import ProcessIdentity
from ackproof.infra.machine.waiting import wait_until


def again(role: str, *arguments: str) -> Sequence[str]:
    """The command line of this very program in another role."""
    return [sys.executable, "-I", "-S", sys.argv[0], role, *arguments]


# --- addresses of this host -------------------------------------------------------------------


def addresses() -> list[str]:
    """Every address it has, but for those that nobody else sees; the one that we have reached it at
    is among them."""
    return sorted({_ssh_connection()[2], *_of_interfaces()})


def ssh_port() -> int:
    """The port that our connection has come to."""
    return int(_ssh_connection()[3])


def _ssh_connection() -> list[str]:
    """Address and port of the client, address and port here."""
    return os.environ["SSH_CONNECTION"].split()


def _of_interfaces() -> list[str]:
    program = which("ip", path=privilege.search_path())
    if program is None:
        return []
    _, told, _ = carry_out([program, "-j", "address"])
    entries = [info for link in json.loads(told or "[]") for info in link["addr_info"]]
    found = [ipaddress.ip_address(entry["local"]) for entry in entries if "local" in entry]
    return [str(address) for address in found if not (address.is_loopback or address.is_link_local)]


# --- who has this host ------------------------------------------------------------------------


SOCKET = "agent.sock"
LOG = "agent.log"
_SERVES_WITHIN_S = 20.0
_ENDS_WITHIN_S = 20.0
_ALIVE_S = 60.0
"""A harness says something every few seconds. One that has been silent for longer may only be cut
off: its processes are left to run, unless somebody else wants the host."""

_CLAIM = "run.json"
_GUARD = "guard.json"
_LEASE = "lease"
_IMPAIRED = "impaired"
_INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "USER", "LOGNAME",
    "SSH_CONNECTION",
)  # fmt: skip


def acquire(base: str, run: str, holder: str, lease_s: float, env: Mapping[str, str]) -> None:
    """Take the host for ``run``, from a dead one if need be, and start its agent. Raises Refused
    while another run that lives has the host.

    Args:
        holder: Who that is, for others to read.
        env: For the run's processes, added to what a login has.
    """
    claimed = place(base)
    there = tenant(base)
    if there is not None and there["run"] != run and not there["alive"]:
        release(base)
    aside = claimed.with_name(f"run.{os.getpid()}.new")
    aside.mkdir(parents=True)
    (aside / _LEASE).touch()
    _write_whole(aside / _CLAIM, {"run": run, "holder": holder, "lease_s": lease_s})
    try:
        aside.rename(claimed)  # of two, one succeeds: a directory with content is not replaced
    except OSError:
        shutil.rmtree(aside)
        _check_ours(base, run)
    if not (claimed / _GUARD).exists():
        own = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        _write_whole(claimed / _GUARD, asdict(_start_guard(base, {**own, **env, cgroups.RUN: run})))
    wait_until((claimed / SOCKET).exists, _SERVES_WITHIN_S, "the run's agent")


def renew(base: str, run: str) -> None:
    """The harness is there. Raises Refused when the host is no longer its own."""
    there = tenant(base)
    if there is None or there["run"] != run:
        raise Refused("the run has lost this host: it was silent for too long, or was removed")
    os.utime(place(base) / _LEASE)


def tenant(base: str) -> dict[str, Any] | None:
    """The run that has the host, for how long it has been silent, and whether it is taken to be
    alive; None when nobody has it."""
    claimed = place(base)
    try:
        claim: dict[str, Any] = json.loads((claimed / _CLAIM).read_text())
        claim["silent_s"] = max(0.0, time.time() - (claimed / _LEASE).stat().st_mtime)
    except FileNotFoundError:
        return None
    return claim | {"alive": claim["silent_s"] < _ALIVE_S}


def impair(addresses: Sequence[str], **what: Any) -> None:
    """:func:`infra.agent.links.impair`, but for our sshd: the harness may be on a node, or come by
    way of one. Written down first: where nothing was ever on, releasing takes no root. Asked of the
    run's agent, which is in the directory of its claim."""
    written = Path(_IMPAIRED)
    first = not written.exists()
    written.touch()
    try:
        links.impair(addresses, spared_port=ssh_port(), **what)
    except Refused:
        if first:  # nothing was done
            written.unlink()
        raise


def mend(addresses: Sequence[str], **what: Any) -> None:
    """Undo :func:`impair`."""
    links.mend(addresses, spared_port=ssh_port(), **what)


def release(base: str) -> None:
    """End what the run has here and remove what it made: processes, rules, files. Raises Refused
    when something does not end."""
    claimed = place(base)
    lift(base)
    if (claimed / _GUARD).exists():
        guard = ProcessIdentity(**json.loads((claimed / _GUARD).read_text()))
        if not guard.end(signal.SIGTERM, _ENDS_WITHIN_S):
            raise Refused(f"what runs here does not end (guard {guard.pid})")
    remove(base)


def lift(base: str) -> None:
    """Lift the limits to the run's disks: who waits for a slow one does not end before that."""
    throttle.lift_below(str(place(base)))


def remove(base: str) -> None:
    """Remove what a run has made that has no processes any more."""
    claimed = place(base)
    if not claimed.exists():
        return
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
    """Release the host, and remove everything that we ever put here."""
    release(base)
    shutil.rmtree(base, ignore_errors=False)


def place(base: str) -> Path:
    """The directory that is the claim."""
    return Path(base) / "run"


def _check_ours(base: str, run: str) -> None:
    there = tenant(base)
    if there is None:
        raise Refused("the host is just being released by another run: try again")
    if there["run"] != run:
        raise Refused(
            f"the host is taken by {there['holder']} (run {there['run']}), "
            f"last heard of {there['silent_s']:.0f} s ago; ackproof clean --inventory FILE --all "
            "would end it"
        )


def _start_guard(base: str, env: Mapping[str, str]) -> ProcessIdentity:
    """In a session of its own and without our streams: the end of the connection is nothing to
    it."""
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
# The guard: parent of a run's agent, which sees to it that the host comes clean.
#
# It is the agent's subreaper: killed with SIGKILL, the agent leaves what daemons it has below the
# guard, which ends them. SIGTERM makes it end everything and go. When the run has been silent for
# longer than its lease, the guard ends everything and removes what the run has made; whatever
# happens to harness and network. Not handled: a logind that kills what a user leaves behind
# (KillUserProcesses=yes; Debian's and Ubuntu's default is no).


_LOOK_EVERY_S = 5.0


def guard(base: str) -> None:
    """Start the agent of the run that has this host, and see to its end."""
    children.adopt_orphans()
    os.chdir(place(base))
    # An agent that could not be started (a full disk) would leave a guard that watches nothing.
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
