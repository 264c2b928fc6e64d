"""The thresholds of a campaign with what was measured, as every report shows them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ackproof.checkers.thresholds import Threshold
from ackproof.checkers.verdict import Verdict
from ackproof.harness.report.rows import CellRow

HEADINGS = ("cell", "measure", "expected", "measured", "threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A threshold of a cell: a text for each of :data:`HEADINGS`, and the verdict whose colours the
    last one has."""

    texts: tuple[str, ...]
    kind: Verdict


def lines(cells: Sequence[CellRow]) -> Iterator[Line]:
    """Yield the thresholds of cells, in their order."""
    for cell in cells:
        for one in cell.thresholds:
            result = f"{one.status}: {one.reason}" if one.reason else one.status
            yield Line(
                texts=(cell.name, one.measure, one.bound, one.figure, result), kind=_KINDS[one.met]
            )


_KINDS = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.INCONCLUSIVE}


def in_short(thresholds: Iterable[Threshold]) -> str:
    """Return how many thresholds are met, in a sentence; empty where there are none."""
    counts = Counter(one.status for one in thresholds)
    if not counts:
        return ""
    others = [f"{many} {status}" for status, many in sorted(counts.items()) if status != "met"]
    return ", ".join([f"{counts['met']} of {counts.total()} thresholds met", *others]) + "."
