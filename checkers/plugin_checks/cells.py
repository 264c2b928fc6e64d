"""The examination of whole cells by plug-ins' checkers, in the process that checks, a cell at a
time."""

from collections.abc import Callable, Mapping, Sequence

from ackproof.checkers.evidence.run import RunEvidence
from ackproof.checkers.plugin_checks.examination import Examination, examined
from ackproof.checkers.plugin_checks.work import work_of

CellExaminations = Mapping[tuple[int, str], Mapping[str, Examination]]
"""By run and cell, then by checker."""


def examine_cells(runs: Sequence[RunEvidence], tell: Callable[[str], None]) -> CellExaminations:
    """Have every checker of whole cells look at each cell that it concerns."""
    found = {}
    for run in runs:
        for planned in run.planned.cells:
            work = work_of(run, planned, None)
            if work:
                names = ", ".join(one.checker for one in work)
                tell(f"{names} of {planned.cell.name}, run {run.number}")
            found[run.number, planned.cell.name] = {one.checker: examined(one) for one in work}
    return found
