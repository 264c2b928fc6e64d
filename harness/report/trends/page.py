"""The page of ``ackproof history trend --html``: the trends of a history file. One file, nothing
loaded from outside, everything escaped."""

from collections.abc import Sequence

from ackproof.harness.report.rendering import templates
from ackproof.harness.report.trends.night import Night
from ackproof.harness.report.trends.table import NUMBERS, TEXTS, numbers, texts
from ackproof.harness.report.trends.trend import by_campaign, occasion, trends


def render(oldest_first: Sequence[Night], troubles: Sequence[str], last: int) -> str:
    """Return the page. ``troubles``: what of the file is not shown; ``last``: how many nights of
    each campaign the charts show, while the tables have all."""
    occasions = [occasion(one) for one in reversed(oldest_first)]
    return (
        templates()
        .get_template("history.html")
        .render(
            trends=list(trends(occasions, last)),
            nights=by_campaign(occasions),
            total=len(oldest_first),
            troubles=troubles,
            headings=(TEXTS, NUMBERS),
            texts=texts,
            numbers=numbers,
        )
    )
