"""Within the reach of which faults a record was acked: what a lost record may be laid to.

A fault reaches back by the replica lag: what was acked that much before it may not have been
replicated, and a follower that falls behind stays in the ISR for that time. It reaches on by the
session timeout and the replica lag: a deposed leader that was cut off acks until it hears who leads
now. Six seconds after a proven heal, with the defaults far behind, a loss is nobody's but its own:
no fault was on."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ackproof.checkers.context.faults import FOREVER, FaultFacts
from ackproof.checkers.context.observed import Span
from ackproof.checkers.context.pace import FULL, Pace
from ackproof.history.manifest import PlannedRun

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class FaultWindows:
    """Whose reach it was, by time: ``labels[n]`` from ``bounds[n - 1]`` until ``bounds[n]``."""

    bounds: tuple[int, ...]
    labels: tuple[str | None, ...]

    def at(self, times: npt.NDArray[Any]) -> pa.Array:
        """The faults at each time, comma-separated; null where none reached."""
        edges, labels = self._columns
        return labels.take(pa.array(np.searchsorted(edges, times, side="right")))

    @cached_property
    def _columns(self) -> tuple[npt.NDArray[Any], pa.Array]:
        return np.array(self.bounds, dtype=np.int64), pa.array(self.labels, pa.string())


NO_FAULTS = FaultWindows(bounds=(), labels=(None,))


def settle_ns(run: PlannedRun) -> int:
    """By when the last broker has heard of it that a fault is over."""
    return (run.session_timeout_ms + run.replica_lag_ms) * _NS_PER_MS


def reach(fault: FaultFacts, run: PlannedRun, bound: int, pace: Pace = FULL) -> Span:
    """Of a fault, for times of a clock within ``bound`` of the harness's."""
    lag = run.replica_lag_ms * _NS_PER_MS
    end = min(pace.after(fault.end, settle_ns(run)) + bound + 1, FOREVER)
    return Span(max(fault.start - lag - bound, 0), end)


def windows(
    faults: Iterable[FaultFacts], run: PlannedRun, bound: int, pace: Pace = FULL
) -> FaultWindows:
    """The reaches of some of a run's faults."""
    reaches = [(fault.label, reach(fault, run, bound, pace)) for fault in faults]
    bounds = sorted({edge for _, span in reaches for edge in (span.start, span.end)})
    on = [
        ",".join(label for label, span in reaches if span.start <= since < span.end)
        for since in bounds
    ]
    return FaultWindows(bounds=tuple(bounds), labels=(None, *(labels or None for labels in on)))
