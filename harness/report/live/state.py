"""The state of a run at a moment, from the rows of its history so far. Pure functions.

What was not observed is missing or None, never 0.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ackproof.checkers.context.faults import label_of, title_of
from ackproof.checkers.context.observed import UNKNOWN, ClusterObservation
from ackproof.harness.report.axis.bins import NS_PER_S
from ackproof.history.manifest import PlannedRun

Row = Mapping[str, Any]
Rows = Sequence[Row]

_NS_PER_MS = 1_000_000

# --- steps and findings -----------------------------------------------------------------------

CHECK = "check"
"""The step behind those of a run: the check of the history."""
_UNOBSERVED = frozenset({"failover", "teardown"})
"""The steps from which on the cluster is no longer observed."""


def step_of(phases: Rows) -> str:
    """Return the step that a run is in. Behind its last one this is the check."""
    begun = [row["phase"] for row in phases if row["event"] == "start"]
    if not begun:
        return "start"
    over = {row["phase"] for row in phases if row["event"] != "start"}
    return CHECK if begun[-1] == "teardown" and "teardown" in over else begun[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A fact that a reader of the results must know. ``time`` is in nanoseconds of the epoch."""

    time: int
    text: str


def findings_of(phases: Rows, servers: Rows, clients: Rows) -> list[Finding]:
    """Return the findings so far in the order of time: failed steps, servers that ended by
    themselves, and clients that ended, fell silent or began another session by themselves."""
    found = [
        *(
            Finding(time=row["time"], text=f"{row['phase']}: {row['detail'] or 'failed'}")
            for row in phases
            if row["event"] == "failed"
        ),
        *(
            Finding(
                time=row["time"],
                text=f"servers: {row['server']} ended by itself, {_status(row['exit_code'])}",
            )
            for row in servers
            if row["event"] == "ended" and row["fault_id"] is None
        ),
        *(
            Finding(time=row["time"], text=f"workload: the client {row['client']} {_how(row)}")
            for row in clients
            if row["fault_id"] is None
        ),
    ]
    return sorted(found, key=lambda one: one.time)


def _how(row: Row) -> str:
    if row["session"] is not None:
        return f"ended session {row['session']}: {row['detail']}"
    return row["detail"] or f"ended with {_status(row['exit_code'])}"


def _status(code: int | None) -> str:
    return "status unknown" if code is None else f"status {code}"


# --- faults -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultState:
    """A fault that was injected.

    Attributes:
        target: The names of the servers, nodes, links or partitions that it affects.
        state: What was last observed of it, in words.
        start, end: Nanoseconds of the Unix epoch. ``end`` is None until it is proven healed.
        due: The planned time of its heal. None once healing has begun.
    """

    number: int
    name: str
    label: str
    target: str
    state: str
    start: int
    end: int | None
    due: int | None


def faults_of(rows: Rows, planned: PlannedRun | None) -> list[FaultState]:
    """Return the faults whose injection has begun, in the order of their numbers. A fault that
    failed before its injection is none of them."""
    plans = {fault.fault_id: fault for fault in planned.faults} if planned else {}
    by_fault: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        by_fault.setdefault(row["fault_id"], []).append(row)
    found = []
    for number, events in sorted(by_fault.items()):
        begun = next((row for row in events if row["event"] == "inject"), None)
        if begun is None:
            continue
        plan = plans.get(number)
        name = begun["fault"]
        proven = (row["time"] for row in events if row["event"] == "healed" and row["proven"])
        healing = any(row["event"] == "heal" for row in events)
        title = title_of(name, plan.parameters) if plan else ""
        found.append(
            FaultState(
                number=number,
                name=name,
                label=label_of(name, number, title),
                target=_target(begun),
                state=_state(events),
                start=begun["time"],
                end=next(proven, None),
                due=None if plan is None or healing else begun["time"] + plan.hold_ms * _NS_PER_MS,
            )
        )
    return found


_STATES = {
    "inject": "being injected",
    "injected": "injected, effect not yet verified",
    "heal": "being healed",
}


def _state(events: Rows) -> str:
    last = next(row for row in reversed(events) if row["event"] != "lifted")
    event = str(last["event"])
    if event == "verified":
        return "verified" if last["proven"] else "effect not proven"
    if event == "healed":
        return "healed" if last["proven"] else "not proven healed"
    if event == "failed":
        return f"failed: {_error(last)}"
    return _STATES.get(event, event)


def _error(row: Row) -> str:
    return str(_object(row["evidence"]).get("error", "unknown reason"))


def _target(row: Row) -> str:
    links = _object(row["facts"]).get("links")
    names = links if isinstance(links, list) else None
    return ", ".join(map(str, names or row["servers"] or row["partitions"] or [row["target"]]))


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# --- partitions -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition as last observed. ``leader`` is -1 without a leader, and None if unknown."""

    topic: str
    partition: int
    leader: int | None
    isr: tuple[int, ...]


