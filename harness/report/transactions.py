"""What is shown of transactions: a line for each cell that is written in them."""

from collections.abc import Mapping

from ackproof.checkers.checks.transaction_history import SUMMARIES
from ackproof.checkers.verdict import CampaignResult
from ackproof.harness.report.consumption import Table
from ackproof.harness.report.rows import number

MEANINGS: Mapping[str, str] = {
    "committed": "their commit was answered",
    "not committed": "aborted, or nobody asked for their commit, or whoever did had been fenced",
    "of unknown outcome": "nobody knows, but for what stands in the end",
    **SUMMARIES,
}
"""What the headings mean, for the page."""


def table(result: CampaignResult) -> Table | None:
    """Headings and lines; None where no cell has transactions."""
    lines = [
        (
            str(cell.run),
            cell.cell,
            cell.settings.isolation,
            *map(number, (told.committed, told.not_committed, told.unknown)),
            *(number(told.found.get(anomaly)) for anomaly in SUMMARIES),
        )
        for cell in result.cells
        if (told := cell.transactions) is not None
    ]
    headings = ("run", "cell", "isolation.level", *MEANINGS)
    return Table(headings=headings, names=3, lines=tuple(lines)) if lines else None
