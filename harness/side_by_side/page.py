"""``matrix.html``: the systems of a matrix side by side, for people."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ackproof.checkers.checks.outages import OUTAGE_MIN_NS
from ackproof.checkers.verdict import CampaignResult, RunResult
from ackproof.harness.directory import MATRIX_PAGE
from ackproof.harness.report import cell_names
from ackproof.harness.report.comparison import (
    SYSTEM,
    ComparedText,
    Comparison,
    ComparisonGroup,
    ComparisonLine,
    compare,
    label,
    seconds,
)
from ackproof.harness.report.rendering import templates
from ackproof.harness.report.rows import UNKNOWN, CellRow
from ackproof.harness.side_by_side.members import MatrixSystem, with_results
from ackproof.history.cell import Value
from ackproof.history.storage import write_text

# --- columns --------------------------------------------------------------------------------------

REFUSED, NO_VERDICT, NONE = "refused", "no verdict", "none"


def side_by_side(members: Sequence[MatrixSystem]) -> Comparison:
    """Return every figure under its system, in their order. Under a system that refused the
    campaign, or came to no verdict, each line says so."""
    runs, cells, whole = _joined(members)
    made = None if whole is None else compare(replace(whole, runs=tuple(runs)), cells, counted=True)
    groups = () if made is None else made.groups
    return Comparison(
        clusters=tuple(name for member in members for name in _names(member)),
        rounds=1 if made is None else made.rounds,
        groups=tuple(_widened(group, members) for group in groups),
    )


def after_faults(members: Sequence[MatrixSystem]) -> tuple[ComparisonGroup, ...]:
    """Return the longest unavailability of each cell within the reach of each fault, under each
    system. Faults are identified by their numbers, because the same seed gives the same faults."""
    cells = {cell.cell: cell.settings for member in members for cell in member.cells}
    titles = cell_names.in_words({(1, name): of for name, of in cells.items()})
    groups = (
        ComparisonGroup(
            title=f"{titles[1, name]}, longest unavailable after",
            lines=tuple(_after(name, members)),
        )
        for name in cells
    )
    return tuple(group for group in groups if group.lines)


def _joined(
    members: Sequence[MatrixSystem],
) -> tuple[list[RunResult], list[CellRow], CampaignResult | None]:
    """Return runs and cells with new numbers, and with the system among the cluster's settings."""
    runs: list[RunResult] = []
    cells: list[CellRow] = []
    whole = None
    for member, result in with_results(members):
        numbers = {run.number: len(runs) + n for n, run in enumerate(result.runs, start=1)}
        for run in result.runs:
            cluster = _cluster(member, run)
            runs.append(replace(run, number=numbers[run.number], cluster=cluster))
        for cell in member.cells:
            # Cells of all systems are distinguished by the run's number, even if each has a single
            # run.
            settings = {SYSTEM: member.system, **cell.settings}
            cells.append(replace(cell, run=numbers[cell.run], settings=settings))
        whole = whole or result
    return runs, cells, whole


def _cluster(member: MatrixSystem, run: RunResult) -> dict[str, Value]:
    return {SYSTEM: member.system, **run.cluster}


def _names(member: MatrixSystem) -> tuple[str, ...]:
    """Return the names of a member's columns: one, unless the campaign has several clusters of its
    own."""
    if member.result is None or not member.result.runs:
        return (member.system,)
    return tuple(dict.fromkeys(label(_cluster(member, run)) for run in member.result.runs))


def _widened(group: ComparisonGroup, members: Sequence[MatrixSystem]) -> ComparisonGroup:
    return replace(group, lines=tuple(_whole_line(line, members) for line in group.lines))


def _whole_line(line: ComparisonLine, members: Sequence[MatrixSystem]) -> ComparisonLine:
    """Return a line with entries for the systems without results, too."""
    there = iter(line.entries)
    entries = [
        _missing(member) if member.result is None or not member.result.runs else next(there)
        for member in members
        for _ in _names(member)
    ]
    return replace(line, entries=tuple(entries))


def _missing(member: MatrixSystem) -> ComparedText:
    return ComparedText(text=REFUSED if member.refused else NO_VERDICT)


def _after(name: str, members: Sequence[MatrixSystem]) -> Iterator[ComparisonLine]:
    cells = {
        member.system: [cell for cell in member.cells if cell.cell == name] for member in members
    }
    faults = dict.fromkeys(
        outage.fault
        for of in cells.values()
        for cell in of
        if cell.unavailable is not None
        for outage in cell.unavailable.by_fault
    )
    for fault in faults:
        yield ComparisonLine(
            name=fault or "while no fault was active",
            entries=tuple(_longest(member, cells[member.system], fault) for member in members),
        )


def _longest(member: MatrixSystem, cells: Sequence[CellRow], fault: str | None) -> ComparedText:
    if member.result is None:
        return _missing(member)
    known = [cell.unavailable for cell in cells if cell.unavailable is not None]
    if not known or len(known) < len(cells):
        return ComparedText(text=UNKNOWN)
    found = [one.longest_ms for of in known for one in of.by_fault if one.fault == fault]
    return ComparedText(text=seconds(max(found)) if found else NONE)


# --- the page -------------------------------------------------------------------------------------


def write(
    directory: Path, campaign: str, file: Path, seed: int, members: Sequence[MatrixSystem]
) -> Path:
    """Write the page beside the systems' results. Raises OSError."""
    page = directory / MATRIX_PAGE
    write_text(page, _render(campaign, file, seed, members))
    return page


def unavailable(members: Sequence[MatrixSystem]) -> Comparison:
    """Return the unavailability after each fault for display, with a column for each system."""
    names = tuple(member.system for member in members)
    return Comparison(clusters=names, rounds=1, groups=after_faults(members))


def _render(campaign: str, file: Path, seed: int, members: Sequence[MatrixSystem]) -> str:
    return (
        templates()
        .get_template(MATRIX_PAGE)
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
