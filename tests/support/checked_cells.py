"""A run of one cell or of two, in which nothing is wrong, and what was judged of each cell."""

from pathlib import Path
from typing import Any

from made_histories import AFTER, BEFORE, DURING, FINISHED, MadeRun, a_fault, at, cell, kept

from ackproof.checkers.verdict import CampaignResult, Verdict

PASS, FAIL, NOT_GUARANTEED, INCONCLUSIVE = Verdict
WELL = kept(BEFORE, DURING, AFTER)
WHEN_COLLECTED = 70
TWO_CELLS = {("t", 0): WELL, ("u", 0): WELL}


def run(**changes: Any) -> MadeRun:
    return MadeRun(**{"partitions": {("t", 0): WELL}, **changes})


def collected(**changes: Any) -> MadeRun:
    """A run whose replicas' logs were collected from 70 to 80 seconds."""
    spans = {
        ("final-read", "start"): WHEN_COLLECTED - 2,
        ("final-read", "end"): WHEN_COLLECTED - 1,
        ("collect", "start"): WHEN_COLLECTED,
        ("collect", "end"): WHEN_COLLECTED + 10,
    }
    phases = [{**row, "time": at(spans.get((row["phase"], row["event"]), 0))} for row in FINISHED]
    return run(**{"replicas": True, "phases": phases, **changes})


def replicas_of(directory: Path) -> Path:
    return directory / "runs" / "1" / "replicas"


def two_cells(**changes: Any) -> MadeRun:
    """Cell c on t-0, which the kill touches, and d on u-0, which it touches too."""
    faults = a_fault(partitions=("t-0", "u-0"))
    return MadeRun(
        **{
            "partitions": TWO_CELLS,
            "cells": (cell(), cell(name="d", topic="u")),
            "faults": faults,
            **changes,
        }
    )


def verdicts(result: CampaignResult) -> dict[str, Verdict]:
    return {found.cell: found.verdict for found in result.cells}


def told(result: CampaignResult, name: str = "c") -> str:
    return "\n".join(r for found in result.cells if found.cell == name for r in found.reasons)
