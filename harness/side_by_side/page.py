"""``matrix.html``: the systems of a matrix side by side, for people."""

from collections.abc import Sequence
from pathlib import Path

from ackproof.checkers.checks.outages import OUTAGE_MIN_NS
from ackproof.harness.report.comparison import Comparison
from ackproof.harness.report.rendering import templates
from ackproof.harness.side_by_side.columns import after_faults, side_by_side
from ackproof.harness.side_by_side.members import Member
from ackproof.history.storage import write_text

FILE = "matrix.html"


def write(directory: Path, campaign: str, file: Path, seed: int, members: Sequence[Member]) -> Path:
    """The page, beside the systems' results. Raises OSError."""
    page = directory / FILE
    write_text(page, _render(campaign, file, seed, members))
    return page


def unavailable(members: Sequence[Member]) -> Comparison:
    """After each fault, as it is shown: a column for each system."""
    names = tuple(member.system for member in members)
    return Comparison(clusters=names, rounds=1, groups=after_faults(members))


def _render(campaign: str, file: Path, seed: int, members: Sequence[Member]) -> str:
    return (
        templates()
        .get_template("matrix.html")
        .render(
            campaign=campaign,
            campaign_yaml=file.read_text(encoding="utf-8"),
            seed=seed,
            members=members,
            comparison=side_by_side(members),
            after=unavailable(members),
            outage_min_ms=OUTAGE_MIN_NS // 1_000_000,
        )
    )
