"""The exit status, from what was found.

A broken guarantee wins over everything: a crash in one run never hides a loss in another.
"""

from collections.abc import Iterable
from enum import IntEnum

from checkers.verdict import CampaignResult, Verdict


class ExitStatus(IntEnum):
    """What scripts depend on."""

    HELD = 0
    """Every guarantee held."""
    BROKEN = 1
    """A guarantee was broken."""
    USAGE = 2
    """Bad usage or campaign file."""
    INCONCLUSIVE = 3
    """Too little evidence, or the infrastructure failed."""


_SEVERITY = (ExitStatus.HELD, ExitStatus.INCONCLUSIVE, ExitStatus.USAGE, ExitStatus.BROKEN)


def exit_status(result: CampaignResult) -> ExitStatus:
    """The exit status of a campaign that was checked."""
    if result.verdict is Verdict.FAIL:
        return ExitStatus.BROKEN
    if result.infrastructure_failed or result.verdict is Verdict.INCONCLUSIVE:
        return ExitStatus.INCONCLUSIVE
    return ExitStatus.HELD


def worst(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """The one that counts of several campaigns; HELD of none."""
    return max(statuses, key=_SEVERITY.index, default=ExitStatus.HELD)
