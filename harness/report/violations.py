"""The cases of broken guarantees that have no root cause, such as a committed offset that went
back, and the results of the guarantees of plug-ins' checkers, broken or not.

A root cause explains records that were lost, duplicated or changed. For every other anomaly the
report lists its cases by partition and faults: which clients saw it, at which offsets, when, and
which faults were healed before and began after it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.verdict import CampaignResult, Guarantee
from ackproof.harness.report import losses
from ackproof.harness.report.leading_causes import LeadingCause
from ackproof.harness.report.log_lines import LogLine, lines_before
from ackproof.harness.report.losses import AnomalyWindow, Row
from ackproof.harness.report.rows import CellRow
from ackproof.harness.report.timeline import FaultSpan, place_in_words
from ackproof.history.messages import several
from ackproof.history.storage import AnyPath

SHOWN_MAX = 5
"""The number of lines of a violation that are shown at once."""

LISTED_MAX = 30
"""The most lines of a violation on the page. ``anomalies.parquet`` has all cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseLine:
    """Cases in one partition under the same faults.

    Attributes:
        window: The cases.
        between: The last fault that was healed before the first case, and the next that began.
        lines: The lines of logs before the first case that name one of its clients or groups.
    """

    window: AnomalyWindow
    between: str
    lines: Sequence[LogLine] = ()

    @property
    def first(self) -> str:
        """Return what was seen in the first case."""
        return str(self.window.rows[0]["detail"] or "no details")


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A broken guarantee and its cases.

    Attributes:
        cause: Its entry among the causes of the verdict.
        meaning: What one case is, in words; empty if the checker is not installed.
        lines: Its cases in the order of time, at most :data:`LISTED_MAX` lines.
        left: The number of lines that are not listed.
    """

    cause: LeadingCause
    meaning: str
    lines: Sequence[CaseLine]
    left: int


def of_report(
    directory: AnyPath,
    leading: Sequence[LeadingCause],
    faults: Mapping[int, Sequence[FaultSpan]],
    result: CampaignResult,
) -> list[Violation]:
    """Return :func:`violations` with the cases of ``anomalies.parquet``. Raises as
    :func:`losses.windows`."""
    windows = {
        name: losses.windows(directory, name) for name in {one.anomaly for one in leading} if name
    }
    return violations(directory, leading, windows, faults, result)


def violations(
    directory: AnyPath,
    leading: Iterable[LeadingCause],
    windows: Mapping[str, Sequence[AnomalyWindow]],
    faults: Mapping[int, Sequence[FaultSpan]],
    result: CampaignResult,
) -> list[Violation]:
    """Return the causes of a verdict that are anomalies without a root cause, with their cases.

    Args:
        directory: The results, whose logs are searched.
        leading: The causes of the verdict.
        windows: The cases by anomaly.
        faults: The faults of each run.
        result: The result, which has the names of the clients and groups.
    """
    consumption = result.consumption
    names = {one.client for one in consumption.clients} | {one.group for one in consumption.groups}
    found = []
    for cause in leading:
        mine = [
            window
            for window in windows.get(cause.anomaly, ())
            if (window.run, window.cell) in cause.cells
        ]
        if not mine:
            continue
        mine.sort(key=lambda window: window.times[0] or 0)
        found.append(
            Violation(
                cause=cause,
                meaning=CATALOGUE[cause.anomaly].summary if cause.anomaly in CATALOGUE else "",
                lines=[
                    _line(directory, window, faults.get(window.run, ()), names, logs=n < SHOWN_MAX)
                    for n, window in enumerate(mine[:LISTED_MAX])
                ],
                left=max(0, len(mine) - LISTED_MAX),
            )
        )
    return found


def _line(
    directory: AnyPath,
    window: AnomalyWindow,
    faults: Sequence[FaultSpan],
    names: set[str],
    *,
    logs: bool,
) -> CaseLine:
    words = {word.strip(";,.") for word in str(window.rows[0]["detail"] or "").split()}
    time = window.times[0]
    return CaseLine(
        window=window,
        between=place_in_words(time, faults),
        lines=()
        if time is None or not logs
        else lines_before(directory, window.run, words & names, time),
    )


# --- guarantees of plug-ins' checkers -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginLine:
    """A guarantee of one cell, and its first anomaly as text, which is empty without any."""

    cell: str
    guarantee: Guarantee
    first: str


def plugin_lines(
    cells: Sequence[CellRow], first_rows: Mapping[tuple[int, str, str], Row]
) -> Iterator[PluginLine]:
    """Yield the results of the guarantees of plug-ins' checkers, cell by cell."""
    for cell in cells:
        for one in cell.guarantees:
            if one.plugin is not None:
                row = first_rows.get((cell.run, cell.cell, one.anomaly or ""))
                yield PluginLine(
                    cell=cell.title, guarantee=one, first="" if row is None else _in_words(row)
                )


def _in_words(row: Row) -> str:
    where = row["topic"] if row["partition"] < 0 else f"{row['topic']}-{row['partition']}"
    offset = "" if row["offset"] is None else f", offset {row['offset']}"
    undated = "at an unknown time" if row["time"] is None else "no fault was active"
    fault = undated if row["fault"] is None else row["fault"]
    return f"{where}{offset} ({fault}): {row['detail'] or ''}"


def plugins_in_short(cells: Sequence[CellRow]) -> Iterator[str]:
    """Yield each guarantee of a plug-in's checker, with the numbers of cells in which it was
    broken, held or not checked."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for one in (one for cell in cells for one in cell.guarantees if one.plugin is not None):
        counts.setdefault((one.name, one.plugin or ""), Counter())[became(one)] += 1
    for (name, plugin), found in counts.items():
        words = (f"{what} in {several(n, 'cell')}" for what, n in found.items())
        yield f"{name} ({plugin}): {', '.join(words)}"


def became(guarantee: Guarantee) -> str:
    """Return the result of a guarantee, in words."""
    if guarantee.is_broken:
        return "broken"
    if not guarantee.promised:
        return "not promised"
    if guarantee.held:
        return "held"
    if not guarantee.checked:
        return "not checked"
    return "undetermined" if guarantee.held is None else "not held, which is excused"
