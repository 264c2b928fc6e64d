"""The run's processes on this host: started under a supervisor, looked at, signalled.

Each has a directory: ``command.json`` (what was wanted), ``process.json`` (who it is),
``exit.json`` (its exit status, negative for a signal).
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from infra.identity import ProcessIdentity
from infra.ssh.remote.privilege import Refused
from infra.ssh.remote.spawning import spawn
from infra.ssh.remote.supervisor import write_whole
from infra.waiting import wait_until

_STARTED_WITHIN_S = 20.0
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", "USER", "LOGNAME")
_supervisors: list["subprocess.Popen[bytes]"] = []


def start(state: str, argv: Sequence[str], env: Mapping[str, str], directory: str, log: str) -> int:
    """Start a process, whose files are in the directory ``state``; its id. Asked again, it is not
    started again."""
    place = Path(state)
    if not (place / "command.json").exists():
        place.mkdir(parents=True, exist_ok=True)
        own = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        wanted = {"argv": argv, "env": own | dict(env), "directory": directory, "log": log}
        write_whole(place / "command.json", wanted)
        _supervisors.append(spawn("supervise", state))
    wait_until((place / "process.json").exists, _STARTED_WITHIN_S, f"the supervisor of {state}")
    return int(_read(place)["process"]["pid"])


def look(state: str) -> dict[str, Any]:
    """``letter``: the kernel's for its state, None when it is gone. ``exit``: its exit status,
    None before it is known. Raises Refused when its exit status will never be known."""
    place = Path(state)
    known = _read(place)
    # In this order: while the supervisor lives, the exit status may still come.
    supervised = ProcessIdentity(**known["supervisor"]).lives()
    letter = _letter(ProcessIdentity(**known["process"]))
    try:
        return {"letter": letter, "exit": json.loads((place / "exit.json").read_text())}
    except FileNotFoundError:
        if letter is None and not supervised:
            raise Refused("it is gone, and so is its supervisor: was the host restarted?") from None
    return {"letter": letter, "exit": None}


def send(state: str, number: int) -> None:
    """Send a signal. Raises ProcessLookupError when it has exited."""
    process = ProcessIdentity(**_read(Path(state))["process"])
    descriptor = os.pidfd_open(process.pid)
    try:
        # Looked at after it was opened: whatever has the id later, it is not what we signal.
        if not process.lives():
            raise ProcessLookupError(f"process {process.pid} has exited")
        signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def end_all(states: Path) -> None:
    """Kill every process below ``states`` and what it has started. Raises Refused for one that
    stays."""
    for path in states.glob("*/process.json"):
        supervisor = ProcessIdentity(**_read(path.parent)["supervisor"])
        if not supervisor.end(signal.SIGTERM, _STARTED_WITHIN_S):
            raise Refused(f"{path.parent.name} does not end (supervisor {supervisor.pid})")


def _read(place: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((place / "process.json").read_text())
    return content


def _letter(process: ProcessIdentity) -> str | None:
    if not process.lives():
        return None
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    letter = stat.rpartition(")")[2].split()[0]
    return None if letter in "ZX" else letter
