"""Why anomalies came about: the checkers' autopsies, the damning ones first, long lists folded."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checkers.verdict import CampaignResult, Cause

SHOWN_MAX = 5
"""Causes that are told at once; further ones are folded."""

DAMNING_MAX = 20
"""Likewise where they break a promise."""

LISTED_MAX = 500
"""On the page, folded ones too; ``verdict.json`` has all."""


WHAT = {
    "lost": "lost",
    "duplicated": "duplicated",
    "vanished-read": "shown, and gone",
    "inconsistent-read": "shown, and others now",
    "divergent-replicas": "not the same in all replicas",
}
"""What became of the records that a cause is of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """``shown``: told at once; ``folded``: on demand; ``left``: how many more there are."""

    shown: Sequence[Cause]
    folded: Sequence[Cause]
    left: int


def causes(result: CampaignResult) -> Causes:
    """Those of a result, in its order: what breaks a promise first."""
    at_once = max(SHOWN_MAX, min(len(promised(result)), DAMNING_MAX))
    listed = result.causes[:LISTED_MAX]
    return Causes(
        shown=listed[:at_once], folded=listed[at_once:], left=len(result.causes) - len(listed)
    )


def promised(result: CampaignResult) -> list[Cause]:
    """Those that break a promise."""
    return [cause for cause in result.causes if cause.promised]


def in_lines(result: CampaignResult, most: int) -> Iterator[str]:
    """Each of these in a line, for a terminal; at most so many."""
    damning = promised(result)
    for cause in damning[:most]:
        where = f"{cause.cell}, {cause.topic}-{cause.partition}"
        what = f"{cause.promised:,} promised records {WHAT[cause.anomaly]}"
        yield f"why   {where}: {what}: {cause.sentence}"
    if len(damning) > most:
        yield f"why   {len(damning) - most} further causes: see the report"
