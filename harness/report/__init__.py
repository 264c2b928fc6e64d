"""The report: what the checkers found, for people (HTML), scripts (JSON) and CI servers (JUnit).

A report never outlives its verdict. What is written here is removed before anything is checked or
reported again, so that nothing that says ``pass`` stays beside a history that does not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from checkers.verdict import CampaignResult
from harness.report import about, junit, losses, page, timeline, verdict
from harness.report.losses import LossWindow
from harness.report.rows import CellRow, rows
from history import manifest
from history.aside import write_text
from history.errors import DamagedFiles, HistoryError
from history.manifest import Manifest, PlannedRun
from history.storage import AnyPath

PAGE, JUNIT = "report.html", "junit.xml"


def remove(directory: AnyPath) -> None:
    """Remove what a former check and report left in a result directory."""
    for name in (PAGE, JUNIT, verdict.FILE, losses.ANOMALIES_FILE, losses.AUTOPSIES_FILE):
        (directory / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written. ``windows``: the lost records by cell, partition and fault."""

    page: AnyPath
    cells: Sequence[CellRow]
    windows: Sequence[LossWindow]


def write(directory: AnyPath, result: CampaignResult) -> Written:
    """Write ``verdict.json``, ``junit.xml`` and ``report.html`` into a result directory.

    Reads the campaign, the runs' histories and ``anomalies.parquet`` from the same directory.
    A run whose history cannot be read is on the page with the reason: a broken guarantee is told,
    whatever else is broken. Raises DamagedFiles for anomalies that cannot be read.
    """
    campaign = _campaign(directory)
    planned = _manifest(directory)
    cells = rows(result, planned)
    planned_runs = {run.number: run for run in planned.runs} if planned else {}
    timelines = {
        int(run.name): _timeline(run / "history", planned_runs.get(int(run.name)))
        for run in (directory / "runs").glob("*")
        if run.name.isdigit()
    }
    told = about.read(directory, timelines)
    listed, lost_total = losses.lost(directory)
    counted = losses.by_fault(directory)
    verdict.write(directory, verdict.to_document(campaign, result, told, counted))
    first_rows = losses.first_rows(directory)
    for_ci = junit.Told(about=told, first_rows=first_rows, page=directory / PAGE)
    junit.write(directory / JUNIT, campaign, result, cells, for_ci)
    windows = losses.windows(listed)
    html = page.render(
        campaign, result, cells, timelines, windows, lost_total=lost_total, about=told
    )
    write_text(directory / PAGE, html)
    return Written(page=directory / PAGE, cells=cells, windows=windows)


def load(directory: AnyPath) -> CampaignResult | None:
    """The result that was written into this directory; None when none was.

    Raises DamagedFiles when it, or what a report of it is made of, is not whole. Whatever comes of
    it, a former page is removed: it would stay where there is nothing to write a new one from.
    """
    (directory / PAGE).unlink(missing_ok=True)
    (directory / JUNIT).unlink(missing_ok=True)
    result = verdict.read(directory)
    if result is None:
        return None
    losses.lost(directory)
    if result.cells and not (directory / "runs").is_dir():
        raise DamagedFiles({directory / "runs": "is not there"})
    return result


def _timeline(history: AnyPath, planned: PlannedRun | None) -> timeline.Timeline | str:
    """The timeline of a run, or why there is none."""
    try:
        return timeline.read(history, planned.faults if planned else ())
    except (HistoryError, OSError, ValueError, KeyError) as error:
        return str(error)


def _manifest(directory: AnyPath) -> Manifest | None:
    """The clusters' settings, for show; that there is no manifest is for the checkers to say."""
    try:
        return manifest.read(directory)
    except HistoryError:
        return None


def _campaign(directory: AnyPath) -> Mapping[str, Any]:
    """The resolved campaign, for show."""
    try:
        document = yaml.safe_load((directory / "campaign.yaml").read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        document = None
    nameless = {"name": directory.name, "seed": None}
    return {**nameless, **document} if isinstance(document, dict) else nameless
