"""What a campaign came to, as tables on a terminal or in a log."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from checkers.verdict import CampaignResult, CellResult, Verdict

_STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.NOT_GUARANTEED: "yellow",
    Verdict.INCONCLUSIVE: "magenta",
}
_COUNTS = ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered")


def print_result(console: Console, result: CampaignResult) -> None:
    """The cells, the findings, the verdict."""
    console.print(cells_table(result.cells))
    for finding in result.findings:
        console.print(Text(f"finding: {finding}"), soft_wrap=True)
    console.print(Text.assemble("verdict: ", styled(result.verdict)))


def cells_table(cells: Sequence[CellResult]) -> Table:
    """One row a cell and run."""
    several_runs = len({cell.run for cell in cells}) > 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in (*(["run"] if several_runs else []), "acks", "min.insync.replicas"):
        table.add_column(heading, justify="right")
    for heading in _COUNTS:
        table.add_column(heading, justify="right")
    table.add_column("verdict")
    for cell in cells:
        table.add_row(
            *([str(cell.run)] if several_runs else []),
            cell.settings.acks,
            str(cell.settings.min_insync_replicas),
            *(f"{getattr(cell, name):,}" for name in _COUNTS),
            styled(cell.verdict),
        )
    return table


def styled(verdict: Verdict) -> Text:
    """The verdict in its colour."""
    return Text(verdict.value, style=_STYLES[verdict])
