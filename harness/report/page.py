"""``report.html``: one self-contained page that loads nothing from outside and escapes
everything."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

import jinja2
import yaml
from markupsafe import Markup, escape

from ackproof.checkers.checks.outages import OUTAGE_MIN_NS
from ackproof.checkers.pictures.log_picture import LogPicture
from ackproof.checkers.root_cause.causes import attributed_faults
from ackproof.checkers.verdict import CampaignResult, Cause, Guarantee, Verdict
from ackproof.harness.durations import lasted
from ackproof.harness.report import axis, clients, figures, losses
from ackproof.harness.report.about import About, moment
from ackproof.harness.report.axis.document import Document as AxisDocument
from ackproof.harness.report.causes import WHAT, CauseGroup, Causes, cause_anchor
from ackproof.harness.report.cell_names import CellKey
from ackproof.harness.report.comparison import compare, label, seconds
from ackproof.harness.report.fault_costs import OutageLines, fault_costs, outage_lines
from ackproof.harness.report.leading_causes import SHOWN_MAX, LeadingCause, cells_in_words
from ackproof.harness.report.log_lines import LogLine
from ackproof.harness.report.losses import AnomalyWindow, OutOfOrder
from ackproof.harness.report.opportunities import (
    MEANINGS,
    Exposure,
    ExposureSummary,
    in_words,
    summary,
)
from ackproof.harness.report.outcome import (
    THRESHOLD_HEADINGS,
    guarantees_checked,
    outcome,
    threshold_lines,
)
from ackproof.harness.report.pictures.drawn import OPENED_MAX, Pictures
from ackproof.harness.report.pictures.rendering import Drawing, drawing
from ackproof.harness.report.rendering import templates
from ackproof.harness.report.rows import (
    COUNTS,
    NOT_CHECKED,
    NOT_CONCERNED,
    UNKNOWN,
    CellRow,
    anomalies,
    columns,
    number,
    setting,
    told,
    total,
)
from ackproof.harness.report.similar_texts import grouped
from ackproof.harness.report.timeline import (
    NS_PER_S,
    FaultSpan,
    Timeline,
    fault_anchor,
    place_in_words,
)
from ackproof.harness.report.verdict import quorum_told
from ackproof.harness.report.violations import SHOWN_MAX as CASES_MAX
from ackproof.harness.report.violations import Violation, became, plugin_lines
from ackproof.history.messages import several

_SHOWN_NS = 1_000_000

FINDINGS_MAX = 3
"""The number of kinds of findings that are shown at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSection:
    """One run on the page.

    Attributes:
        settings: The swept settings of its cluster.
        bound_ms: The largest error of times of acks against those of faults; None if it is smaller
            than any time that is shown, or unknown.
        timeline: Its timeline; None if its history cannot be read, for the reason ``damage``.
        picture: Its timeline as SVG; empty without acks.
        axis: Its time axis as JSON; empty without one.
        axis_damage: Why there is none, although there is a picture.
    """

    number: int
    settings: str
    bound_ms: int | None
    timeline: Timeline | None
    damage: str
    picture: Markup
    axis: Markup
    axis_damage: str


_WHY_UNKNOWN = {
    UNKNOWN: "the evidence is incomplete",
    NOT_CHECKED: "not every cell that may have it was checked",
    NOT_CONCERNED: "no cell of the campaign can have it",
}
"""Why an anomaly was not looked for in every cell that might have it."""


