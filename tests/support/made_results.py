"""Results as checking yields them, made by hand: what a test does not care about is filled in."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ackproof.checkers.thresholds import Threshold, Unit
from ackproof.checkers.verdict import CellResult, Guarantee, Verdict
from ackproof.history.cell import Cell, Value


def cell_result(
    name: str = "c",
    verdict: Verdict = Verdict.PASS,
    *,
    topic: str | None = None,
    settings: Mapping[str, Value] | None = None,
    guarantees: Iterable[Guarantee] = (),
    **changes: Any,
) -> CellResult:
    """A cell, sent 12 records, of which 10 are acked and none is lost; ``changes``: of whatever
    else a result has."""
    made = CellResult(
        run=1,
        settings=Cell(name=name, topic=topic or name, settings=settings or {}),
        sent=12,
        acked=10,
        failed=1,
        indeterminate=1,
        lost=0,
        duplicated=0,
        reordered=0,
        guarantees=tuple(guarantees),
        verdict=verdict,
        reasons=("so",),
    )
    return replace(made, **changes)


def guarantee(
    name: str = "no-acked-record-lost",
    *,
    promised: bool = True,
    held: bool | None = True,
    broken: int | None = None,
    anomaly: str | None = "lost",
    reason: str = "so",
) -> Guarantee:
    """A guarantee, held as promised. ``broken``: once where it was promised and did not hold."""
    return Guarantee(
        name=name,
        promise="p",
        promised=promised,
        held=held,
        broken=int(promised and held is False) if broken is None else broken,
        anomaly=anomaly,
        reason=reason,
    )


def threshold(measure: str = "unavailable.longest", *, met: bool | None = True) -> Threshold:
    """A threshold of 10 s: 4 s were measured, or 28.041 s, or nothing."""
    measured = {True: 4_000.0, False: 28_041.0, None: None}[met]
    return Threshold(
        measure=measure,
        operator="<=",
        limit=10_000,
        unit=Unit.MILLISECONDS,
        measured=measured,
        met=met,
        reason="" if measured else "the cell has no tail reader",
    )
