"""The failure of a campaign that is examined."""

from dataclasses import dataclass

from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.checkers.verdict import Verdict
from ackproof.config.suggestions import unknown
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VerdictDocument


class NoCounterfactual(ValueError):
    """A result that broke nothing, or whose campaign cannot be run for one cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The failure that is examined: a guarantee that did not hold in a cell, promised or not.

    Attributes:
        run: The number of the run.
        cell: The name of the cell.
        guarantee: The name of the guarantee.
    """

    run: int
    cell: str
    guarantee: str

    @property
    def is_loss(self) -> bool:
        return self.guarantee == NO_LOSS

    @property
    def happened(self) -> str:
        """Return what happened in a run, in words."""
        return "records were lost" if self.is_loss else f"{self.guarantee} did not hold"

    @property
    def noun(self) -> str:
        """Return the word for the failure in a sentence."""
        return "loss" if self.is_loss else "failure"


def failure(result: VerdictDocument, cell: str | None, guarantee: str | None) -> Failure:
    """Return the failure to examine. Unless cell and guarantee say which one, what was promised
    comes first, and a loss before others.

    Raises NoCounterfactual.
    """
    for kind, asked, there in (
        ("cell", cell, [one.cell for one in result.cells]),
        ("guarantee", guarantee, [of.name for one in result.cells for of in one.guarantees]),
    ):
        if asked is not None and asked not in there:
            raise NoCounterfactual(unknown(kind, asked, dict.fromkeys(there)))
    known = [
        (
            one.broken == 0,
            one.name != NO_LOSS,
            Failure(run=of.run, cell=of.cell, guarantee=one.name),
        )
        for of in result.cells
        for one in of.guarantees
        if _anomalies(of, one.name)
    ]
    wanted = [
        one
        for one in known
        if cell in (None, one[-1].cell) and guarantee in (None, one[-1].guarantee)
    ]
    if wanted:
        return min(wanted, key=lambda one: one[:2])[-1]
    if not known:
        raise NoCounterfactual("no cell lost a record or broke a guarantee")
    asked = " in ".join(filter(None, (guarantee, cell)))
    failed = "; ".join(sorted({f"{one.guarantee} in {one.cell}" for *_, one in known}))
    raise NoCounterfactual(f"there is no failure of {asked}, but of {failed}")


def _anomalies(cell: CellDocument, guarantee: str) -> int | None:
    """Return how many anomalies the cell has that the guarantee excludes, promised or not; None if
    it has none and not everything was examined."""
    if guarantee == NO_LOSS:
        return cell.lost
    one = next((one for one in cell.guarantees if one.name == guarantee), None)
    if one is None:
        return None
    return one.found or one.broken or (0 if one.checked and not one.lacking else None)


def failed(result: VerdictDocument, guarantee: str) -> bool | None:
    """Return whether a guarantee did not hold in a run; None if the run is inconclusive. It held if
    all faults took effect and everything was examined.

    Findings do not matter here. They include servers that waited for a processor, and a finding
    that makes the lost records uncertain makes them unknown or the verdict inconclusive.
    """
    found = [_anomalies(cell, guarantee) for cell in result.cells]
    if any(found):
        return True
    broken_down = not result.runs or any(run.infrastructure_failed for run in result.runs)
    certain = (
        not broken_down
        and result.verdict is not Verdict.INCONCLUSIVE
        and bool(found)
        and all(one == 0 for one in found)
        and all(fault.proven for fault in result.faults)
    )
    return False if certain else None