@cache
def _template() -> jinja2.Template:
    environment = templates()
    environment.filters.update(
        number=number,
        clock=_clock,
        observation=_observation,
        line=_record_line,
        several=_several,
        seconds=seconds,
        became=became,
        contents=contents,
        attributed=attributed_faults,
    )
    environment.globals.update(
        outage_min_ms=OUTAGE_MIN_NS // 1_000_000,
        axis=_assets(),
        counts=COUNTS,
        setting=setting,
        unknown=UNKNOWN,
        what=WHAT,
        unchecked_max=UNCHECKED_MAX,
        cases_max=CASES_MAX,
        reasons=_WHY_UNKNOWN,
    )
    return environment.get_template("report.html")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    """The content of a page.

    Attributes:
        campaign: The resolved campaign.
        result: The result of the checkers.
        cells: The rows of its cells.
        timelines: The timelines by run number; a text is the reason why there is none.
        axes: The time axes by run number, or the reason; None if nothing was sent.
        windows: The lost records.
        about: The circumstances of the run; unknown without it.
        losses_by_fault: The lost, duplicated and vanished records, by partition and fault.
        order: The sends that were acked out of order; None if they were not checked.
        exposure: The events at which a cell could have lost data, by fault; None if unknown.
        first_rows: The earliest anomaly of each kind, by run, cell and anomaly.
        pictures: The pictures of the logs around causes and around gaps of consumers.
        leading: The causes of the verdict, the most important first.
        permitted: The causes of what the settings permit.
        violations: The broken guarantees without a root cause, with their cases.
        causes: The root causes, in the order of their numbers.
        lines: The lines of the brokers' logs about each root cause.
    """

    campaign: Mapping[str, Any]
    result: CampaignResult
    cells: Sequence[CellRow]
    timelines: Mapping[int, Timeline | str]
    axes: Mapping[int, AxisDocument | str | None]
    windows: Sequence[losses.AnomalyWindow]
    about: About = field(default_factory=About)
    losses_by_fault: Sequence[Mapping[str, Any]] = ()
    order: OutOfOrder | None = None
    exposure: Sequence[Exposure] | None = None
    first_rows: Mapping[tuple[int, str, str], losses.Row] = field(default_factory=dict)
    pictures: Pictures = field(default_factory=Pictures)
    leading: Sequence[LeadingCause] = ()
    permitted: Sequence[LeadingCause] = ()
    violations: Sequence[Violation] = ()
    causes: Causes = field(default_factory=Causes)
    lines: Mapping[Cause, Sequence[LogLine]] = field(default_factory=dict)


def render(content: PageContent) -> str:
    """Return the page."""
    result, cells, about = content.result, content.cells, content.about
    bounds = {run.number: run.clock_bound_ns for run in result.runs}
    found = content.causes
    permitted_max = max(0, SHOWN_MAX - len(content.leading))
    return _template().render(
        result=result,
        outcome=outcome(result),
        summary=_summary(cells, content.exposure),
        risks=_risks(cells, content.exposure),
        exposure_meanings=MEANINGS,
        links=Links.of(
            cells,
            about.faults,
            found.listed,
            content.windows[: losses.WINDOWS_MAX],
            content.violations,
        ),
        cells=cells,
        columns=columns(cells),
        matrices=_matrices(result, cells),
        place_in_words=lambda run, time: place_in_words(time, about.faults.get(run, ())),
        causes=found,
        violations=content.violations,
        unchecked=unchecked(result, cells, about.faults),
        order=content.order.words if content.order else "",
        comparison=compare(result, cells),
        anomalies=anomalies(result),
        runs=[
            _run(number, line, content.axes.get(number), cells, bounds.get(number))
            for number, line in sorted(content.timelines.items())
        ],
        faults=about.faults,
        costs={
            number: fault_costs(number, spans, cells, content.losses_by_fault)
            for number, spans in about.faults.items()
        },
        leading=content.leading[:SHOWN_MAX],
        more_causes=content.leading[SHOWN_MAX:],
        permitted=content.permitted[:permitted_max],
        more_permitted=content.permitted[permitted_max:],
        findings=grouped(result.findings),
        findings_max=FINDINGS_MAX,
        outages=_outages(content),
        **_checks(cells, content.first_rows),
        **_client_tables(result, cells),
        **_drawn(content.pictures, content.lines),
        **_lost(content.windows, cells),
        **_campaign(content.campaign),
        **_made(about, result),
    )


def _outages(content: PageContent) -> dict[int, OutageLines]:
    """Return the outages of each run whose history can be read."""
    return {
        number: outage_lines(
            [cell for cell in content.cells if cell.run == number],
            content.about.faults.get(number, ()),
            line.leader_changes if isinstance(line, Timeline) else (),
        )
        for number, line in content.timelines.items()
    }