def partitions_of(cluster: Rows, phases: Rows, planned: PlannedRun | None) -> list[PartitionView]:
    """Return the partitions of the run's topics as last observed.

    Nothing is returned while the observation is interrupted, and after its end.
    """
    begun = {row["phase"] for row in phases if row["event"] == "start"}
    if planned is None or begun & _UNOBSERVED:
        return []
    observation = ClusterObservation(cluster)
    found = []
    for cell in planned.cells:
        for topic, number in cell.cell.topic_partitions:
            observed = observation.of((topic, number))
            if not observed.states or observed.observer_lost:
                continue
            last = observed.states[-1]
            leader = None if last.leader == UNKNOWN else last.leader
            found.append(PartitionView(topic=topic, partition=number, leader=leader, isr=last.isr))
    return found


# --- processes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """A server or a client. ``ended_alone`` says that it ended without a fault."""

    name: str
    state: str
    ended_alone: bool = False


def servers_of(rows: Rows, faults: Sequence[FaultState]) -> list[ProcessView]:
    """Return the state of each server whose process was observed, by name."""
    labels = {fault.number: fault.label for fault in faults}
    last = {row["server"]: row for row in sorted(rows, key=lambda row: row["time"])}
    return [
        ProcessView(
            name=name,
            state=_server_state(row, labels),
            ended_alone=row["event"] == "ended" and row["fault_id"] is None,
        )
        for name, row in sorted(last.items())
    ]


def _server_state(row: Row, labels: Mapping[int, str]) -> str:
    if row["event"] != "ended":
        return "runs"
    status = _status(row["exit_code"])
    if row["fault_id"] is None:
        return f"ended by itself, {status}"
    return f"ended by {labels.get(row['fault_id'], 'a fault')}, {status}"


_FIGURES = {
    "acked": "acked",
    "failed": "failed",
    "indeterminate": "unknown",
    "shown": "read",
}
"""The figures of a client's progress file that are displayed, with their words."""
_LATE_S = 5
"""The age of a report from which on it is displayed."""


def clients_of(
    names: Iterable[str], reports: Mapping[str, Mapping[str, Any]], ended: Rows, now: int
) -> Iterator[ProcessView]:
    """Yield the state of each client.

    Args:
        names: The names of all clients of the run.
        reports: The progress file of each client that has written one.
        ended: The rows of the table ``clients``.
        now: The present time in nanoseconds of the Unix epoch.
    """
    by_client = {row["client"]: row for row in ended if row["session"] is None}
    for name in names:
        row, report = by_client.get(name), reports.get(name)
        if row is not None:
            by_fault = row["fault_id"] is not None
            state = f"ended by fault {row['fault_id']}" if by_fault else str(_how(row))
            yield ProcessView(name=name, state=state, ended_alone=not by_fault)
        elif report is not None:
            yield ProcessView(name=name, state=_reported(report, now))


def _reported(report: Mapping[str, Any], now: int) -> str:
    figures = [
        f"{report[key]:,} {word}"
        for key, word in _FIGURES.items()
        if isinstance(report.get(key), int) and (report[key] or key in ("acked", "shown"))
    ]
    time = report.get("time")
    age_s = (now - time) // NS_PER_S if isinstance(time, int) else 0
    late = [f"last report {age_s:,} s ago"] if age_s >= _LATE_S else []
    return ", ".join([*figures, *late]) or "started"


# --- curves -----------------------------------------------------------------------------------

POINTS_MAX = 300
_WIDTHS_S = (1, 2, 5, 10, 15, 30, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Outcomes a second over time: bins of ``width_s`` seconds from ``start`` (of the epoch) on."""

    start: int
    width_s: int
    rates: Mapping[str, Sequence[float]]


def curves_of(seconds: Mapping[str, Mapping[int, int]], until: int | None) -> Curves | None:
    """Return the outcomes a second by type, in at most :data:`POINTS_MAX` bins.

    ``until`` is the second of the epoch up to which all rows are on disk, or None if all rows are.
    A bin that is not over by then is left out, so that an outage is a line at 0 and a delay is not.
    Return None without any bin.
    """
    known = [second for counts in seconds.values() for second in counts]
    if not known:
        return None
    first, last = min(known), max(known) + 1 if until is None else until
    width = _width(last - first)
    count = -(-(last - first) // width) if until is None else (last - first) // width
    if count < 1:
        return None
    rates = {}
    for name, counts in seconds.items():
        bins = [0] * count
        for second, counted in counts.items():
            if (place := (second - first) // width) < count:
                bins[place] += counted
        rates[name] = [total / width for total in bins]
    return Curves(start=first, width_s=width, rates=rates)


def _width(span_s: int) -> int:
    needed = -(-span_s // POINTS_MAX)
    minutes = -(-needed // _WIDTHS_S[-1]) * _WIDTHS_S[-1]
    return next((each for each in _WIDTHS_S if each >= needed), minutes)


_FLUSHED_AFTER_S = 2
"""The seconds after which the rows of a client that still reports are on disk."""


def complete_until(reports: Mapping[str, Mapping[str, Any]]) -> int | None:
    """Return the second of the epoch up to which all rows are on disk while clients write, by the
    latest report of any of them. Return None without a report."""
    times = [report["time"] for report in reports.values() if isinstance(report.get("time"), int)]
    return max(times) // NS_PER_S - _FLUSHED_AFTER_S if times else None
