"""The report: what the checkers found, for people (HTML), scripts (JSON) and CI servers (JUnit).

A report never outlives its verdict. What is written here is removed before anything is checked or
reported again, so that nothing that says ``pass`` stays beside a history that does not.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.verdict import CampaignResult
from ackproof.harness.directory import DamagedResults
from ackproof.harness.report import about, campaign_file, ci, losses, timeline, verdict
from ackproof.harness.report.losses import LossWindow
from ackproof.harness.report.opportunities import opportunities
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
    """Remove what a former check and report left in a result directory."""
    for name in (PAGE, JUNIT, verdict.FILE, losses.ANOMALIES_FILE, losses.AUTOPSIES_FILE):
        (directory / name).unlink(missing_ok=True)


class NotWritten(OSError):
    """Some of a report could not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What was written. ``windows``: the lost records by cell, partition and fault."""

    page: AnyPath
    cells: Sequence[CellRow]
    windows: Sequence[LossWindow]


def write(directory: AnyPath, result: CampaignResult) -> Written:
    """Write ``verdict.json``, ``junit.xml`` and ``report.html`` into a result directory.

    Reads the campaign, the runs' histories and ``anomalies.parquet`` from the same directory.
    A run whose history cannot be read is on the page with the reason: a broken guarantee is told,
    whatever else is broken. Raises DamagedFiles for anomalies that cannot be read, and NotWritten
    when all was written that can be.
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
    listed, lost_total = losses.lost(directory)
    counted = losses.by_fault(directory)
    known = [cell for cell in result.cells if cell.lost is not None]
    places = [(cell.run, cell.cell, cell.settings.topic) for cell in known]
    trials = opportunities(places, timelines, counted)
    first_rows = losses.first_rows(directory)
    for_ci = ci.Told(about=told, first_rows=first_rows, page=directory / PAGE)
    windows = losses.windows(listed)

    def write_page() -> None:
        from ackproof.harness.report import page  # matplotlib takes most of a second to import

        html = page.render(
            campaign,
            result,
            cells,
            timelines,
            windows,
            lost_total=lost_total,
            about=told,
            losses_by_fault=counted,
            order=losses.order(directory),
            opportunities=trials,
            first_rows=first_rows,
        )
        write_text(directory / PAGE, printable(html))

    _write_each(
        {
            verdict.FILE: lambda: verdict.write(
                directory, verdict.to_document(campaign, result, told, counted, trials)
            ),
            JUNIT: lambda: ci.write(directory / JUNIT, campaign, result, cells, for_ci),
            PAGE: write_page,
        }
    )
    return Written(page=directory / PAGE, cells=cells, windows=windows)


def _write_each(files: Mapping[str, Callable[[], None]]) -> None:
    """Write each file, whatever becomes of the others. Raises NotWritten."""
    failed = []
    for name, write_file in files.items():
        try:
            write_file()
        except Exception as error:
            log.exception("%s", name)
            failed.append(f"{name}: {type(error).__name__}: {error}")
    if failed:
        raise NotWritten("; ".join(failed))


def _numbers(directory: AnyPath) -> list[int]:
    """The numbers of the runs that have a directory."""
    names = (run.name for run in (directory / "runs").glob("*"))
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def shown(
    directory: AnyPath, result: CampaignResult
) -> tuple[Sequence[CellRow], Sequence[LossWindow]]:
    """Return what a terminal shows of a result: its cells, and the lost records, none where they
    cannot be read."""
    try:
        listed, _ = losses.lost(directory)
    except HistoryError:
        listed = []
    return rows(result, _manifest(directory)), losses.windows(listed)


def load(directory: AnyPath) -> CampaignResult | None:
    """The result that was written into this directory; None when none was.

    Raises DamagedResults when it, or what a report of it is made of, is not as the check left it.
    Whatever comes of it, a former page is removed: it would stay where there is nothing to write a
    new one from.
    """
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
    if result.cells and not (directory / "runs").is_dir():
        raise DamagedResults(directory, ["runs is missing"])
    return result


def _timeline(history: AnyPath, planned: PlannedRun | None) -> timeline.Timeline | str:
    """The timeline of a run, or why there is none."""
    try:
        return timeline.read(history, planned.faults if planned else ())
    except (HistoryError, OSError, ValueError, KeyError) as error:
        return str(error)


def _faults(history: AnyPath, planned: PlannedRun | None) -> Sequence[FaultSpan]:
    """Return the faults of a run; none where their table cannot be read, which the checkers say."""
    try:
        return timeline.faults(history, planned.faults if planned else ())
    except (HistoryError, OSError, ValueError, KeyError):
        return ()


def _manifest(directory: AnyPath) -> Manifest | None:
    """The clusters' settings, for show; that there is no manifest is for the checkers to say."""
    try:
        return manifest.read(directory)
    except HistoryError:
        return None
