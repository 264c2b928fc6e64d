"""The live page of a run, and the events that fill it.

The page is one file and loads nothing from outside. Its script writes every value as text, never as
markup.
"""

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any

from ackproof.harness.report import axis
from ackproof.harness.report.axis.bins import NS_PER_S
from ackproof.harness.report.live.source import RunState
from ackproof.harness.report.live.state import FaultState, ProcessView
from ackproof.harness.report.rendering import templates
from ackproof.history.messages import printable

EVENTS = "live-events"
"""The path of the events, relative to the page."""
REPORT = "report.html"
_VERDICT = "verdict.json"
ROWS_MAX = 100
"""The most findings, bands and partitions of an event; the page names the number of others."""


class Ending(StrEnum):
    """The end of a run, with or without a report."""

    REPORTED = "reported"
    GONE = "gone"
    """Without a report: it was killed, or could not write one."""


def ending_of(directory: Path, *, goes_on: bool) -> Ending | None:
    """Return how the run with these results has ended, or None while it goes on."""
    if (directory / REPORT).is_file():
        return Ending.REPORTED
    return None if goes_on else Ending.GONE


def page(directory: Path) -> str:
    """Return the page for the run with these results."""
    uplot = axis.library()
    script = (resources.files(__package__) / "live.js").read_text(encoding="utf-8")
    return (
        templates()
        .get_template("live.html")
        .render(
            directory=printable(str(directory)),
            events=EVENTS,
            report=REPORT,
            script=f"{uplot.script}\n{script}",
            style=uplot.style,
        )
    )


def event(directory: Path, run: RunState | None, ending: Ending | None) -> str:
    """Return one server-sent event: the whole state of a run, as JSON in one line."""
    state = {"ending": ending, "verdict": _verdict(directory) if ending else None}
    content = state if run is None else {**state, **_content(run)}
    return f"data: {json.dumps(content)}\n\n"


def _verdict(directory: Path) -> str | None:
    try:
        document = json.loads((directory / _VERDICT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    verdict = document.get("verdict") if isinstance(document, dict) else None
    return verdict if isinstance(verdict, str) else None


def _content(run: RunState) -> Mapping[str, Any]:
    began = run.now if run.began is None else run.began
    found = run.findings
    return {
        "campaign": run.campaign,
        "system": run.system,
        "seed": run.seed,
        "number": run.number,
        "runs": run.runs,
        "step": run.step,
        "elapsed_s": max(0, run.now - began) // NS_PER_S,
        "cells": [
            {
                "name": name,
                "sent": cell.sent,
                "acked": cell.acked,
                "failed": cell.failed,
                "unknown": cell.unknown,
            }
            for name, cell in run.cells.items()
        ],
        "open_faults": [_open(fault, run.now) for fault in run.open_faults],
        "bands": [_band(fault, began) for fault in run.faults[-ROWS_MAX:]],
        "findings": None
        if found is None
        else [
            {"at_s": max(0, one.time - began) // NS_PER_S, "text": one.text}
            for one in found[-ROWS_MAX:]
        ],
        "findings_all": None if found is None else len(found),
        "servers": _processes(run.servers),
        "observed_servers": run.observed_servers,
        "clients": _processes(run.clients),
        "partitions": [
            {
                "name": f"{one.topic}-{one.partition}",
                "leader": one.leader,
                "isr": list(one.isr),
            }
            for one in run.partitions[:ROWS_MAX]
        ],
        "partitions_all": len(run.partitions),
        "curves": _curves(run, began),
        "log": list(run.log),
        "server_logs": [
            {"name": name, "lines": list(lines)} for name, lines in run.server_logs.items()
        ],
        "unreadable": list(run.unreadable),
    }


def _open(fault: FaultState, now: int) -> Mapping[str, Any]:
    return {
        "label": fault.label,
        "target": fault.target,
        "state": fault.state,
        "open_s": max(0, now - fault.start) // NS_PER_S,
        "left_s": None if fault.due is None else max(0, fault.due - now) // NS_PER_S,
    }


def _band(fault: FaultState, began: int) -> Mapping[str, Any]:
    return {
        "label": fault.label,
        "since": (fault.start - began) / NS_PER_S,
        "until": None if fault.end is None else (fault.end - began) / NS_PER_S,
    }


def _processes(processes: Sequence[ProcessView]) -> Sequence[Mapping[str, Any]]:
    return [
        {"name": one.name, "state": one.state, "ended_alone": one.ended_alone} for one in processes
    ]


def _curves(run: RunState, began: int) -> Mapping[str, Any] | None:
    curves = run.curves
    if curves is None:
        return None
    rates = {kind: list(curves.rates.get(kind, ())) for kind in ("ok", "fail", "info")}
    return {"start": curves.start - began / NS_PER_S, "width": curves.width_s, **rates}
