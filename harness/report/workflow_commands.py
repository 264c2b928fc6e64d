"""The result as workflow commands of GitHub Actions, which become annotations of the job.

Source: GitHub's documentation, "Workflow commands for GitHub Actions", "Setting an error message".
"""

from collections.abc import Iterator, Sequence

from ackproof.checkers.verdict import CampaignResult, Verdict
from ackproof.harness.report.outcome import outcome
from ackproof.harness.report.rows import CellRow, why

ANNOTATIONS_MAX = 10
"""GitHub shows so many errors of a step."""


def to_commands(campaign: str, result: CampaignResult, cells: Sequence[CellRow]) -> str:
    """Return one command a line: each broken guarantee, each threshold that is not met, and
    why nothing is known.

    Args:
        campaign: What the annotations call it, for example ``quick, seed 42``.
    """
    commands = list(_commands(campaign, result, cells))
    return "".join(f"{line}\n" for line in commands[:ANNOTATIONS_MAX])


def _commands(campaign: str, result: CampaignResult, cells: Sequence[CellRow]) -> Iterator[str]:
    came = outcome(result)
    if came.kind is Verdict.PASS:
        return
    level = "error" if came.status else "notice"
    yield _command(level, f"Ackproof: {campaign}", f"{came.headline}.")
    for cell in cells:
        for one in cell.guarantees:
            if one.broken and cell.is_broken:
                text = f"{cell.name} broke {one.name} {one.broken:,} times: {one.promise}"
                yield _command("error", "Guarantee broken", text)
        for limit in cell.thresholds:
            if limit.met is False:
                yield _command("error", "Threshold not met", f"{cell.name}: {limit.words}")
    for cell, names, reason in why(cells):
        if cell.counts_as is Verdict.INCONCLUSIVE:
            yield _command("warning", "Inconclusive", f"{names}: {reason}")


def _command(level: str, title: str, text: str) -> str:
    """Return one command. In a property a colon and a comma are escaped, too."""
    escaped = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={escaped}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
