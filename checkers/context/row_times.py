"""The check whether rows belong to their run and cell, by the times and the cell that they contain.

The steps of a run say when it took place. A send of another year is damaged or belongs to another
run. It would precede or follow every fault, and a count of acks by the second would extend over
years. A send of another cell than that of its topic is damaged, too. Nothing follows from it for
either cell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.context import steps
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.observed import Span
from ackproof.history.validation import TIMES, other

EVER = Span(0, FOREVER)

_DAY_NS = 86_400 * 1_000_000_000
SLACK_NS = _DAY_NS
"""The time before the first step and after the last one in which rows may lie. It is far longer
than the difference of any compared clock, and than a client takes to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The values that the rows of a file must have if they belong to the run.

    Attributes:
        within: The span in which their times lie, in nanoseconds of the Unix epoch.
        cell: The cell that the manifest names, or None if the rows may name any.
    """

    within: Span = EVER
    cell: str | None = None

    def problem(self, rows: pa.Table) -> str | None:
        """Return a sentence about the first unexpected value, or None if all values are as
        expected."""
        if self.cell is not None and (strange := other(rows, "cell", self.cell)) is not None:
            return f"the column cell holds {strange!r}, but the manifest says {self.cell!r}"
        return untimely(rows, self.within)


ANY = Expected()


def recorded(phases: Iterable[Mapping[str, Any]]) -> Span:
    """Return the span in which rows of a run may lie, from its steps. A run whose last step did not
    end may have continued for any time. A run without steps may have taken place at any time."""
    rows = list(phases)
    times = [row["time"] for row in rows]
    if not times:
        return EVER
    finished = steps.ended(rows) >= steps.LAST
    end = min(max(times) + SLACK_NS, FOREVER) if finished else FOREVER
    return Span(max(min(times) - SLACK_NS, 0), end)


def widened(span: Span, bound_ns: int) -> Span:
    """Return a span as it appears on a clock that differs by up to ``bound_ns``."""
    return Span(max(span.start - bound_ns, 0), min(span.end + bound_ns, FOREVER))


def untimely(rows: pa.Table, within: Span) -> str | None:
    """Return a sentence about a time of these rows that is outside a span, or None if there is
    none."""
    if within == EVER:
        return None
    for name in TIMES.intersection(rows.column_names):
        told = pc.min_max(rows[name])
        least, greatest = told["min"].as_py(), told["max"].as_py()
        if least is not None and least < within.start:
            return f"the column {name} holds {least}, {_days(within.start - least)} before the run"
        if greatest is not None and greatest > within.end:
            late = _days(greatest - within.end)
            return f"the column {name} holds {greatest}, {late} after the run"
    return None


def _days(nanoseconds: int) -> str:
    return f"{(nanoseconds + SLACK_NS) / _DAY_NS:,.1f} days"
