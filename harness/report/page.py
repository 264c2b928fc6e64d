"""``report.html``: one self-contained page, nothing loaded from outside, everything escaped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup

from checkers.guarantees import NO_LOSS
from checkers.verdict import CampaignResult, CellResult, Verdict
from harness.report import figures, losses
from harness.report.timeline import NS_PER_S, Timeline

HEADLINES = {
    Verdict.PASS: "Every guarantee held",
    Verdict.FAIL: "A guarantee was broken",
    Verdict.NOT_GUARANTEED: "Nothing was promised",
    Verdict.INCONCLUSIVE: "Too little evidence",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """One run on the page. ``picture``: its timeline as SVG, empty without acks."""

    number: int
    timeline: Timeline
    picture: Markup


def render(
    campaign: Mapping[str, Any],
    result: CampaignResult,
    timelines: Mapping[int, Timeline],
    lost: Sequence[Mapping[str, Any]],
) -> str:
    """The page.

    Args:
        campaign: The resolved campaign.
        result: What the checkers found.
        timelines: By run number.
        lost: Every lost record, as ``losses.lost`` returns them.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("harness.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=_number, clock=_clock, observation=_observation, line=_record_line
    )
    return environment.get_template("report.html").render(
        campaign=campaign,
        campaign_yaml=yaml.safe_dump(dict(campaign), sort_keys=False, allow_unicode=True),
        result=result,
        headline=HEADLINES[result.verdict],
        summary=_summary(result),
        # The pictures are ours: text in them was escaped when matplotlib wrote the SVG.
        matrix=Markup(figures.matrix(result.cells)) if result.cells else "",
        runs=[_run(number, line, result) for number, line in sorted(timelines.items())],
        windows=losses.windows(lost[: losses.LISTED_MAX], timelines),
        lost_listed=min(len(lost), losses.LISTED_MAX),
        lost_total=len(lost),
    )


def _run(number: int, timeline: Timeline, result: CampaignResult) -> RunSection:
    cells = [cell for cell in result.cells if cell.run == number]
    return RunSection(
        number=number,
        timeline=timeline,
        picture=Markup(figures.timeline(timeline, cells) if cells else ""),
    )


def _summary(result: CampaignResult) -> str:
    promised = [cell for cell in result.cells if _promises_no_loss(cell)]
    others = [cell for cell in result.cells if not _promises_no_loss(cell)]
    sentences = []
    if promised:
        sentences.append(
            f"Where the configuration promises to lose nothing, {_total(promised, 'lost'):,} of "
            f"{_total(promised, 'acked'):,} acknowledged records were lost."
        )
    if others:
        sentences.append(
            f"Where it promises nothing, {_total(others, 'lost'):,} of "
            f"{_total(others, 'acked'):,} were."
        )
    return " ".join(sentences)


def _promises_no_loss(cell: CellResult) -> bool:
    return any(guarantee.name == NO_LOSS and guarantee.promised for guarantee in cell.guarantees)


def _total(cells: Sequence[CellResult], name: str) -> int:
    return sum(getattr(cell, name) for cell in cells)


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _clock(nanoseconds: int | None) -> str:
    """Time of day, UTC, with milliseconds."""
    if nanoseconds is None:
        return "-"
    moment = datetime.fromtimestamp(nanoseconds / NS_PER_S, UTC)
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def _record_line(row: Mapping[str, Any]) -> str:
    """A lost record in one line of fixed columns."""
    producer_and_sequence = f"producer {row['producer']} sequence {row['sequence']}"
    return f"{_clock(row['time'])}  {producer_and_sequence:<28}  {row['detail'] or ''}"


def _observation(value: object) -> str:
    """An observation of the evidence in short: ``{"broker-1": True}`` as ``broker-1: yes``."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_observation(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_observation(part) for part in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def write(path: Path, page: str) -> None:
    """Write the page, aside and renamed."""
    aside = path.with_name(f".{path.name}")
    aside.write_text(page, encoding="utf-8")
    aside.replace(path)
