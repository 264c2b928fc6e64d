"""The check whether rows belong to their run and cell, by the times and the cell that they contain.

The steps of a run say when it took place. A send of another year is damaged or belongs to another
run. It would precede or follow every fault, and a count of acks by the second would extend over
years. A send of another cell than that of its topic is damaged, too. Nothing follows from it for
either cell.

Rows of ``sends`` have the time of the client's node. Faults and observations have the time of the
harness. A comparison of the two is widened by the bound of the node's clock. Clocks drift, so a
clock is compared at the start and the end of the workload, which bounds the time between.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.context import steps
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.observed import Span
from ackproof.history.manifest import PlannedWriter
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


# --- clocks ---------------------------------------------------------------------------------------

SKEW_ALLOWED_NS = 500_000_000
"""The largest clock difference that is not reported. At this bound the start and end of a fault are
uncertain by one second in all, and the shortest faults that prove anything last a few seconds."""

MOMENTS = frozenset({"start", "end"})


class NodeClocks:
    """The bounds of a run's clocks, from the rows of its table ``clocks``."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._bounds: dict[str, int] = {}
        moments: dict[str, set[str]] = {}
        for row in rows:
            bound = abs(row["offset_ns"]) + abs(row["bound_ns"])
            self._bounds[row["node"]] = max(bound, self._bounds.get(row["node"], 0))
            moments.setdefault(row["node"], set()).add(row["moment"])
        self._compared = {node for node, seen in moments.items() if seen >= MOMENTS}

    def bound(self, nodes: Iterable[str]) -> int | None:
        """Return the largest difference in nanoseconds between the harness's clock and those of the
        nodes, or None if it is unknown for one of them."""
        nodes = set(nodes)
        if not nodes or not nodes <= self._compared:
            return None
        return max(self._bounds[node] for node in nodes)

    def missing(self, writers: Iterable[PlannedWriter]) -> Iterator[tuple[PlannedWriter, str]]:
        """Yield the writers on nodes whose clock was not compared, each with a sentence."""
        for writer in writers:
            if writer.node not in self._compared:
                yield (
                    writer,
                    (
                        f"the clock of {writer.node} was not compared at the start and end of "
                        "the run"
                    ),
                )

    def findings(self) -> Iterator[str]:
        """Yield the clocks that differ by more than is allowed."""
        for node, bound in sorted(self._bounds.items()):
            if bound > SKEW_ALLOWED_NS:
                allowed = f"more than {SKEW_ALLOWED_NS // 10**6} ms"
                yield f"the clock of {node} is up to {bound // 10**6} ms off, {allowed}"
