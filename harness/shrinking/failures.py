"""The failures of a run that a search repeats, by name.

A run fails by the guarantees that it broke, or by the expectations of its campaign that it did not
meet. Both have a name that stays the same when the campaign becomes smaller.
"""

from collections.abc import Iterator

from ackproof.checkers.verdict import CampaignResult, CellResult, Verdict


class NothingToShrink(Exception):
    """Results without a failure."""


def first_failed_run(result: CampaignResult) -> int:
    """Return the number of the first run that broke a guarantee, else of the first one that did not
    meet an expectation. Raises NothingToShrink."""
    for kind in (_broken, _unmet):
        for run in result.runs:
            if any(kind(_cells(result, run.number))):
                return run.number
    raise NothingToShrink("no run of it broke a guarantee or missed an expectation")


def failures_of(result: CampaignResult, run: int) -> frozenset[str]:
    """Return the guarantees that a run broke, or, if it broke none, the expectations that it did
    not meet.

    An unmet expectation is left out beside a broken guarantee: a smaller campaign that is merely
    slow must not pass for one that loses records.
    """
    cells = _cells(result, run)
    return frozenset(_broken(cells)) or frozenset(_unmet(cells))


def fails_by(result: CampaignResult, failures: frozenset[str]) -> bool:
    """Return whether any run failed by one of these."""
    cells = result.cells
    return not failures.isdisjoint({*_broken(cells), *_unmet(cells)})


def _cells(result: CampaignResult, run: int) -> tuple[CellResult, ...]:
    return tuple(cell for cell in result.cells if cell.run == run)


def _broken(cells: tuple[CellResult, ...]) -> Iterator[str]:
    """Yield every guarantee that was broken in a cell, unless the campaign expects that of the
    cell."""
    for cell in cells:
        if cell.is_broken:
            yield from (one.name for one in cell.guarantees if one.is_broken)


def _unmet(cells: tuple[CellResult, ...]) -> Iterator[str]:
    """Yield every threshold that was not met, and the expected verdicts of each cell that came to
    another one. An inconclusive verdict does not count as another one."""
    for cell in cells:
        yield from (f"{one.measure} {one.bound}" for one in cell.thresholds if one.met is False)
        is_conclusive = cell.verdict is not Verdict.INCONCLUSIVE
        if (
            is_conclusive
            and cell.expected
            and cell.verdict not in cell.expected
            and not cell.is_broken
        ):
            yield f"verdict {' or '.join(cell.expected)}"
