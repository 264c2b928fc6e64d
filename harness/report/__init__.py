"""The report: what the checkers found, for people (HTML), scripts (JSON) and CI servers (JUnit)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from checkers.verdict import CampaignResult
from harness.report import junit, losses, page, timeline, verdict


def write(directory: Path, result: CampaignResult) -> Path:
    """Write ``verdict.json``, ``junit.xml`` and ``report.html`` into a result directory.

    Reads the campaign, the runs' histories and ``anomalies.parquet`` from the same directory.
    Returns the path of the page.
    """
    campaign = _campaign(directory)
    verdict.write(directory / "verdict.json", verdict.to_document(campaign, result))
    junit.write(directory / "junit.xml", campaign, result)
    timelines = {
        int(run.name): timeline.read(run / "history")
        for run in (directory / "runs").glob("*")
        if run.name.isdigit()
    }
    html = page.render(campaign, result, timelines, losses.lost(directory))
    page.write(directory / "report.html", html)
    return directory / "report.html"


def load(directory: Path) -> CampaignResult | None:
    """The result that was written into this directory; None when none was."""
    file = directory / "verdict.json"
    if not file.exists():
        return None
    return verdict.from_document(json.loads(file.read_text(encoding="utf-8")))


def _campaign(directory: Path) -> Mapping[str, Any]:
    document = yaml.safe_load((directory / "campaign.yaml").read_text(encoding="utf-8"))
    return document if isinstance(document, dict) else {}
