"""What a verdict document may not say, since it would contradict itself.

A document that somebody edited, or that is made of two, is refused: nothing that it says can be
believed.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from checkers.verdict import CampaignResult, Verdict, counted_as
from harness.report.cell_document import CellDocument

_RECORDS = ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered")
_RECORDS_MAX = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """What a cell says of its verdict. ``broken``: the guarantees that it says were broken."""

    name: str
    verdict: Verdict
    expected: Collection[Verdict]
    broken: Sequence[str]

    @property
    def counts_as(self) -> Verdict:
        return counted_as(self.verdict, self.expected)


def in_result(result: CampaignResult) -> Iterator[str]:
    """Yield the contradictions of a result."""
    cells = [
        _Cell(
            name=cell.cell,
            verdict=cell.verdict,
            expected=cell.expected,
            broken=[one.name for one in cell.guarantees if one.broken],
        )
        for cell in result.cells
    ]
    return _contradictions(result.verdict, cells)


def in_cells(verdict: Verdict, cells: Sequence[CellDocument]) -> Iterator[str]:
    """Yield the contradictions between a document's verdict and its cells."""
    found = [
        _Cell(
            name=cell.cell,
            verdict=cell.verdict,
            expected=_several(cell.expected),
            broken=[one.name for one in cell.guarantees if one.broken],
        )
        for cell in cells
    ]
    yield from _counts(cells)
    yield from _contradictions(verdict, found)


def _counts(cells: Sequence[CellDocument]) -> Iterator[str]:
    """Yield the numbers of records that no run can have."""
    for (run, name), times in Counter((cell.run, cell.cell) for cell in cells).items():
        if times > 1:
            yield f"{name} of run {run} stands there {times} times"
    for cell in cells:
        counts = {name: getattr(cell, name) for name in _RECORDS}
        known = {name: count for name, count in counts.items() if count is not None}
        for name, count in known.items():
            if not 0 <= count < _RECORDS_MAX:
                yield f"{cell.cell} has {_short(count)} {name} records"
        if known.get("lost", 0) > cell.acked:
            yield f"{cell.cell} lost {_short(known['lost'])} of {_short(cell.acked)} acked records"


def _short(count: int) -> str:
    """A number in words that are short, however large it is."""
    return f"{count:,}" if abs(count) < _RECORDS_MAX else "more than 2^63"


def _several(expected: Verdict | tuple[Verdict, ...] | None) -> tuple[Verdict, ...]:
    if expected is None:
        return ()
    return (expected,) if isinstance(expected, Verdict) else expected


def _contradictions(verdict: Verdict, cells: Sequence[_Cell]) -> Iterator[str]:
    for cell in cells:
        if cell.broken and cell.verdict is not Verdict.FAIL:
            broken = ", ".join(cell.broken)
            yield f"{cell.name} is {cell.verdict.value}, and broke {broken}"
    seen = {cell.counts_as: cell.name for cell in reversed(cells)}
    failed = seen.get(Verdict.FAIL)
    if failed is not None and verdict is not Verdict.FAIL:
        yield f"the verdict is {verdict.value}, and {failed} counts as failed"
    if cells and failed is None and verdict is Verdict.FAIL:
        yield "the verdict is fail, and no cell counts as failed"
    undecided = seen.get(Verdict.INCONCLUSIVE)
    decided = verdict in (Verdict.PASS, Verdict.NOT_GUARANTEED)
    if undecided is not None and decided:
        yield f"the verdict is {verdict.value}, and {undecided} is inconclusive"
    if cells and decided and verdict not in seen:
        yield f"the verdict is {verdict.value}, and no cell is"
