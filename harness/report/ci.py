"""Results for CI servers: ``junit.xml``, a summary in Markdown, and annotations of GitHub
Actions."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from ackproof.checkers.thresholds import Threshold
from ackproof.checkers.verdict import CampaignResult, Guarantee, Verdict
from ackproof.harness.exit_status import exit_status
from ackproof.harness.report.about import About, moment
from ackproof.harness.report.causes import CauseGroup, grouped
from ackproof.harness.report.leading_causes import FirstRows, leading_causes
from ackproof.harness.report.losses import Row
from ackproof.harness.report.outcome import (
    THRESHOLD_HEADINGS,
    guarantees_checked,
    outcome,
    threshold_lines,
)
from ackproof.harness.report.rows import COUNTS, CellRow, columns, number, setting
from ackproof.harness.report.timeline import NS_PER_S
from ackproof.harness.report.violations import plugins_in_short
from ackproof.history.storage import AnyPath, whole

# --- junit.xml ------------------------------------------------------------------------------------
#
# A broken guarantee is a failure. A guarantee whose result is unknown is an error if its cell is
# inconclusive for lack of evidence. A guarantee that was not promised and did not hold is skipped,
# with the observations, because it is neither broken nor plainly green. So is one that was broken
# as the campaign expects. A cell with an expected verdict also has a case for that, and one for
# each threshold. A threshold that is not met is a failure, and an undecided one an error.
#
# CI servers add up the times of cases. The time of a run is shared among its cases, so that the sum
# is its own.

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML cannot hold. Reasons may contain them, because they quote messages of
servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFacts:
    """The facts that a case needs besides its cell. ``page`` is the path of the report."""

    about: About
    first_rows: FirstRows
    page: AnyPath


def write(
    path: AnyPath,
    campaign: Mapping[str, Any],
    result: CampaignResult,
    cells: Sequence[CellRow],
    told: CaseFacts,
) -> None:
    """Write the result as JUnit XML."""
    name = _legal(str(campaign.get("name")))
    numbers = sorted({cell.run for cell in cells})
    several = len(numbers) > 1
    document = JUnitXml(name)
    for run in numbers:
        prefix = f"{name}.run-{run}" if several else name
        cases = [case for cell in cells if cell.run == run for case in _cases(prefix, cell, told)]
        suite = _suite(f"{name} run {run}" if several else name, campaign, result, told.about)
        _add_times(suite, cases, told.about, run)
        suite.add_testcases(cases)
        document.add_testsuite(suite)
    if _is_told_by_no_cell(result):
        whole_campaign = TestCase("campaign", name)
        came = "; ".join((outcome(result).headline, *outcome(result).notes, *result.findings))
        whole_campaign.result = [Error(_legal(came))]
        suite = _suite(f"{name} as a whole", campaign, result, told.about)
        suite.add_testcase(whole_campaign)
        document.add_testsuite(suite)
    with whole(path) as file:
        document.write(file, pretty=True)


def _is_told_by_no_cell(result: CampaignResult) -> bool:
    """Return whether there is a failure or an undecided result that no case of a cell reports."""
    if not result.cells or result.infrastructure_failed:
        return True
    undecided = result.verdict is Verdict.INCONCLUSIVE
    return undecided and all(c.counts_as is not Verdict.INCONCLUSIVE for c in result.cells)


def _suite(
    name: str, campaign: Mapping[str, Any], result: CampaignResult, about: About
) -> TestSuite:
    suite = TestSuite(name)
    versions = {k: v for k, v in about.environment.versions.model_dump().items() if v is not None}
    properties = {
        "seed": str(campaign.get("seed")),
        "verdict": result.verdict.value,
        "exit_status": str(int(exit_status(result))),
        "checked": guarantees_checked(result.cells).words,
        "baseline": str(result.baseline).lower(),
        **({"skipped": "; ".join(result.skipped)} if result.skipped else {}),
        **versions,
        **{f"plug-in {name}": version for name, version in result.plugins.items()},
    }
    for key, value in properties.items():
        suite.add_property(key, _legal(value))
    return suite


def _add_times(suite: TestSuite, cases: Sequence[TestCase], about: About, run: int) -> None:
    span, took_s = about.spans.get(run), about.run_s(run)
    if span is None or took_s is None:
        return
    # The time is UTC without a zone, because the older of the schemas in use refuse a zone.
    suite.timestamp = f"{datetime.fromtimestamp(span[0] // NS_PER_S, UTC):%Y-%m-%dT%H:%M:%S}"
    for case in cases:
        case.time = round(took_s / len(cases), 3)


def _cases(prefix: str, cell: CellRow, told: CaseFacts) -> list[TestCase]:
    place = f"{prefix}.{_legal(cell.cell)}"
    cases = [_case(place, cell, one, told) for one in cell.guarantees]
    kind = {Verdict.INCONCLUSIVE: Error, Verdict.FAIL: Failure}.get(cell.verdict_counts_as)
    told_of = [type(one) for case in cases for one in case.result]
    if cell.expected or (kind is not None and kind not in told_of):
        cases.append(_whole(place, cell, told))
    return [*cases, *(_threshold(place, cell, one, told) for one in cell.thresholds)]


def _case(place: str, cell: CellRow, guarantee: Guarantee, told: CaseFacts) -> TestCase:
    case = TestCase(_legal(guarantee.name), place)
    outcome = _outcome(cell, guarantee, told)
    if outcome is not None:
        case.result = [outcome]
    case.system_out = _legal(f"{guarantee.promise}\n{guarantee.reason}\n{_counts(cell)}")
    return case


def _outcome(
    cell: CellRow, guarantee: Guarantee, told: CaseFacts
) -> Failure | Error | Skipped | None:
    """Return the result of a guarantee's case, or None if the guarantee held."""
    reason = _legal(guarantee.reason)
    if guarantee.is_broken and cell.is_broken:
        failure = Failure(reason, "broken")
        failure.text = _legal("\n".join(_story(cell, guarantee, told)))
        return failure
    if guarantee.is_broken:
        return Skipped(f"broken, {_legal(cell.words)}: {reason}")
    if guarantee.held is None and cell.verdict_counts_as is Verdict.INCONCLUSIVE:
        return Error(reason, "inconclusive")
    if guarantee.held is None:
        why = "undetermined" if guarantee.checked else "not checked"
        return Skipped(f"{why}: {reason}")
    if guarantee.held:
        return None
    return Skipped(f"{'excused' if guarantee.promised else 'not promised'}, and not held: {reason}")


