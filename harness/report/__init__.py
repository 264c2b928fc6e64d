"""The report: the checkers' results for people (HTML), scripts (JSON) and CI servers (JUnit).

A report never outlives its verdict. Its files are removed before anything is checked or reported
again. Therefore no file that says ``pass`` stays beside a history that does not support it.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow.compute as pc

from ackproof.checkers.root_cause.rows import FILE as ROOT_CAUSES_FILE
from ackproof.checkers.root_cause.rows import FORMER_FILE
from ackproof.checkers.verdict import CampaignResult
from ackproof.harness.directory import DamagedResults, ResultsDirectoryError
from ackproof.harness.report import (
    about,
    axis,
    campaign_file,
    ci,
    log_lines,
    losses,
    timeline,
    verdict,
    violations,
)
from ackproof.harness.report.axis.document import Document as AxisDocument
from ackproof.harness.report.causes import causes
from ackproof.harness.report.leading_causes import (
    LeadingCause,
    leading_causes,
    permitted_causes,
)
from ackproof.harness.report.opportunities import exposures
from ackproof.harness.report.pictures import drawn
from ackproof.harness.report.rows import CellRow, rows
from ackproof.harness.report.timeline import FaultSpan
from ackproof.history import manifest
from ackproof.history.errors import DamagedFiles, HistoryError
from ackproof.history.manifest import Manifest, PlannedRun
from ackproof.history.messages import printable
from ackproof.history.storage import AnyPath, write_text

log = logging.getLogger(__name__)

PAGE, JUNIT = "report.html", "junit.xml"


def remove(directory: AnyPath) -> None:
    """Remove the files of a former check and report from a result directory."""
    tables = losses.ANOMALIES_FILE, ROOT_CAUSES_FILE, FORMER_FILE
    for name in (PAGE, JUNIT, verdict.FILE, *tables):
        (directory / name).unlink(missing_ok=True)


class ReportWriteError(OSError):
    """A failure to write a part of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenReport:
    """The report that was written, its cells, and the causes of its verdict."""

    page: AnyPath
    cells: Sequence[CellRow]
    causes: Sequence[LeadingCause]


def write(directory: AnyPath, result: CampaignResult) -> WrittenReport:
    """Write ``verdict.json``, ``junit.xml`` and ``report.html`` into a result directory.

    Reads the campaign, the runs' histories and ``anomalies.parquet`` from the same directory. A run
    whose history cannot be read is on the page with the reason, so that a broken guarantee is
    reported in any case. Raises DamagedFiles if the anomalies cannot be read. Raises NotWritten if
    a file could not be written, after all others were.
    """
    campaign = campaign_file.read(directory)
    planned = _manifest(directory)
    cells = rows(result, planned)
    planned_runs = {run.number: run for run in planned.runs} if planned else {}
    histories = {
        number: directory / "runs" / str(number) / "history" for number in _numbers(directory)
    }
    timelines = {
        number: _timeline(history, planned_runs.get(number))
        for number, history in histories.items()
    }
    faults = {
        number: _faults(history, planned_runs.get(number)) for number, history in histories.items()
    }
    told = about.read(directory, faults)
    windows = losses.windows(directory)
    counted = losses.by_fault(directory)
    known = [cell for cell in result.cells if cell.lost is not None]
    places = [(cell.run, cell.cell, cell.settings.topic) for cell in known]
    exposure = exposures(places, timelines, losses.by_anomaly(directory))
    first_rows = losses.first_rows(directory)
    for_ci = ci.CaseFacts(about=told, first_rows=first_rows, page=directory / PAGE)
    leading = leading_causes(result, cells, first_rows)
    permitted = permitted_causes(result, cells)
    found = causes(result, [cause for one in (*leading, *permitted) for cause in one.causes])

    def write_page() -> None:
        from ackproof.harness.report import page  # matplotlib takes most of a second to import

        content = page.PageContent(
            campaign=campaign,
            result=result,
            cells=cells,
            timelines=timelines,
            axes=_axes(directory, histories, faults, result, cells, planned_runs),
            windows=windows,
            about=told,
            losses_by_fault=counted,
            order=losses.order(directory),
            exposure=exposure,
            first_rows=first_rows,
            pictures=drawn.of_report(directory, found.firsts, first_rows.values()),
            leading=leading,
            permitted=permitted,
            violations=violations.of_report(directory, leading, faults, result),
            causes=found,
            lines=log_lines.log_lines(directory, found.firsts),
        )
        write_text(directory / PAGE, printable(page.render(content)))

    _write_each(
        {
            verdict.FILE: lambda: verdict.write(
                directory,
                verdict.to_document(campaign, result, told, counted, exposure, leading=leading),
            ),
            JUNIT: lambda: ci.write(directory / JUNIT, campaign, result, cells, for_ci),
            PAGE: write_page,
        }
    )
    return WrittenReport(page=directory / PAGE, cells=cells, causes=leading)


