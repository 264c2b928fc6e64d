"""The parts of a result that its verdict does not cover, a line each: unchecked guarantees,
inconclusive cells, faults that were not proven, and skipped parts of the campaign.

A reader must see these beside the verdict, because a ``pass`` says nothing about them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.verdict import CampaignResult, Guarantee, Verdict
from ackproof.harness.report.cell_names import CellKey
from ackproof.harness.report.leading_causes import cells_in_words
from ackproof.harness.report.outcome import guarantees_checked
from ackproof.harness.report.rows import CellRow
from ackproof.harness.report.timeline import FaultSpan

SHOWN_MAX = 5
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
        *_faults(faults),
        *_cells(cells),
        *_guarantees(result, cells),
        *(
            Unchecked(subject="skipped, because it was refused", sentence=one)
            for one in result.skipped
        ),
    ]


def _faults(faults: Mapping[int, Sequence[FaultSpan]]) -> Iterator[Unchecked]:
    for run, spans in sorted(faults.items()):
        for span in spans:
            if not span.proven:
                known = "was not verified" if span.proven is None else "was not proven"
                what = f"its effect {known}" if span.injected else "its injection failed"
                yield Unchecked(
                    subject=span.label, sentence=f"{what}, so that it counts as no fault", run=run
                )


def _cells(cells: Sequence[CellRow]) -> Iterator[Unchecked]:
    for cell in cells:
        if Verdict.INCONCLUSIVE in (cell.verdict, cell.kind):
            left = len(cell.reasons) - 1
            more = f" (and {left} more {'reason' if left == 1 else 'reasons'})" if left > 0 else ""
            reason = cell.reasons[0] if cell.reasons else "no reason was recorded"
            yield Unchecked(
                subject=cell.title, sentence=f"inconclusive: {reason}{more}", run=cell.run
            )


def _guarantees(result: CampaignResult, cells: Sequence[CellRow]) -> Iterator[Unchecked]:
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
