"""A run of one cell or of two, in which nothing is wrong, and what was judged of each cell."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from ackproof.checkers.check import evidence
from ackproof.checkers.engine.reconcile import reconcile as reconcile_all
from ackproof.checkers.engine.results import FOUND, PartitionTotals, Totals
from ackproof.checkers.engine.work_items import WorkItem, work_items
from ackproof.checkers.guarantees.judge import campaign_result
from ackproof.checkers.verdict import CampaignResult, Verdict
from ackproof.history.storage import AnyPath
from tests.support.builders.histories import (
    AFTER,
    BEFORE,
    DURING,
    FINISHED,
    MadeRun,
    a_fault,
    at,
    cell,
    kept,
)

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


# A check without Spark: the same evidence, items, reconciliation and judgement, in one process.


def reconcile(item: WorkItem) -> tuple[pa.Table, PartitionTotals]:
    """The anomalies of one partition, rule by rule, and its totals."""
    rows = [FOUND.empty_table()]
    (totals,) = reconcile_all([item], rows.append)
    return pa.concat_tables(rows), totals


def checked(directory: AnyPath) -> CampaignResult:
    """Return the result of :func:`checkers.check.check` without findings on unplanned runs."""
    runs, gaps = evidence(directory)
    partitions = {}
    for item in (item for run in runs for item in work_items(run)):
        _, partitions[item.key] = reconcile(item)
    return campaign_result(runs, Totals(partitions=partitions), gaps=gaps)