def _whole(place: str, cell: CellRow, told: CaseFacts) -> TestCase:
    """Return the case of the cell's verdict, for a verdict that no guarantee reports."""
    case = TestCase("verdict", place)
    reasons = _legal(f"{cell.words}: {'; '.join(cell.reasons)}")
    if cell.verdict_counts_as is Verdict.FAIL:
        failure = Failure(reasons, "unexpected")
        failure.text = _legal(f"{reasons}\nreport: {told.page}")
        case.result = [failure]
    elif cell.verdict_counts_as is Verdict.INCONCLUSIVE:
        case.result = [Error(reasons, "inconclusive")]
    case.system_out = _legal(f"{cell.words}\n{_counts(cell)}")
    return case


def _threshold(place: str, cell: CellRow, threshold: Threshold, told: CaseFacts) -> TestCase:
    """Return the case of a threshold, which passes if the threshold is met."""
    case = TestCase(f"{threshold.measure} {threshold.bound}", place)
    if threshold.met is None:
        case.result = [Error(_legal(threshold.words), "inconclusive")]
    elif not threshold.met:
        failure = Failure(_legal(threshold.words), "threshold")
        failure.text = _legal(f"{cell.name}: {threshold.words}\nreport: {told.page}")
        case.result = [failure]
    case.system_out = _legal(f"{threshold.words}\n{_counts(cell)}")
    return case


def _story(cell: CellRow, guarantee: Guarantee, told: CaseFacts) -> list[str]:
    """Return the most important facts about a broken guarantee, one line each."""
    row = told.first_rows.get((cell.run, cell.cell, guarantee.anomaly or ""))
    first = [] if row is None else [f"fault: {row['fault'] or 'none was active'}", _first(row)]
    return [
        f"{cell.title_and_name}: {cell.words}",
        f"{guarantee.name}: {guarantee.reason}",
        *first,
        f"report: {told.page}",
    ]


