"""Checked results of several nights, made by hand."""

import json
from collections.abc import Mapping
from pathlib import Path

from made_results import cell_result, guarantee

from ackproof.checkers.verdict import CampaignResult, CellResult, RunResult, Verdict
from ackproof.harness.report import verdict
from ackproof.harness.report.about import About

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
) -> Path:
    """Write the checked results of a campaign that began on that day."""
    directory = root / name
    directory.mkdir(exist_ok=True)
    began = T0 + round(day * DAY)
    about = About(spans={1: (began, began + 185 * 1_000_000_000)})
    named = campaign or {"name": "nightly", "seed": int(day), "cluster": {"system": "bundled"}}
    (directory / "campaign.yaml").write_text(json.dumps(named))  # JSON is YAML, too
    verdict.write(directory, verdict.to_document(named, of or result(), about))
    (directory / "report.html").write_text("a report")
    return directory
