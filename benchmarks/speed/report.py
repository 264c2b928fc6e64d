"""The ratios as a table and as JSON."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import median

from rich.table import Table

from benchmarks.speed.cases import MORE_IS_BETTER
from benchmarks.speed.runs import Ratios


def table(ratios: Iterable[Ratios]) -> Table:
    """Return a table with the least, middle and greatest ratio of each row."""
    made = Table("case", "figure", "good is", title="Ackproof's broker / Apache Kafka")
    for heading in ("min", "median", "max"):
        made.add_column(heading, justify="right")
    for row in ratios:
        values = (min(row.values), median(row.values), max(row.values))
        shown = (f"{value:.2f}" for value in values)
        made.add_row(row.case, row.figure, _good(row.figure), *shown)
    return made


def save(ratios: Iterable[Ratios], path: Path) -> None:
    """Write all repetitions as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(row), "good": _good(row.figure)} for row in ratios]
    path.write_text(json.dumps(rows, indent=1) + "\n")


def _good(figure: str) -> str:
    return "> 1" if figure in MORE_IS_BETTER else "< 1"
