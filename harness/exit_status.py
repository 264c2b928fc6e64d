"""The exit status of a command, derived from the result of a campaign.

A broken guarantee takes precedence over everything, so that a crash in one run never hides a loss
in another.
"""

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # they import Arrow, which ``ackproof --help`` and wrong usage do not need
    from ackproof.checkers.verdict import CampaignResult, Verdict


class ConfirmationNeeded(ValueError):
    """A confirmation that the user must give, and has not: :attr:`ExitStatus.USAGE`."""


class ExitStatus(IntEnum):
    """The exit statuses, on which scripts depend."""

    HELD = 0
    BROKEN = 1
    USAGE = 2
    INCONCLUSIVE = 3
    UNMET = 4
    INFRASTRUCTURE = 5

    @property
    def meaning(self) -> str:
        """Return the status in words, as ``--help`` and the README have it."""
        return _MEANINGS[self]


_MEANINGS = {
    ExitStatus.HELD: "no guarantee was broken, and every expectation was met",
    ExitStatus.BROKEN: "a guarantee was broken",
    ExitStatus.USAGE: "bad usage or campaign file",
    ExitStatus.INCONCLUSIVE: "inconclusive: too little evidence",
    ExitStatus.UNMET: "an expectation of the campaign was not met",
    ExitStatus.INFRASTRUCTURE: "the infrastructure failed, or a run did not finish",
}

_SEVERITY = (
    ExitStatus.HELD,
    ExitStatus.INCONCLUSIVE,
    ExitStatus.INFRASTRUCTURE,
    ExitStatus.UNMET,
    ExitStatus.USAGE,
    ExitStatus.BROKEN,
)


def exit_status(result: "CampaignResult") -> ExitStatus:
    """Return the exit status of a campaign that was checked.

    A cell that broke a guarantee fails the campaign, unless the campaign expects that. Any other
    cell that counts as failed did not meet an expectation.
    """
    from ackproof.checkers.verdict import Verdict

    return status_of(
        result.verdict,
        [cell.is_broken for cell in result.cells if cell.counts_as is Verdict.FAIL],
        infrastructure_failed=any(run.infrastructure_failed for run in result.runs),
    )


def status_of(
    verdict: "Verdict", failed: Collection[bool], *, infrastructure_failed: bool
) -> ExitStatus:
    """Return the exit status of a campaign's ``verdict``.

    ``failed`` says of each cell that counts as failed whether it broke a guarantee.
    ``infrastructure_failed`` says whether the infrastructure of a run failed.
    """
    from ackproof.checkers.verdict import Verdict

    if verdict is Verdict.FAIL:
        return ExitStatus.UNMET if failed and not any(failed) else ExitStatus.BROKEN
    if infrastructure_failed:
        return ExitStatus.INFRASTRUCTURE
    return ExitStatus.INCONCLUSIVE if verdict is Verdict.INCONCLUSIVE else ExitStatus.HELD


def worst(statuses: Iterable[ExitStatus]) -> ExitStatus:
    """Return the status that counts for several campaigns, or HELD without any."""
    return max(statuses, key=_SEVERITY.index, default=ExitStatus.HELD)