def _checks(
    cells: Sequence[CellRow], first_rows: Mapping[tuple[int, str, str], losses.Row]
) -> dict[str, Any]:
    """Return the thresholds of the campaign and the checks of plug-ins."""
    return {
        "thresholds": list(threshold_lines(cells)),
        "threshold_headings": THRESHOLD_HEADINGS,
        "plugin_checks": list(plugin_lines(cells, first_rows)),
    }


def _client_tables(result: CampaignResult, cells: Sequence[CellRow]) -> dict[str, Any]:
    titles = {(cell.run, cell.cell): cell.title for cell in cells}
    return {
        "consumption": clients.consumer_tables(result, titles),
        "meanings": clients.CONSUMER_MEANINGS,
        "transactions": clients.transactions_table(result, titles),
        "of_transactions": clients.TRANSACTION_MEANINGS,
    }


def _drawn(pictures: Pictures, lines: Mapping[Cause, Sequence[LogLine]]) -> dict[str, Any]:
    return {
        "log_lines": lines,
        "pictures": {cause: _drawing(found) for cause, found in pictures.causes.items()},
        "gaps": [_drawing(found) for found in pictures.gaps],
        "opened_max": OPENED_MAX,
    }


def _drawing(found: LogPicture | str) -> Drawing | str:
    return found if isinstance(found, str) else drawing(found)


def _assets() -> Mapping[str, Markup]:
    """Return the script and the style of the time axes. They are files of the package."""
    made = axis.assets()
    return {"script": Markup(made.script), "style": Markup(made.style)}


def _lost(windows: Sequence[losses.AnomalyWindow], cells: Sequence[CellRow]) -> dict[str, Any]:
    return {
        "windows": windows[: losses.WINDOWS_MAX],
        "more_windows": max(0, len(windows) - losses.WINDOWS_MAX),
        "lost_total": sum(window.records for window in windows),
        "untold": [cell.title for cell in cells if cell.counts["lost"] is None],
    }


def _campaign(campaign: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "campaign": campaign,
        "metadata_quorum": quorum_told(campaign.get("cluster")),
        "campaign_yaml": yaml.safe_dump(dict(campaign), sort_keys=False, allow_unicode=True),
    }


def _made(about: About, result: CampaignResult) -> dict[str, Any]:
    """Return the circumstances of the run in words. Unknown facts are shown as unknown."""
    took_s, machine = about.duration_s, about.environment.machine
    versions = about.environment.versions
    software = {**versions.model_dump(exclude={"kafka", "commit"}), "ackproof": versions.build}
    return {
        "command": about.command,
        "kafka": versions.kafka,
        "began": UNKNOWN if about.began is None else moment(about.began)[:16].replace("T", " "),
        "took": UNKNOWN if took_s is None else lasted(took_s),
        "made_with": {
            **{name: version or UNKNOWN for name, version in software.items()},
            **{f"plug-in {name}": version for name, version in result.plugins.items()},
            "machine": UNKNOWN
            if machine is None
            else f"{machine.cores} cores, {machine.memory_mb:,} MB, {machine.architecture}",
        },
    }


def _matrices(result: CampaignResult, cells: Sequence[CellRow]) -> list[tuple[str, Markup]]:
    """Return a picture of the losses for each cluster. Their sum over several clusters would be the
    loss of none."""
    clusters: dict[str, list[CellRow]] = {}
    names = {run.number: label(run.cluster) for run in result.runs}
    for cell in cells:
        clusters.setdefault(names.get(cell.run, ""), []).append(cell)
    # These pictures are safe: matplotlib escaped their text when it wrote the SVG.
    return [
        (name, Markup(figures.matrix(of, f"matrix-{number}")))
        for number, (name, of) in enumerate(clusters.items(), start=1)
    ]


def _run(
    number: int,
    line: Timeline | str,
    drawn: AxisDocument | str | None,
    all_cells: Sequence[CellRow],
    bound_ns: int | None,
) -> RunSection:
    cells = [cell for cell in all_cells if cell.run == number]
    timeline = line if isinstance(line, Timeline) else None
    own = {name: setting(cell, name) for cell in cells[:1] for name in _of_the_run(all_cells)}
    return RunSection(
        number=number,
        settings=", ".join(f"{name}={value}" for name, value in own.items()),
        bound_ms=math.ceil(bound_ns / 1e6) if bound_ns and bound_ns >= _SHOWN_NS else None,
        timeline=timeline,
        damage=line if isinstance(line, str) else "",
        picture=Markup(
            figures.timeline(timeline, cells, f"timeline-{number}") if timeline and cells else ""
        ),
        # The document escapes what could end its element.
        axis=Markup(drawn.to_json() if isinstance(drawn, AxisDocument) and cells else ""),
        axis_damage=drawn if isinstance(drawn, str) else "",
    )


