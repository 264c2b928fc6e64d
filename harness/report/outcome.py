"""The outcome of a checked campaign in words. The terminal, the page, the index and ``junit.xml``
take their words from here, so that none contradicts another or the exit status.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.thresholds import Threshold
from ackproof.checkers.verdict import CampaignResult, CellResult, Verdict
from ackproof.harness.exit_status import ExitStatus, exit_status
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.rows import CellRow

# --- thresholds -----------------------------------------------------------------------------------

THRESHOLD_HEADINGS = ("cell", "measure", "expected", "measured", "threshold")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdLine:
    """A threshold of a cell: a text for each of :data:`THRESHOLD_HEADINGS`, and the verdict that
    decides the colour of the last one."""

    texts: tuple[str, ...]
    kind: Verdict


def threshold_lines(cells: Sequence[CellRow]) -> Iterator[ThresholdLine]:
    """Yield the thresholds of cells, in their order."""
    for cell in cells:
        for one in cell.thresholds:
            result = f"{one.status}: {one.reason}" if one.reason else one.status
            yield ThresholdLine(
                texts=(cell.title, one.measure, one.bound, one.figure, result), kind=_KINDS[one.met]
            )


_KINDS = {True: Verdict.PASS, False: Verdict.FAIL, None: Verdict.INCONCLUSIVE}


def thresholds_in_short(thresholds: Iterable[Threshold]) -> str:
    """Return the number of thresholds that are met, in a sentence; empty without thresholds."""
    counts = Counter(one.status for one in thresholds)
    if not counts:
        return ""
    others = [f"{many} {status}" for status, many in sorted(counts.items()) if status != "met"]
    return ", ".join([f"{counts['met']} of {counts.total()} thresholds met", *others]) + "."


# --- the outcome ----------------------------------------------------------------------------------

HELD = "Every guarantee held"
NOT_ALL_PROMISED = "Not every acknowledged record was guaranteed to be kept"
AS_EXPECTED = "The outcome was as expected"
BASELINE = "A baseline: no fault was ordered"

_HEADLINES = {
    ExitStatus.BROKEN: "A guarantee was broken",
    ExitStatus.UNMET: "An expectation was not met",
    ExitStatus.INFRASTRUCTURE: "The infrastructure failed",
    ExitStatus.INCONCLUSIVE: "Too little evidence",
}


_MORE: Mapping[int | None, str] = {
    ExitStatus.UNMET: "an expectation was not met",
    ExitStatus.INFRASTRUCTURE: "the infrastructure failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultWords:
    """The words for a result.

    Attributes:
        status: The exit status of the command.
        headline: The result in a few words.
        kind: The verdict that decides the colour. A failed infrastructure is never green.
        notes: Further facts, one sentence each.
    """

    status: ExitStatus
    headline: str
    kind: Verdict
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeCoverage:
    """The number of a campaign's guarantees, and the names of the ``missing`` ones. These were
    promised and not checked in some cell, or checked in no cell."""

    total: int
    missing: tuple[str, ...]

    @property
    def words(self) -> str:
        """Return the number in words, such as ``14 of 21 guarantees checked``."""
        return f"{self.total - len(self.missing)} of {self.total} guarantees checked"


def kind(verdict: Verdict, status: int | None) -> Verdict:
    """Return the verdict that decides the colour of a result. ``status`` is the exit status, or
    None if an older file lacks it."""
    undecided = status == ExitStatus.INFRASTRUCTURE and verdict is not Verdict.FAIL
    return Verdict.INCONCLUSIVE if undecided else verdict


def in_short(verdict: Verdict, status: int | None, known: GuaranteeCoverage) -> str:
    """Return a verdict with its qualifications: ``fail, an expectation was not met``."""
    partly = known.words if known.missing and verdict is Verdict.PASS else None
    return ", ".join(filter(None, (verdict.value, _MORE.get(status), partly)))


def outcome(result: CampaignResult) -> ResultWords:
    """Return the words for ``result``."""
    status, known = exit_status(result), guarantees_checked(result.cells)
    return ResultWords(
        status=status,
        headline=_HEADLINES.get(status) or _held(result, known),
        kind=kind(result.verdict, status),
        notes=tuple(_notes(result, status, known)),
    )


def guarantees_checked(cells: Sequence[CellResult] | Sequence[CellDocument]) -> GuaranteeCoverage:
    """Return the number of guarantees that were checked, by name.

    A guarantee that a cell promises and does not check counts as not checked. A cell that does not
    promise it has no influence: with acks=0, for example, a client receives no offset, and no such
    cell promises one. A guarantee that no cell checked is not checked, promised or not.
    """
    every = [one for cell in cells for one in cell.guarantees]
    seen = {one.name for one in every if one.checked}
    missing = dict.fromkeys(
        one.name for one in every if not one.checked and (one.promised or one.name not in seen)
    )
    return GuaranteeCoverage(total=len({one.name for one in every}), missing=tuple(missing))


def _held(result: CampaignResult, known: GuaranteeCoverage) -> str:
    if result.baseline:
        return BASELINE
    if any(cell.expected for cell in result.cells):
        return AS_EXPECTED
    if result.verdict is Verdict.NOT_GUARANTEED:
        return NOT_ALL_PROMISED
    return f"{known.words}, none broken" if known.missing else HELD


def _notes(result: CampaignResult, status: ExitStatus, known: GuaranteeCoverage) -> list[str]:
    notes = []
    failed = [str(run.number) for run in result.runs if run.infrastructure_failed]
    if failed:
        runs = f"run{'s' if len(failed) > 1 else ''} {', '.join(failed)}"
        notes.append(f"The infrastructure failed in {runs}. See the findings.")
    if status is ExitStatus.INFRASTRUCTURE and result.verdict is Verdict.PASS:
        notes.append("No guarantee that was checked was broken.")
    if told := thresholds_in_short(one for cell in result.cells for one in cell.thresholds):
        notes.append(told)
    if len(known.missing) == known.total > 0:
        notes.append("No guarantee was checked.")
    elif known.missing:
        notes.append(f"{known.words}. Not checked: {', '.join(known.missing)}.")
    return notes
