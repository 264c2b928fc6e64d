"""``verdict.json``: the verdict of a campaign for scripts, and the way back from it.

The names are the contract; scripts depend on them. A cell's settings stand beside its numbers,
under Kafka's names. ``expected`` is null, a verdict, or a list of those that are right.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from checkers.verdict import CampaignResult, CellResult
from harness.campaign.sweep import several
from history.aside import write_text
from history.errors import DamagedFiles

FILE = "verdict.json"

_RESULT = TypeAdapter(CampaignResult)
_OF_A_CELL = {field.name for field in fields(CellResult)}


def to_document(campaign: Mapping[str, Any], result: CampaignResult) -> dict[str, Any]:
    """The content of ``verdict.json``. ``campaign``: the resolved campaign, for its name, its seed
    and the system that was put to the test."""
    cluster = campaign.get("cluster")
    return {
        "campaign": campaign.get("name"),
        "system": cluster.get("system") if isinstance(cluster, dict) else None,
        "seed": campaign.get("seed"),
        **asdict(result),
        "cells": [_cell(asdict(cell)) for cell in result.cells],
    }


def from_document(document: Mapping[str, Any]) -> CampaignResult:
    """The result that was written. ValueError where the document is not one of ours."""
    try:
        cells = [_gathered(cell) for cell in document["cells"]]
        return _RESULT.validate_python({**document, "cells": cells})
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise ValueError(f"no verdict of a campaign: {error}") from None


def write(directory: Path, document: Mapping[str, Any]) -> None:
    """Write it, aside and renamed, so that a reader never sees half of it."""
    write_text(directory / FILE, json.dumps(document, indent=2) + "\n")


def read(directory: Path) -> CampaignResult | None:
    """The result that was written into this directory; None when none was. Raises DamagedFiles."""
    file = directory / FILE
    try:
        return from_document(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DamagedFiles({file: str(error)}) from None


def _cell(result: dict[str, Any]) -> dict[str, Any]:
    cell = result.pop("settings")
    expected = result["expected"]
    result["expected"] = expected if len(expected) > 1 else next(iter(expected), None)
    named = {"run": result.pop("run"), "cell": cell["name"], "topic": cell["topic"]}
    return {**named, **cell["settings"], **result}


def _gathered(document: Mapping[str, Any]) -> dict[str, Any]:
    names = {"cell", "topic"}
    settings = {k: v for k, v in document.items() if k not in _OF_A_CELL | names}
    cell = {"name": document["cell"], "topic": document["topic"], "settings": settings}
    expected = document.get("expected")
    return {
        **{name: document[name] for name in document.keys() & _OF_A_CELL},
        "settings": cell,
        "expected": () if expected is None else several(expected),
    }