def _of_the_run(cells: Sequence[CellRow]) -> list[str]:
    """Return the settings that differ between runs and never within one: those of the cluster."""
    runs: dict[int, list[CellRow]] = {}
    for cell in cells:
        runs.setdefault(cell.run, []).append(cell)
    return [
        name
        for name in columns(cells)
        if all(len({setting(cell, name) for cell in of}) == 1 for of in runs.values())
        and len({setting(of[0], name) for of in runs.values()}) > 1
    ]


def _summary(cells: Sequence[CellRow], found: Sequence[Exposure] | None) -> str:
    kept, others = _by_promise(cells)
    sentences = []
    if kept:
        sentences.append(f"In cells that guarantee that no record is lost, {_loss(kept)}.")
        lost, whole = total(kept, "lost")
        if whole and not lost and total(kept, "acked")[0]:
            sentences.append(in_words(found, _keys(kept)))
    if others:
        sentences.append(f"In the other cells, {_loss(others)}.")
    return " ".join(sentences)


def _risks(
    cells: Sequence[CellRow], found: Sequence[Exposure] | None
) -> list[tuple[str, ExposureSummary]]:
    """Return the exposure of cells that promise to lose nothing and of the others."""
    if found is None:
        return []
    told = [
        (name, summary([found], [_keys(of)]))
        for name, of in zip(("yes", "no"), _by_promise(cells), strict=True)
    ]
    return [(name, one) for name, one in told if one.lines or one.unknown]


def _keys(cells: Sequence[CellRow]) -> set[CellKey]:
    return {(cell.run, cell.cell) for cell in cells}


def _by_promise(cells: Sequence[CellRow]) -> tuple[list[CellRow], list[CellRow]]:
    return [cell for cell in cells if cell.kept], [cell for cell in cells if not cell.kept]


def _loss(cells: Sequence[CellRow]) -> str:
    lost, whole = total(cells, "lost")
    known, all_known = total(cells, "acked")
    acked = told(known, all_known)
    if not lost and not whole:
        return f"it is unknown how many of {acked} acknowledged records were lost"
    return f"{told(lost, whole)} of {acked} acknowledged records were lost"


def _several(value: object) -> str:
    """Return a value as text, or the values of a swept list."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _clock(nanoseconds: int | None) -> str:
    """Return the time of day (UTC) with milliseconds."""
    if nanoseconds is None:
        return "-"
    moment = datetime.fromtimestamp(nanoseconds / NS_PER_S, UTC)
    return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def _record_line(row: Mapping[str, Any]) -> str:
    """Return a lost record as one line with fixed columns."""
    return f"{_clock(row['time'])}  {losses.name_of(row):<28}  {row['detail'] or ''}"


def _observation(value: object) -> str:
    """Return an observation of the evidence as a short text: ``{"broker-1": True}`` as ``broker-1:
    yes``."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_observation(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_observation(part) for part in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


# --- links ----------------------------------------------------------------------------------------
#
# Links between faults, causes, losses and cells, and the table of contents. The id of each part is
# made here or in :func:`harness.report.timeline.fault_anchor`.

_LABEL = re.compile(r"[\w.:-]+#\d+")
_HEADING = re.compile(r'<section id="([\w-]+)"[^>]*>\s*<h2>(.*?)</h2>', re.DOTALL)