def _write_each(files: Mapping[str, Callable[[], None]]) -> None:
    """Write each file, even if others fail. Raises NotWritten."""
    failed = []
    for name, write_file in files.items():
        try:
            write_file()
        except Exception as error:
            log.exception("%s", name)
            failed.append(f"{name}: {type(error).__name__}: {error}")
    if failed:
        raise ReportWriteError("; ".join(failed))


def _numbers(directory: AnyPath) -> list[int]:
    """Return the numbers of the runs that have a directory."""
    names = (run.name for run in (directory / "runs").glob("*"))
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def shown(
    directory: AnyPath, result: CampaignResult
) -> tuple[Sequence[CellRow], Sequence[LeadingCause]]:
    """Return the parts of a result that a terminal shows: its cells and the causes of its verdict.
    The causes have less detail if the anomalies cannot be read."""
    try:
        first_rows = losses.first_rows(directory)
    except HistoryError:
        first_rows = {}
    cells = rows(result, _manifest(directory))
    return cells, leading_causes(result, cells, first_rows)


def require_runs(directory: AnyPath) -> None:
    """Raise ResultsDirectoryError if the recorded runs of checked results were removed.

    Another check would find nothing, and replace their verdict by that.
    """
    if (directory / "runs").is_dir():
        return
    with suppress(DamagedResults):
        result = verdict.read(directory)
        if result is not None and result.cells:
            raise ResultsDirectoryError(
                f"{directory}: the recorded runs were removed (runs/ is missing), so that nothing "
                "can be checked, drawn or reported again; the verdict and its report stay as they "
                f"are ({directory / PAGE}), and campaign.yaml there can be run again"
            )


def load(directory: AnyPath) -> CampaignResult | None:
    """Return the result that was written into this directory, or None if there is none.

    Raises DamagedResults if the result, or a file that its report is made of, was changed since the
    check. A former page is removed even so, because it might stay without a new one in its place.
    Raises the error of :func:`require_runs`, and removes nothing then.
    """
    require_runs(directory)
    (directory / PAGE).unlink(missing_ok=True)
    (directory / JUNIT).unlink(missing_ok=True)
    result = verdict.read(directory, whole=True)
    if result is None:
        return None
    try:
        losses.counts(directory)
    except DamagedFiles as error:
        reasons = [f"{path.name}: {why}" for path, why in error.reasons.items()]
        raise DamagedResults(directory, reasons) from None
    return result


def _timeline(history: AnyPath, planned: PlannedRun | None) -> timeline.Timeline | str:
    """Return the timeline of a run, or the reason why there is none."""
    try:
        return timeline.read(history, planned.faults if planned else ())
    except (HistoryError, OSError, ValueError, KeyError) as error:
        return str(error)


def _axes(
    directory: AnyPath,
    histories: Mapping[int, AnyPath],
    faults: Mapping[int, Sequence[FaultSpan]],
    result: CampaignResult,
    rows_of_cells: Sequence[CellRow],
    planned: Mapping[int, PlannedRun],
) -> dict[int, AxisDocument | str | None]:
    """Return the time axis of each run: None if nothing was sent, or the reason why there is
    none."""
    anomalies = losses.over_time(directory)
    axes: dict[int, AxisDocument | str | None] = {}
    for number, history in histories.items():
        cells = [cell for cell in result.cells if cell.run == number]
        own = anomalies.filter(pc.equal(anomalies["run"], number))
        titles = {row.cell: row.title for row in rows_of_cells if row.run == number}
        try:
            axes[number] = axis.read(
                number, history, faults[number], cells, own, planned.get(number), titles
            )
        except (HistoryError, OSError, ValueError, KeyError) as error:
            axes[number] = str(error)
    return axes


def _faults(history: AnyPath, planned: PlannedRun | None) -> Sequence[FaultSpan]:
    """Return the faults of a run. There are none if their table cannot be read, which the checkers
    report."""
    try:
        return timeline.faults(history, planned.faults if planned else ())
    except (HistoryError, OSError, ValueError, KeyError):
        return ()


def _manifest(directory: AnyPath) -> Manifest | None:
    """Return the manifest for the clusters' settings, or None if it is missing, which the checkers
    report."""
    try:
        return manifest.read(directory)
    except HistoryError:
        return None
