"""Contradictions of a verdict document with itself or with the files beside it.

A document that was edited, or that is made of two, is refused, because nothing in it can be
trusted. These parts are compared: the verdicts with the counts, the counts with
``anomalies.parquet``, the cells with the manifest, and the faults with the histories.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from ackproof.checkers import thresholds
from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.checkers.verdict import Verdict
from ackproof.harness.exit_status import status_of
from ackproof.harness.report import losses
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VERSION, VerdictDocument
from ackproof.history import manifest, reader
from ackproof.history.errors import HistoryError
from ackproof.history.storage import AnyPath

_RECORDS = ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered")
_RECORDS_MAX = 2**63
_COUNTED = ("lost", "duplicated", "reordered")
"""The counts of a cell that are rows of ``anomalies.parquet``, under the same name."""


def in_document(document: VerdictDocument) -> Iterator[str]:
    """Yield the contradictions of a document with itself."""
    yield from _counts(document.cells)
    for cell in document.cells:
        yield from _in_cell(cell)
    yield from _in_verdicts(document)
    for name in _COUNTED if document.cells else ():
        total = sum(getattr(cell, name) or 0 for cell in document.cells)
        if name in document.anomalies and (document.anomalies[name] or 0) != total:
            yield (
                f"it counts {_short(document.anomalies[name] or 0)} {name} records under "
                f"anomalies, but {_short(total)} in its cells"
            )


def with_results(directory: AnyPath, document: VerdictDocument) -> Iterator[str]:
    """Yield the contradictions between a document and the other files of its results, as far as
    these can be read."""
    yield from _with_anomalies(directory, document)
    yield from _with_manifest(directory, document)
    for run in document.runs if document.version == VERSION else ():
        yield from _with_history(directory, document, run.number)


def _counts(cells: Sequence[CellDocument]) -> Iterator[str]:
    """Yield the numbers of records that no run can have."""
    for (run, name), times in Counter((cell.run, cell.cell) for cell in cells).items():
        if times > 1:
            yield f"{name} of run {run} occurs {times} times"
    for cell in cells:
        counts = {name: getattr(cell, name) for name in _RECORDS}
        known = {name: count for name, count in counts.items() if count is not None}
        for name, count in known.items():
            if not 0 <= count < _RECORDS_MAX:
                yield f"{cell.cell} has {_short(count)} {name} records"
        if known.get("lost", 0) > cell.acked:
            yield (
                f"{cell.cell} lost {_short(known['lost'])} of only {_short(cell.acked)} "
                "acked records"
            )


def _short(count: int) -> str:
    """Return a number as a short text, however large it is."""
    return f"{count:,}" if abs(count) < _RECORDS_MAX else "more than 2^63"


def _in_cell(cell: CellDocument) -> Iterator[str]:
    """Yield the contradictions between a cell's verdict, its guarantees and its counts."""
    broken = ", ".join(one.name for one in cell.guarantees if one.broken)
    if broken and cell.verdict is not Verdict.FAIL:
        yield f"{cell.cell} is {cell.verdict.value}, but broke {broken}"
    if cell.lost and cell.verdict is Verdict.PASS:
        yield f"{cell.cell} is pass, but lost {_short(cell.lost)} records"
    for one in cell.guarantees:
        if one.broken and one.held:
            yield f"{cell.cell} held {one.name}, but broke it {_short(one.broken)} times"
        if one.name == NO_LOSS and one.promised and one.held and cell.lost:
            yield f"{cell.cell} held {one.name}, but lost {_short(cell.lost)} records"
        if one.name == NO_LOSS and cell.lost is not None and one.broken > cell.lost:
            yield (
                f"{cell.cell} broke {one.name} {_short(one.broken)} times, but lost "
                f"{_short(cell.lost)} records"
            )

    for limit in cell.thresholds:
        undecided = cell.verdict is Verdict.INCONCLUSIVE
        if not thresholds.is_consistent(limit, cell) or (undecided and limit.met):
            yield (
                f"the threshold on {limit.measure} of {cell.cell} does not agree with the "
                "measured value"
            )