LINKS_MAX = 3
"""The most links of one kind from one place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The ids of a page's parts.

    Attributes:
        cells: Each cell, with its id.
        faults: The id of each fault, by run and label.
        groups: The groups of root causes, in the order of their numbers.
        windows: The windows of lost records, in the order of their numbers.
        violations: The broken guarantees without a root cause, in the order of their numbers.
    """

    cells: Mapping[CellKey, tuple[CellRow, str]]
    faults: Mapping[tuple[int, str], str]
    groups: Sequence[CauseGroup]
    windows: Sequence[AnomalyWindow]
    violations: Sequence[Violation] = ()

    @classmethod
    def of(
        cls,
        cells: Sequence[CellRow],
        faults: Mapping[int, Sequence[FaultSpan]],
        groups: Sequence[CauseGroup],
        windows: Sequence[AnomalyWindow],
        violations: Sequence[Violation] = (),
    ) -> "Links":
        """Return the links of a page with these parts."""
        return cls(
            cells={
                (cell.run, cell.cell): (cell, f"cell-{number}")
                for number, cell in enumerate(cells, 1)
            },
            faults={
                (run, fault.label): fault_anchor(run, fault.fault_id)
                for run, spans in faults.items()
                for fault in spans
            },
            groups=groups,
            windows=windows,
            violations=violations,
        )

    def cell(self, run: int, name: str) -> Markup:
        """Return the name of a cell for readers as a link, with its stable name on hover."""
        if (run, name) not in self.cells:
            return escape(name)
        cell, anchor = self.cells[run, name]
        return Markup('<a href="#{}" title="{}">{}</a>').format(anchor, cell.name, cell.title)

    def linked(self, text: str, run: int | None) -> Markup:
        """Return a text in which the names of faults are links."""
        if run is None:
            return escape(text)
        parts: list[Markup] = []
        last = 0
        for found in _LABEL.finditer(text):
            anchor = self.faults.get((run, found[0]))
            if anchor is not None:
                link = Markup('<a href="#{}">{}</a>').format(anchor, found[0])
                parts += [escape(text[last : found.start()]), link]
                last = found.end()
        return Markup("").join([*parts, escape(text[last:])])

    def number_of(self, group: CauseGroup) -> int:
        """Return the number of a group of root causes, from 1."""
        return self.groups.index(group) + 1

    def of_leading(self, cause: LeadingCause) -> list[tuple[str, str]]:
        """Return the parts that detail a cause of the verdict: their ids and their names."""
        numbers = [
            number
            for number, group in enumerate(self.groups, 1)
            if any(one in cause.causes for one in group.causes)
        ]
        found = [(cause_anchor(number), f"root cause {number}") for number in numbers]
        found += [
            (f"violation-{number}", f"the cases of {cause.anomaly}")
            for number, one in enumerate(self.violations, 1)
            if one.cause is cause
        ]
        lost = [window for one in cause.causes for window in self._lost_to(one)]
        return [*found[:LINKS_MAX], *self._named(lost)]

    def of_group(self, group: CauseGroup) -> list[tuple[str, str]]:
        """Return the lost records of a group of root causes: their ids and names."""
        return self._named([window for one in group.causes for window in self._lost_to(one)])

    def of_window(self, window: AnomalyWindow) -> list[tuple[str, str]]:
        """Return the root causes of lost records: their ids and names."""
        numbers = [
            number
            for number, group in enumerate(self.groups, 1)
            if any(_explains(cause, window) for cause in group.causes)
        ]
        return [(cause_anchor(number), f"root cause {number}") for number in numbers[:LINKS_MAX]]

    def loss_anchor(self, window: AnomalyWindow) -> str:
        """Return the id of a window of lost records."""
        return f"loss-{next(n for n, one in enumerate(self.windows, 1) if one is window)}"

    def _lost_to(self, cause: Cause) -> list[AnomalyWindow]:
        return [window for window in self.windows if _explains(cause, window)]

    def _named(self, windows: Sequence[AnomalyWindow]) -> list[tuple[str, str]]:
        anchors = {self.loss_anchor(one): f"{one.topic}-{one.partition}" for one in windows}
        left = len(anchors) - LINKS_MAX
        named = [
            (anchor, f"lost in {place}") for anchor, place in list(anchors.items())[:LINKS_MAX]
        ]
        return [*named, ("lost", f"{left} more")] if left > 0 else named


