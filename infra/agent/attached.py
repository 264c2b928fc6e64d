"""A server that ran on this machine before the agent came, and whose process is not the agent's."""

import re
from typing import Any

from ackproof.infra.agent import privilege
from ackproof.infra.agent.stat import stat
from ackproof.infra.agent.wire import RefusedByNode

_PID = re.compile(r"\bpid=(\d+)")


def listener(port: int) -> dict[str, Any]:
    """Return the process that listens on a TCP port: its ``pid``, its ``start`` in clock ticks
    since boot, and its ``program``.

    Raises Refused unless it is exactly one process.
    """
    found = _PID.findall(privilege.as_root(["ss", "-Hltnp", f"sport = :{port:d}"]))
    pids = {int(pid) for pid in found}
    if not pids:
        raise RefusedByNode(f"no process listens on port {port}")
    if len(pids) > 1:
        named = ", ".join(map(str, sorted(pids)))
        raise RefusedByNode(f"several processes listen on port {port}: {named}")
    (pid,) = pids
    with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
        program = file.read().strip()
    return {"pid": pid, "start": stat(pid).start, "program": program}
