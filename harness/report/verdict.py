"""``verdict.json``: the verdict of a campaign for scripts, and the way back from it.

The names are the contract; scripts depend on them. Configuration properties keep Kafka's names.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from checkers.verdict import CampaignResult, CellResult, Guarantee, RunResult, Verdict
from history.cell import SETTINGS, Cell

# attribute of CellResult -> key of verdict.json, in the order in which they are written
_CELL_KEYS = {
    "run": "run",
    "cell": "cell",
    "sent": "sent",
    "acked": "acked",
    "failed": "failed",
    "indeterminate": "indeterminate",
    "lost": "lost",
    "duplicated": "duplicated",
    "reordered": "reordered",
}


def to_document(campaign: Mapping[str, Any], result: CampaignResult) -> dict[str, Any]:
    """The content of ``verdict.json``. ``campaign``: the resolved campaign, for name and seed."""
    return {
        "campaign": campaign.get("name"),
        "verdict": result.verdict.value,
        "seed": campaign.get("seed"),
        "cells": [_cell_to_document(cell) for cell in result.cells],
        "anomalies": dict(result.anomalies),
        "findings": list(result.findings),
        "baseline": result.baseline,
        "runs": [asdict(run) for run in result.runs],
    }


def from_document(document: Mapping[str, Any]) -> CampaignResult:
    """The result that was written. KeyError or ValueError where the document is not one of ours."""
    return CampaignResult(
        verdict=Verdict(document["verdict"]),
        cells=tuple(_cell_from_document(cell) for cell in document["cells"]),
        anomalies=dict(document["anomalies"]),
        findings=tuple(document["findings"]),
        baseline=document["baseline"],
        runs=tuple(RunResult(**run) for run in document["runs"]),
    )


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write it, aside and renamed, so that a reader never sees half of it."""
    aside = path.with_name(f".{path.name}")
    aside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    aside.replace(path)


def _cell_to_document(cell: CellResult) -> dict[str, Any]:
    settings = {name: setting.__get__(cell.settings, Cell) for name, setting in SETTINGS.items()}
    return {
        **{key: getattr(cell, attribute) for attribute, key in _CELL_KEYS.items()},
        "topic": cell.settings.topic,
        "settings": dict(cell.settings.settings),
        **settings,
        "guarantees": [asdict(guarantee) for guarantee in cell.guarantees],
        "verdict": cell.verdict.value,
        "expected": cell.expected,
        "reasons": list(cell.reasons),
    }


def _cell_from_document(document: Mapping[str, Any]) -> CellResult:
    counts = {key: document[key] for key in _CELL_KEYS if key != "cell"}
    expected = document["expected"]
    return CellResult(
        **counts,
        settings=Cell(
            name=document["cell"], topic=document["topic"], settings=document["settings"]
        ),
        guarantees=tuple(Guarantee(**guarantee) for guarantee in document["guarantees"]),
        verdict=Verdict(document["verdict"]),
        expected=None if expected is None else Verdict(expected),
        reasons=tuple(document["reasons"]),
    )