def _explains(cause: Cause, window: AnomalyWindow) -> bool:
    """Return whether a cause explains records of a window: they are of the same partition, faults
    and time."""
    if (cause.run, cause.cell, cause.topic, cause.partition, cause.anomaly) != (
        *(window.run, window.cell, window.topic, window.partition),
        "lost",
    ):
        return False
    faults = attributed_faults(cause)
    if faults is not None and faults != window.fault:
        return False
    first, last = window.times
    since, until = cause.first_time, cause.last_time
    if first is None or last is None or since is None or until is None:
        return True
    return since <= last and until >= first


def contents(body: str) -> list[tuple[str, Markup]]:
    """Return the sections of a page: their ids and their headings."""
    # The headings were escaped when the page was rendered.
    return [(found[1], Markup(found[2])) for found in _HEADING.finditer(body)]


# --- what the verdict does not cover --------------------------------------------------------------
#
# A line each for unchecked guarantees, inconclusive cells, faults that were not proven, and skipped
# parts of the campaign. A reader must see these beside the verdict, because a ``pass`` says nothing
# about them.

UNCHECKED_MAX = 5
"""The number of lines that are shown at once. Further ones are folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """A part that the verdict does not cover.

    Attributes:
        subject: The guarantee, cell, fault or part of the campaign.
        sentence: Why it is not covered.
        run: The run of the subject; None if it concerns several.
    """

    subject: str
    sentence: str
    run: int | None = None


def unchecked(
    result: CampaignResult, cells: Sequence[CellRow], faults: Mapping[int, Sequence[FaultSpan]]
) -> list[Unchecked]:
    """Return what a result does not cover. ``faults`` are the faults of each run."""
    return [
        *_unproven_faults(faults),
        *_inconclusive_cells(cells),
        *_unchecked_guarantees(result, cells),
        *(
            Unchecked(subject="skipped, because it was refused", sentence=one)
            for one in result.skipped
        ),
    ]


def _unproven_faults(faults: Mapping[int, Sequence[FaultSpan]]) -> Iterator[Unchecked]:
    for run, spans in sorted(faults.items()):
        for span in spans:
            if not span.proven:
                known = "was not verified" if span.proven is None else "was not proven"
                what = f"its effect {known}" if span.injected else "its injection failed"
                yield Unchecked(
                    subject=span.label, sentence=f"{what}, so that it counts as no fault", run=run
                )


def _inconclusive_cells(cells: Sequence[CellRow]) -> Iterator[Unchecked]:
    for cell in cells:
        if Verdict.INCONCLUSIVE in (cell.verdict, cell.kind):
            left = len(cell.reasons) - 1
            more = f" (and {several(left, 'more reason')})" if left > 0 else ""
            reason = cell.reasons[0] if cell.reasons else "no reason was recorded"
            yield Unchecked(
                subject=cell.title, sentence=f"inconclusive: {reason}{more}", run=cell.run
            )


def _unchecked_guarantees(result: CampaignResult, cells: Sequence[CellRow]) -> Iterator[Unchecked]:
    """Yield the guarantees that were not checked, and those of which the evidence does not show
    whether they held. Guarantees that lack the same evidence in the same cells are one line,
    because one gap, such as a missing ack of one fault, can leave many undecided."""
    missing = guarantees_checked(result.cells).missing
    cells_of: dict[tuple[str, str], list[CellRow]] = {}
    for cell in cells:
        for one in cell.guarantees:
            if (one.name in missing and not one.checked) or _is_unknown(one):
                cells_of.setdefault((one.name, one.lacking or one.reason), []).append(cell)
    names_of: dict[tuple[str, tuple[CellKey, ...]], list[str]] = {}
    for (name, reason), of in cells_of.items():
        names_of.setdefault((reason, tuple((one.run, one.cell) for one in of)), []).append(name)
    for (reason, keys), names in names_of.items():
        of = cells_of[names[0], reason]
        if len(keys) == len(cells) > 1:
            where = "in every cell"
        else:
            where = cells_in_words([cell.title for cell in of])
        yield Unchecked(subject=", ".join(names), sentence=f"not checked {where}: {reason}")


def _is_unknown(guarantee: Guarantee) -> bool:
    """Return whether a guarantee is promised and the evidence does not show whether it held."""
    return guarantee.promised and guarantee.held is None