def _first(row: Row) -> str:
    parts = [
        f"{row['anomaly']} in {row['topic']}-{row['partition']}",
        None if row["producer"] is None else f"producer {row['producer']}",
        None if row["sequence"] is None else f"sequence {row['sequence']}",
        None if row["offset"] is None else f"offset {row['offset']}",
        None if row["time"] is None else f"at {moment(row['time'])}",
        row["detail"],
    ]
    return f"first: {', '.join(part for part in parts if part)}"


def _counts(cell: CellRow) -> str:
    return ", ".join(f"{name} {number(cell.counts[name])}" for name in COUNTS)


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\N{REPLACEMENT CHARACTER}", text)


# --- Markdown -------------------------------------------------------------------------------------

CAUSES_MAX = 5
"""The most causes of a kind in the summary. The report has all of them."""
FINDINGS_MAX = 10
"""The most findings in the summary."""

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#&~!])")


def to_markdown(campaign: str, result: CampaignResult, cells: Sequence[CellRow]) -> str:
    """Return the verdict, the cells, the causes and the findings of a campaign.

    Args:
        campaign: The campaign's name in the heading, for example ``quick, seed 42``.
        result: The result of the checkers.
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
    leading = (
        f"**{_text(one.words)}** {_text(one.sentence)}" for one in leading_causes(result, cells, {})
    )
    yield from _section("Causes of the verdict", leading, CAUSES_MAX)
    yield from _table(cells)
    yield from _thresholds(cells)
    groups = grouped(result.causes)
    yield from _section("Why records were lost, duplicated or changed", _causes(groups), CAUSES_MAX)
    checks = map(_text, plugins_in_short(cells))
    yield from _section("Checkers of plug-ins", checks, FINDINGS_MAX)
    yield from _section("Findings", map(_text, result.findings), FINDINGS_MAX)
    yield from _section("Skipped faults", map(_text, result.skipped), FINDINGS_MAX)
    plugins = (_text(f"{name} {version}") for name, version in result.plugins.items())
    yield from _section("Plug-ins", plugins, FINDINGS_MAX)


def _table(cells: Sequence[CellRow]) -> Iterator[str]:
    """Yield one row for each cell and run."""
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
    lines = list(threshold_lines(cells))
    if not lines:
        return
    yield from ("", "### Thresholds", "")
    yield _row(THRESHOLD_HEADINGS)
    yield _row("---" for _ in THRESHOLD_HEADINGS)
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
    """Yield a list with a heading, or nothing if the list is empty."""
    found = list(lines)
    if not found:
        return
    yield ""
    yield f"### {heading}"
    yield ""
    yield from (f"- {line}" for line in found[:most])
    if len(found) > most:
        yield f"- and {len(found) - most:,} more, which are in the report"


def _text(text: str) -> str:
    """Return a text escaped for Markdown, in one line. It may come from a broker's log."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


# --- annotations of GitHub Actions ----------------------------------------------------------------
#
# Source: GitHub's documentation, "Workflow commands for GitHub Actions", "Setting an error
# message".

ANNOTATIONS_MAX = 10
"""The most errors that GitHub shows of a step."""


def to_commands(campaign: str, result: CampaignResult, cells: Sequence[CellRow]) -> str:
    """Return one command a line: each broken guarantee, each threshold that is not met, and the
    reason for each inconclusive cell.

    Args:
        campaign: The campaign's name in the annotations, for example ``quick, seed 42``.
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
                text = f"{cell.title} broke {one.name} {one.broken:,} times: {one.promise}"
                yield _command("error", "Guarantee broken", text)
        for limit in cell.thresholds:
            if limit.met is False:
                yield _command("error", "Threshold not met", f"{cell.title}: {limit.words}")
    for cause in leading_causes(result, cells, {}):
        if cause.kind is Verdict.INCONCLUSIVE:
            yield _command("warning", "Inconclusive", cause.sentence)


def _command(level: str, title: str, text: str) -> str:
    """Return one command. In a property, colons and commas are escaped, too."""
    escaped = _escaped(title).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={escaped}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
