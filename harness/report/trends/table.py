"""The nights of a campaign as rows of text, for the terminal, and as a page."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from ackproof.harness.console import plain
from ackproof.harness.report.rendering import templates
from ackproof.harness.report.rows import number
from ackproof.harness.report.terminal import styled
from ackproof.harness.report.trends.charts import MEASURES, assets
from ackproof.harness.report.trends.night import Night, date_of
from ackproof.harness.report.trends.trend import by_campaign, occasion, trends

# --- rows of text ---------------------------------------------------------------------------------

TEXTS = ("began (UTC)", "verdict", "system")
NUMBERS = ("seed", "cells", "acked", *(measure.title.lower() for measure in MEASURES))
"""The headings of the columns that are aligned to the left (TEXTS), and to the right."""


_SYLLABLES = {
    "duplicated": "dupli-\ncated",
    "elsewhere": "else-\nwhere",
    "guaranteed": "guaran-\nteed",
    "inconclusive": "incon-\nclusive",
    "unavailable": "unavail-\nable",
}


def texts(night: Night) -> tuple[str, str, str]:
    """Return the cells under :data:`TEXTS`."""
    return date_of(night.began_s), night.words, night.system or ""


def numbers(night: Night) -> tuple[str, ...]:
    """Return the cells under :data:`NUMBERS`."""
    return (
        "" if night.seed is None else str(night.seed),
        number(night.total.cells),
        number(night.total.acked),
        *(measure.told(night.total) for measure in MEASURES),
    )


def print_nights(console: Console, oldest_first: Sequence[Night], last: int) -> None:
    """Print a table for each campaign, of its ``last`` nights."""
    for campaign, of in by_campaign(map(occasion, oldest_first)).items():
        nights = [one.night for one in of if one.night is not None]
        console.print(plain(f"{campaign}: {_how_many(len(nights), last)}"), soft_wrap=True)
        console.print(_table(nights[-last:]))


def _folded(heading: str) -> str:
    """Return a heading over several lines, so that the table fits into a log."""
    return " ".join(_SYLLABLES.get(word, word) for word in heading.split()).replace(" ", "\n")


def _how_many(nights: int, last: int) -> str:
    if nights > last:
        return f"the last {last} of {nights} nights"
    return f"{nights} night{'s' if nights > 1 else ''}"


def _table(nights: Sequence[Night]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in TEXTS:
        table.add_column(_folded(heading), overflow="fold")
    for heading in NUMBERS:
        table.add_column(_folded(heading), justify="right", overflow="fold")
    for night in nights:
        began, words, system = texts(night)
        verdict = styled(plain(words).plain, night.kind)
        table.add_row(began, verdict, plain(system), *numbers(night))
    return table


# --- the page -------------------------------------------------------------------------------------


def render(oldest_first: Sequence[Night], troubles: Sequence[str], last: int) -> str:
    """Return the page. ``troubles`` are the lines of the file that are not shown. ``last`` is the
    number of nights of each campaign in the charts, while the tables have all."""
    occasions = [occasion(one) for one in reversed(oldest_first)]
    return (
        templates()
        .get_template("history.html")
        .render(
            trends=list(trends(occasions, last)),
            nights=by_campaign(occasions),
            total=len(oldest_first),
            troubles=troubles,
            charts=assets(),
            headings=(TEXTS, NUMBERS),
            texts=texts,
            numbers=numbers,
        )
    )
