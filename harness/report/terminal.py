"""The result of a campaign on a terminal or in a log, in about ten lines and a few short tables.

A table that would be longer than :data:`TABLE_LINES_MAX` is left to the report. The causes of the
verdict and the verdict itself come last, where a terminal shows them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from ackproof.checkers.verdict import WORST_FIRST, CampaignResult, Verdict
from ackproof.harness.console import plain as _plain
from ackproof.harness.report import clients
from ackproof.harness.report.comparison import (
    Comparison,
    compare,
    longest_outage,
    share_unavailable,
)
from ackproof.harness.report.leading_causes import SHOWN_MAX, LeadingCause
from ackproof.harness.report.outcome import (
    BASELINE,
    HELD,
    THRESHOLD_HEADINGS,
    outcome,
    threshold_lines,
)
from ackproof.harness.report.rows import COUNTS, CellRow, columns, number, setting
from ackproof.harness.report.similar_texts import grouped

TABLE_LINES_MAX = 8
"""The most lines of a table. Longer ones are in the report alone."""

FINDINGS_MAX = 2
"""The most kinds of findings that are printed. The report has all findings."""

_STYLES = {
    Verdict.PASS: "green",
    Verdict.FAIL: "bold red",
    Verdict.NOT_GUARANTEED: "yellow",
    Verdict.INCONCLUSIVE: "magenta",
}


def print_result(
    console: Console,
    result: CampaignResult,
    cells: Sequence[CellRow],
    causes: Sequence[LeadingCause],
) -> None:
    """Print the cells, the findings, the causes of the verdict, and the verdict."""
    for table in _tables(result, cells):
        console.print(table)
    for line in (*_counted(cells), *_unavailable(cells), *_findings(result)):
        _line(console, line)
    for one in result.skipped:
        _line(console, f"skipped: {one}")
    for cause in causes[:SHOWN_MAX]:
        _line(console, styled(cause.words, cause.kind), f"  {cause.sentence}")
    for advice in causes[0].remedies if causes else ():
        _line(console, f"advice on the first: {advice}")
    if len(causes) > SHOWN_MAX:
        _line(console, f"and {len(causes) - SHOWN_MAX} more causes, which are in the report")
    came = outcome(result)
    for note in came.notes:
        _line(console, note)
    what = " (a baseline: no fault was ordered)" if result.baseline else ""
    if came.headline not in (HELD, BASELINE):
        what += f" ({came.headline})"
    if result.skipped:
        what += " (the skipped parts are not covered)"
    _line(console, "verdict: ", styled(result.verdict.value, came.kind), what)


def _tables(result: CampaignResult, cells: Sequence[CellRow]) -> Iterator[Table]:
    """Yield the table of the cells and all further tables, without those that are too long."""
    if len(cells) <= TABLE_LINES_MAX:
        yield cells_table(cells)
    if any(cell.thresholds for cell in cells):
        yield thresholds_table(cells)
    comparison = compare(result, cells)
    if comparison is not None and len(comparison.clusters) > 1:
        yield comparison_table(comparison)
    counted = clients.consumers_in_short(result)
    if counted is not None and len(counted.lines) <= TABLE_LINES_MAX:
        yield consumption_table(counted)


def _counted(cells: Sequence[CellRow]) -> Iterator[str]:
    """Yield the number of cells of each verdict, if their table is too long."""
    if len(cells) > TABLE_LINES_MAX:
        counts = Counter(
            cell.words for cell in sorted(cells, key=lambda c: WORST_FIRST.index(c.kind))
        )
        told = ", ".join(f"{count} {words}" for words, count in counts.items())
        yield f"cells  {len(cells)}: {told}"


def _findings(result: CampaignResult) -> Iterator[str]:
    """Yield the first kinds of findings, and the number of the others."""
    kinds = grouped(result.findings)
    for kind in kinds[:FINDINGS_MAX]:
        yield f"finding: {kind.in_short}"
    if left := sum(len(kind.texts) for kind in kinds[FINDINGS_MAX:]):
        yield f"and {left} more findings, which are in the report"


def cells_table(cells: Sequence[CellRow]) -> Table:
    """Return a table with one row for each cell and run."""
    several_runs = len({cell.run for cell in cells}) > 1
    settings = columns(cells)
    table = Table(box=box.SIMPLE_HEAD, padding=0)
    for heading in (*(["run"] if several_runs else []), *settings, *COUNTS):
        table.add_column(_folded(heading), justify="right")
    table.add_column("verdict", no_wrap=True)
    for cell in cells:
        table.add_row(
            *([str(cell.run)] if several_runs else []),
            *(_plain(setting(cell, name)) for name in settings),
            *(number(cell.counts[name]) for name in COUNTS),
            styled(cell.words, cell.kind),
        )
    return table


def thresholds_table(cells: Sequence[CellRow]) -> Table:
    """Return a table with one row for each threshold of the campaign."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in THRESHOLD_HEADINGS:
        table.add_column(heading, overflow="fold")
    for line in threshold_lines(cells):
        *texts, result = line.texts
        table.add_row(*map(_plain, texts), styled(result, line.kind))
    return table


