"""The result as Markdown: for the summary of a CI job, or a comment on a pull request."""

import re
from collections.abc import Iterable, Iterator, Sequence

from ackproof.checkers.verdict import CampaignResult, Verdict
from ackproof.harness.report import plugin_checks, thresholds
from ackproof.harness.report.causes import CauseGroup, grouped
from ackproof.harness.report.outcome import outcome
from ackproof.harness.report.rows import COUNTS, CellRow, columns, number, setting, why

CAUSES_MAX = 5
"""Groups of causes that are told; the report has all of them."""
FINDINGS_MAX = 10
"""Findings that are told, likewise."""
REASONS_MAX = 10
"""Reasons for a verdict that are told, likewise."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&~!])")


def to_markdown(campaign: str, result: CampaignResult, cells: Sequence[CellRow]) -> str:
    """Return the verdict, the cells, the causes and the findings of a campaign.

    Args:
        campaign: What the heading calls it, for example ``quick, seed 42``.
        result: What the checkers found.
        cells: The rows of its table.
    """
    return "\n".join(_lines(campaign, result, cells)) + "\n"


def _lines(campaign: str, result: CampaignResult, cells: Sequence[CellRow]) -> Iterator[str]:
    came = outcome(result)
    yield f"## Ackproof: {_text(campaign)}: {_text(result.verdict.value)}"
    yield ""
    yield f"**{_text(came.headline)}.**"
    for note in came.notes:
        yield _text(note)
    yield from _table(cells)
    yield from _thresholds(cells)
    groups = grouped(result.causes)
    yield from _section("Why records were lost, duplicated or changed", _causes(groups), CAUSES_MAX)
    reasons = (
        f"**{_text(cell.words)}** {_text(names)}: {_text(reason)}"
        for cell, names, reason in why(cells)
        if cell.kind is not Verdict.PASS
    )
    yield from _section("Why these verdicts", reasons, REASONS_MAX)
    checks = map(_text, plugin_checks.in_short(cells))
    yield from _section("Checkers of plug-ins", checks, FINDINGS_MAX)
    yield from _section("Findings", map(_text, result.findings), FINDINGS_MAX)
    yield from _section("Skipped faults", map(_text, result.skipped), FINDINGS_MAX)
    plugins = (_text(f"{name} {version}") for name, version in result.plugins.items())
    yield from _section("Plug-ins", plugins, FINDINGS_MAX)


def _table(cells: Sequence[CellRow]) -> Iterator[str]:
    """Yield one row a cell and run."""
    if not cells:
        return
    several = len({cell.run for cell in cells}) > 1
    settings = columns(cells)
    headings = (*(["run"] if several else []), *settings, *COUNTS, "verdict")
    yield ""
    yield _row(map(_text, headings))
    yield _row("---" if heading in (*settings, "verdict") else "---:" for heading in headings)
    for cell in cells:
        yield _row(
            [
                *([str(cell.run)] if several else []),
                *(_text(setting(cell, name)) for name in settings),
                *(number(cell.counts[name]) for name in COUNTS),
                _text(cell.words),
            ]
        )


def _thresholds(cells: Sequence[CellRow]) -> Iterator[str]:
    """Yield one row for each threshold of the campaign."""
    lines = list(thresholds.lines(cells))
    if not lines:
        return
    yield from ("", "### Thresholds", "")
    yield _row(thresholds.HEADINGS)
    yield _row("---" for _ in thresholds.HEADINGS)
    for line in lines:
        yield _row(map(_text, line.texts))


def _row(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _causes(groups: Sequence[CauseGroup]) -> Iterator[str]:
    for group in groups:
        yield (
            f"**{group.records:,} {_text(group.first.anomaly)}** ({_text(group.place)}): "
            f"{_text(group.first.sentence)}"
        )


def _section(heading: str, lines: Iterable[str], most: int) -> Iterator[str]:
    """Yield a list with a heading; nothing where the list is empty."""
    found = list(lines)
    if not found:
        return
    yield ""
    yield f"### {heading}"
    yield ""
    yield from (f"- {line}" for line in found[:most])
    if len(found) > most:
        yield f"- and {len(found) - most:,} more, which the report lists"


def _text(text: str) -> str:
    """Return a text that Markdown shows as it is, in one line: it may come from a broker's log."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
