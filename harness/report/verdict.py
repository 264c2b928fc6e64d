"""``verdict.json``: the verdict of a campaign for scripts, and the way back from it.

The names are the contract; scripts depend on them. Configuration properties keep Kafka's names.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from checkers.verdict import CampaignResult, CellResult, Guarantee, Verdict

# attribute of CellResult -> key of verdict.json, in the order in which they are written
_CELL_KEYS = {
    "run": "run",
    "cell": "cell",
    "acks": "acks",
    "min_insync_replicas": "min.insync.replicas",
    "replication_factor": "replication.factor",
    "unclean_leader_election": "unclean.leader.election.enable",
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
    }


def from_document(document: Mapping[str, Any]) -> CampaignResult:
    """The result that was written. KeyError or ValueError where the document is not one of ours."""
    return CampaignResult(
        verdict=Verdict(document["verdict"]),
        cells=tuple(_cell_from_document(cell) for cell in document["cells"]),
        anomalies=dict(document["anomalies"]),
        findings=tuple(document["findings"]),
    )


def write(path: Path, document: Mapping[str, Any]) -> None:
    """Write it, aside and renamed, so that a reader never sees half of it."""
    aside = path.with_name(f".{path.name}")
    aside.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    aside.replace(path)


def _cell_to_document(cell: CellResult) -> dict[str, Any]:
    return {
        **{key: getattr(cell, attribute) for attribute, key in _CELL_KEYS.items()},
        "guarantees": [asdict(guarantee) for guarantee in cell.guarantees],
        "verdict": cell.verdict.value,
        "reasons": list(cell.reasons),
    }


def _cell_from_document(document: Mapping[str, Any]) -> CellResult:
    return CellResult(
        **{attribute: document[key] for attribute, key in _CELL_KEYS.items()},
        guarantees=tuple(Guarantee(**guarantee) for guarantee in document["guarantees"]),
        verdict=Verdict(document["verdict"]),
        reasons=tuple(document["reasons"]),
    )
