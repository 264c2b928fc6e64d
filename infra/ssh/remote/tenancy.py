"""Who has this host: one run at a time, as long as its harness is heard of.

The run's directory is the claim. Its modification time is renewed by every word of the harness;
when that has been silent for long, the guard (a process of its own) ends what the run has here and
removes what it made. Whatever happens to harness and network, the host comes clean by itself.
"""

import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra.identity import ProcessIdentity
from infra.ssh.remote import links, processes
from infra.ssh.remote.privilege import Refused
from infra.ssh.remote.spawning import spawn
from infra.ssh.remote.supervisor import write_whole

_LOOK_EVERY_S = 5.0
_ALIVE_S = 60.0
"""A harness says something every few seconds. One that has been silent for longer may only be cut
off: its processes are left to run, unless somebody else wants the host."""

_CLAIM = "run.json"
_GUARD = "guard.json"
_LEASE = "lease"
_CUT = "cut"


def acquire(base: str, run: str, holder: str, lease_s: float) -> None:
    """Take the host for ``run``, from a dead one if need be. ``holder``: who that is, for others to
    read. Raises Refused while another run that lives has it."""
    place = _place(base)
    there = tenant(base)
    if there is not None and there["run"] != run and not there["alive"]:
        release(base)
    aside = place.with_name(f"run.{os.getpid()}.new")
    aside.mkdir(parents=True)
    (aside / _LEASE).touch()
    write_whole(aside / _CLAIM, {"run": run, "holder": holder, "lease_s": lease_s})
    try:
        aside.rename(place)  # of two, one succeeds: a directory with content is not replaced
    except OSError:
        shutil.rmtree(aside)
        _check_ours(base, run)
    if not (place / _GUARD).exists():
        write_whole(place / _GUARD, asdict(ProcessIdentity.of(spawn("guard", base).pid)))


def renew(base: str, run: str) -> None:
    """The harness is there. Raises Refused when the host is no longer its own."""
    there = tenant(base)
    if there is None or there["run"] != run:
        raise Refused("the run has lost this host: it was silent for too long, or was removed")
    os.utime(_place(base) / _LEASE)


def tenant(base: str) -> dict[str, Any] | None:
    """The run that has the host, for how long it has been silent, and whether it is taken to be
    alive; None when nobody has it."""
    place = _place(base)
    try:
        claim: dict[str, Any] = json.loads((place / _CLAIM).read_text())
        claim["silent_s"] = max(0.0, time.time() - (place / _LEASE).stat().st_mtime)
    except FileNotFoundError:
        return None
    return claim | {"alive": claim["silent_s"] < _ALIVE_S}


def cut(base: str, addresses: Sequence[str]) -> None:
    """Drop whatever comes from these addresses, until healed or released. Written down first: where
    nothing was ever cut, releasing takes no root."""
    written = _place(base) / _CUT
    first = not written.exists()
    written.touch()
    try:
        links.cut(addresses)
    except Refused:
        if first:  # nft does all or nothing
            written.unlink()
        raise


def release(base: str) -> None:
    """End what the run has here and remove what it made: processes, rules, files."""
    place = _place(base)
    if not place.exists():
        return
    processes.end_all(place / "processes")
    if (place / _CUT).exists():
        links.remove()
    _end_guard(place)
    # The claim goes with the rest, as a whole: a second harness sees all of it or nothing.
    aside = place.with_name(f"run.{os.getpid()}.removed")
    place.rename(aside)
    shutil.rmtree(aside)


def purge(base: str) -> None:
    """Release the host, and remove everything that we ever put here."""
    release(base)
    shutil.rmtree(base, ignore_errors=False)


def guard(base: Path) -> None:
    """Release the host when its run has been silent for longer than its lease."""
    while (there := tenant(str(base))) is not None:
        if there["silent_s"] > there["lease_s"]:
            release(str(base))
        time.sleep(_LOOK_EVERY_S)


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


def _end_guard(place: Path) -> None:
    try:
        known = json.loads((place / _GUARD).read_text())
    except FileNotFoundError:
        return
    if known["pid"] != os.getpid():
        ProcessIdentity(**known).end(signal.SIGKILL, _LOOK_EVERY_S)


def _place(base: str) -> Path:
    return Path(base) / "run"
