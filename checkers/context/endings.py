"""Ends of server processes that no fault explains.

A fault explains the end of a process that was running when the fault was injected and that it
affected. A broker that a fault killed, and that crashes when it is started again, ended by itself,
although the fault is not proven healed before the broker runs.
"""

import contextlib
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.context.faults import (
    ADD_BROKER,
    BY_THEMSELVES,
    DISK_FULL,
    DRAIN,
    FOREVER,
    RESTARTS,
    SILENT,
    FaultFacts,
)
from ackproof.history import messages
from ackproof.history.storage import AnyPath, matching

Row = Mapping[str, Any]

_OURS = frozenset({-signal.SIGKILL, -signal.SIGTERM})
"""The exit codes of a process that the nemesis ended, also if healing had to be repeated."""

_IN_ORDER = _OURS | {0, 128 + signal.SIGTERM}
"""The exit codes of a server that was asked to end. Java answers SIGTERM with 143."""

_ENOSPC = "No space left on device"
_NO_ROOM = "; its disk was full, though no fault filled it: make room, and run again"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEnd:
    """The end of a server that no fault explains. ``doubt`` says that a fault or a machine without
    disk space may explain it."""

    server: str
    words: str
    doubt: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Process:
    """One process of a server: the time at which it was seen to start, and the row of its end."""

    started: int
    ended: Row

    @property
    def server(self) -> str:
        return str(self.ended["server"])


def unaccounted(
    rows: Sequence[Row],
    faults: Iterable[FaultFacts],
    *,
    slack_ns: int,
    combined: frozenset[str] = frozenset(),
    logs: AnyPath | None = None,
) -> tuple[ServerEnd, ...]:
    """Return the ends of servers that no fault accounts for.

    Args:
        rows: The rows of the table ``servers``.
        faults: The faults of the run.
        slack_ns: The longest delay with which an end is noticed.
        combined: The names of the brokers that also keep the metadata.
        logs: The directory of the servers' logs, for the last error of each.
    """
    by_number = {fault.fault_id: fault for fault in faults}
    ends: list[tuple[_Process, FaultFacts | None]] = []
    for process in _processes(rows):
        fault = by_number.get(process.ended["fault_id"])
        accounts = fault is not None and _accounts(fault, process, slack_ns, combined)
        ends.append((process, fault if accounts else None))
    accounted = {(process.server, fault.fault_id) for process, fault in ends if fault is not None}
    found = []
    for process, fault in ends:
        if fault is None or not fault.planned:
            mine = [
                one for one in by_number.values() if (process.server, one.fault_id) not in accounted
            ]
            doubt = fault is not None or any(_may_have_ended(one, process) for one in mine)
            full = not _fills(by_number.values(), process.server) and _was_full(
                logs, process.server
            )
            words = _words(process, logs) + (_NO_ROOM if full else "")
            found.append(ServerEnd(server=process.server, words=words, doubt=doubt or full))
    return tuple(found)


def _words(process: _Process, logs: AnyPath | None) -> str:
    words = f"{process.server} ended by itself, {_status(process.ended['exit_code'])}"
    if why := process.ended.get("detail"):
        words += f" ({why})"
    error = None if logs is None else last_error(logs, process.server)
    return words if error is None else f"{words}; the last error in its log: {error}"


def _fills(faults: Iterable[FaultFacts], server: str) -> bool:
    """Return whether a fault filled the disk of a server, so that its log speaks of that disk."""
    return any(one.name == DISK_FULL and server in (one.servers or ()) for one in faults)


def _was_full(logs: AnyPath | None, server: str) -> bool:
    """Return whether the logs of a server report a full file system. Without a fault that filled
    it, the machine had no room, and a broker that ends because of that has no defect."""
    return logs is not None and any(_ENOSPC in line for line in _lines(logs, server))


def _processes(rows: Sequence[Row]) -> Iterator[_Process]:
    started: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        if row["event"] == "started":
            started[row["server"]] = row["time"]
        elif row["event"] == "ended":
            yield _Process(started=started.get(row["server"], 0), ended=row)


def _accounts(
    fault: FaultFacts, process: _Process, slack_ns: int, combined: frozenset[str]
) -> bool:
    """Return whether a fault explains the end of a process that is attributed to it."""
    if fault.name == ADD_BROKER:
        return _left(fault, process, slack_ns)
    # A broker that is cut off from the metadata may end because of that.
    kept = fault.servers is None or fault.affected_metadata_servers(combined)
    if not fault.disturbs or not (kept or process.server in (fault.servers or ())):
        return False
    if not fault.start - slack_ns <= process.ended["time"] <= min(fault.end + slack_ns, FOREVER):
        return False
    # A process that the fault started again ended by itself, unless healing was repeated.
    own = fault.name in RESTARTS and process.ended["exit_code"] not in _OURS
    return kept or not own or process.started < _restart(fault)


def _left(fault: FaultFacts, process: _Process, slack_ns: int) -> bool:
    """Return whether a process is that of a broker that a fault had added, and that left in order
    when it was healed.

    Such a broker is no target of the fault. If it crashes before it is asked to leave, or while it
    leaves, it ended by itself.
    """
    ended = process.ended
    return (
        fault.heal is not None
        and fault.heal <= ended["time"] <= fault.end + slack_ns
        and ended["exit_code"] in _IN_ORDER
    )


def _may_have_ended(fault: FaultFacts, process: _Process) -> bool:
    """Return whether a fault may have ended a process although its row does not say so: the fault
    ends processes, affected that server, and no other row is about a process that it ended."""
    return (
        process.ended["fault_id"] is None
        and fault.disturbs
        and fault.is_effective
        and fault.name not in SILENT
        and process.server in (fault.servers or ())
        and process.started < _restart(fault)
        and fault.start <= process.ended["time"] <= fault.end
    )


def _restart(fault: FaultFacts) -> int:
    """Return the time before which a process started that the fault ended.

    Others were started because of it, and end by themselves: at the heal, or of a drain as soon as
    all were evicted. The pods of an operator's roll come back one by one: its start counts.
    """
    if fault.name in BY_THEMSELVES - {DRAIN}:
        return fault.start
    time = fault.injected if fault.name == DRAIN else fault.heal
    return FOREVER if time is None else time


def last_error(logs: AnyPath, server: str) -> str | None:
    """Return the last error in the logs of a server, or None if there is none."""
    return messages.last_error(_lines(logs, server))


def _lines(logs: AnyPath, server: str) -> Iterator[str]:
    """Yield the lines of all logs of a server, without those that cannot be read."""
    for path in matching(logs / server, "*.log"):
        with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as lines:
            yield from lines


def _status(exit_code: int | None) -> str:
    if exit_code is None:
        return "exit status unknown"
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"