def _in_verdicts(document: VerdictDocument) -> Iterator[str]:
    """Yield the contradictions between the verdict of the campaign and those of its cells."""
    verdict, cells = document.verdict, document.cells
    seen = {cell.counts_as: cell.cell for cell in reversed(cells)}
    failed = seen.get(Verdict.FAIL)
    if failed is not None and verdict is not Verdict.FAIL:
        yield f"the verdict is {verdict.value}, but {failed} counts as failed"
    if cells and failed is None and verdict is Verdict.FAIL:
        yield "the verdict is fail, but no cell counts as failed"
    undecided = seen.get(Verdict.INCONCLUSIVE)
    decided = verdict in (Verdict.PASS, Verdict.NOT_GUARANTEED)
    if undecided is not None and decided:
        yield f"the verdict is {verdict.value}, but {undecided} is inconclusive"
    if cells and decided and verdict not in seen:
        yield f"the verdict is {verdict.value}, but no cell is"
    status = status_of(
        verdict,
        [cell.is_broken for cell in cells if cell.counts_as is Verdict.FAIL],
        infrastructure_failed=any(run.infrastructure_failed for run in document.runs),
    )
    if document.exit_status not in (None, status):
        yield f"its exit status is not {status.value}, which its cells require"


def _with_anomalies(directory: AnyPath, document: VerdictDocument) -> Iterator[str]:
    """Yield the differences between the rows of ``anomalies.parquet`` and the counts."""
    try:
        rows = losses.counts(directory)
    except HistoryError:
        return
    for name, count in document.anomalies.items():
        found = sum(rows[key] for key in rows if key[2] == name)
        if found != (count or 0):
            yield (
                f"{losses.ANOMALIES_FILE} has {found:,} rows of {name}, but the verdict "
                f"counts {_short(count or 0)}"
            )
    for cell in document.cells:
        for name in _COUNTED:
            found, count = rows[cell.run, cell.cell, name], getattr(cell, name) or 0
            if found != count:
                yield (
                    f"{losses.ANOMALIES_FILE} has {found:,} rows of {name} of {cell.cell} in "
                    f"run {cell.run}, but the verdict counts {_short(count)}"
                )


def _with_manifest(directory: AnyPath, document: VerdictDocument) -> Iterator[str]:
    """Yield the cells that are planned or judged, but not both."""
    try:
        planned = manifest.read(directory)
    except HistoryError:
        return
    wanted = {(run.number, one.cell.name) for run in planned.runs for one in run.cells}
    judged = {(cell.run, cell.cell) for cell in document.cells}
    yield from _unlike(wanted, judged, f"{manifest.FILE} plans the cell", "the verdict judges")
    yield from _unlike(judged, wanted, "the verdict judges the cell", f"{manifest.FILE} plans")


def _unlike(
    some: Collection[tuple[int, str]], others: Collection[tuple[int, str]], has: str, not_: str
) -> Iterator[str]:
    for run, name in sorted(set(some) - set(others)):
        yield f"{has} {name} of run {run}, but {not_} no such cell"


def _with_history(directory: AnyPath, document: VerdictDocument, run: int) -> Iterator[str]:
    """Yield the differences between the faults of a run and those of its history."""
    history = directory / "runs" / str(run) / "history"
    if not history.is_dir():
        return
    try:
        rows: Iterable[Mapping[str, object]] = reader.read(
            history, "faults", ["fault_id", "fault"]
        ).to_pylist()
    except (HistoryError, OSError, pa.ArrowException):
        return
    recorded = {f"{row['fault']}#{row['fault_id']}" for row in rows}
    told = {fault.name for fault in document.faults if fault.run == run}
    for name in sorted(recorded - told):
        yield f"the history of run {run} has the fault {name}, but the verdict does not"
    for name in sorted(told - recorded):
        yield f"the verdict has the fault {name} in run {run}, but the history does not"
