"""The clocks of the nodes that write rows, and how far each may be from the harness's.

Rows of ``sends`` have the time of the client's node. Faults and observations have the time of the
harness. A comparison of the two is widened by the bound of the node's clock. Clocks drift, so a
clock is compared at the start and the end of the workload, which bounds the time between.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ackproof.history.manifest import PlannedWriter

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
