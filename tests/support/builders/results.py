"""Results as checking yields them, made by hand: what a test does not care about is filled in."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ackproof.checkers.thresholds import Threshold, Unit
from ackproof.checkers.verdict import CampaignResult, CellResult, Guarantee, RunResult, Verdict
from ackproof.harness.report import verdict
from ackproof.harness.report.about import About
from ackproof.harness.report.leading_causes import LeadingCause
from ackproof.history.cell import Cell, Value


def cell_result(
    name: str = "c",
    verdict: Verdict = Verdict.PASS,
    *,
    topic: str | None = None,
    settings: Mapping[str, Value] | None = None,
    guarantees: Iterable[Guarantee] = (),
    **changes: Any,
) -> CellResult:
    """A cell, sent 12 records, of which 10 are acked and none is lost; ``changes``: of whatever
    else a result has."""
    made = CellResult(
        run=1,
        settings=Cell(name=name, topic=topic or name, settings=settings or {}),
        sent=12,
        acked=10,
        failed=1,
        indeterminate=1,
        lost=0,
        duplicated=0,
        reordered=0,
        guarantees=tuple(guarantees),
        verdict=verdict,
        reasons=("so",),
    )
    return replace(made, **changes)


def guarantee(
    name: str = "no-acked-record-lost",
    *,
    promised: bool = True,
    held: bool | None = True,
    broken: int | None = None,
    anomaly: str | None = "lost",
    reason: str = "so",
) -> Guarantee:
    """A guarantee, held as promised. ``broken``: once where it was promised and did not hold."""
    return Guarantee(
        name=name,
        promise="p",
        promised=promised,
        held=held,
        broken=int(promised and held is False) if broken is None else broken,
        anomaly=anomaly,
        reason=reason,
    )


def threshold(measure: str = "unavailable.longest", *, met: bool | None = True) -> Threshold:
    """A threshold of 10 s: 4 s were measured, or 28.041 s, or nothing."""
    measured = {True: 4_000.0, False: 28_041.0, None: None}[met]
    return Threshold(
        measure=measure,
        operator="<=",
        limit=10_000,
        unit=Unit.MILLISECONDS,
        measured=measured,
        met=met,
        reason="" if measured else "the cell has no tail reader",
    )


# Checked results of several nights, made by hand.

T0 = 1_942_453_020_000_000_000  # 2031-07-22T02:17:00Z
DAY = 86_400 * 1_000_000_000


def result(outcome: Verdict = Verdict.PASS, *, lost: int | None = 0) -> CampaignResult:
    """Return a result of two cells: one guarantees no loss, and one of five lost records."""
    held = None if lost is None else not lost
    broken = lost or 0
    kept = cell_result("all", outcome, guarantees=[guarantee(held=held, broken=broken)], lost=lost)
    loose = cell_result(
        "one",
        Verdict.NOT_GUARANTEED,
        guarantees=[guarantee(promised=False)],
        lost=5,
        duplicated=2,
    )
    return of_cells(outcome, kept, loose)


def of_cells(outcome: Verdict, *cells: CellResult) -> CampaignResult:
    """Return a result of one run with these cells."""
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False)
    return CampaignResult(verdict=outcome, cells=cells, anomalies={}, findings=(), runs=(run,))


def night(
    root: Path,
    name: str,
    day: float,
    of: CampaignResult | None = None,
    campaign: Mapping[str, object] | None = None,
    leading: Sequence[LeadingCause] = (),
) -> Path:
    """Write the checked results of a campaign that began on that day."""
    directory = root / name
    directory.mkdir(exist_ok=True)
    began = T0 + round(day * DAY)
    about = About(spans={1: (began, began + 185 * 1_000_000_000)})
    named = campaign or {"name": "nightly", "seed": int(day), "cluster": {"system": "bundled"}}
    (directory / "campaign.yaml").write_text(json.dumps(named))  # JSON is YAML, too
    written = verdict.to_document(named, of or result(), about, leading=leading)
    verdict.write(directory, written)
    (directory / "report.html").write_text("a report")
    return directory