_SYLLABLES = {
    "indeterminate": "in-\ndeter-\nminate",
    "duplicated": "dupli-\ncated",
    "reordered": "re-\nordered",
    "nonmonotonic": "non-\nmono-\ntonic",
    "inconsistent": "incon-\nsistent",
    "committed": "com-\nmitted",
    "skipped by commit": "skipped\nby\ncommit",
}


def _folded(heading: str) -> Text:
    """Return a property's name over several lines, so that the table fits into 80 columns."""
    return Text(_SYLLABLES.get(heading, heading.replace(".", ".\n")))


def comparison_table(comparison: Comparison) -> Table:
    """Return a table of the clusters side by side."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in comparison.clusters:
        table.add_column(_plain(name), justify="right")
    for group in comparison.groups:
        table.add_row(_plain(group.title), style="bold")
        for line in group.lines:
            entries = (
                styled(one.text, one.verdict) if one.verdict else _plain(one.text)
                for one in line.entries
            )
            table.add_row(_plain(f"  {line.name}"), *entries)
    return table


def consumption_table(counted: clients.TextTable) -> Table:
    """Return a table of the counts of consumers. Counts that are 0 or do not apply everywhere are
    only named below it, so that the others stand out."""
    columns = list(zip(*counted.lines, strict=True))
    told = [
        at
        for at, values in enumerate(columns)
        if at < counted.names or not _NO_COUNT.issuperset(values)
    ]
    none = [heading for at, heading in enumerate(counted.headings) if at not in told]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=0)
    if none:
        table.caption = f"none: {', '.join(none)}"
        table.caption_justify = "left"
    for at in told:
        justify: JustifyMethod = "left" if at < counted.names else "right"
        heading = _folded(counted.headings[at])
        table.add_column(heading, justify=justify, overflow="fold")
    for line in counted.lines:
        table.add_row(*(_plain(line[at]) for at in told))
    return table


_NO_COUNT = frozenset({"0", clients.NOTHING})


def styled(words: str, verdict: Verdict) -> Text:
    """Return a text in the verdict's colour."""
    return Text(words, style=_STYLES[verdict])


def _unavailable(cells: Sequence[CellRow]) -> Iterator[str]:
    """Yield a line with the unavailability of cells, if there was any."""
    known = [cell.unavailable for cell in cells if cell.unavailable is not None]
    if any(one.longest_ms for one in known):
        of = (
            ""
            if len(known) == len(cells)
            else f" in the {len(known)} of {len(cells)} cells where it is known"
        )
        yield f"unavailable  longest {longest_outage(known)}; {share_unavailable(known)}{of}"


def _line(console: Console, *parts: str | Text) -> None:
    texts = (part if isinstance(part, Text) else _plain(part) for part in parts)
    console.print(Text.assemble(*texts), soft_wrap=True)
