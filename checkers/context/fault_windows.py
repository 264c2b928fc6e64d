"""Fault windows: the times in which a lost record is attributed to a fault.

A window begins one replica lag before the fault. A record that was acked in that time may not have
been replicated yet, because a follower that falls behind stays in the ISR for as long. The window
ends a session timeout and a replica lag after the fault. Until then a deposed leader that was cut
off may ack records, because it has not learned of the new leader. A loss after that, which is six
seconds after a proven heal with the defaults, happened without a fault.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ackproof.checkers.context.faults import FOREVER, FaultFacts
from ackproof.checkers.context.observed import Span
from ackproof.checkers.context.pace import FULL, ServerPace
from ackproof.history.manifest import PlannedRun

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class FaultWindows:
    """The faults by time: those in ``labels[n]`` from ``bounds[n - 1]`` until ``bounds[n]``."""

    bounds: tuple[int, ...]
    labels: tuple[str | None, ...]

    def at(self, times: npt.NDArray[Any]) -> pa.Array:
        """Return the faults at each time, comma-separated, or null if there were none."""
        edges, labels = self._columns
        return labels.take(pa.array(np.searchsorted(edges, times, side="right")))

    @cached_property
    def _columns(self) -> tuple[npt.NDArray[Any], pa.Array]:
        return np.array(self.bounds, dtype=np.int64), pa.array(self.labels, pa.string())


NO_FAULTS = FaultWindows(bounds=(), labels=(None,))


def settle_ns(run: PlannedRun) -> int:
    """Return the time after a fault by which every broker has learned that it is over."""
    return (run.session_timeout_ms + run.replica_lag_ms) * _NS_PER_MS


def reach(fault: FaultFacts, run: PlannedRun, bound: int, pace: ServerPace = FULL) -> Span:
    """Return the window of a fault for times of a clock within ``bound`` of the harness's."""
    lag = run.replica_lag_ms * _NS_PER_MS
    end = min(pace.after(fault.end, settle_ns(run)) + bound + 1, FOREVER)
    return Span(max(fault.start - lag - bound, 0), end)


def windows(
    faults: Iterable[FaultFacts], run: PlannedRun, bound: int, pace: ServerPace = FULL
) -> FaultWindows:
    """Return the windows of some of a run's faults."""
    reaches = [(fault.label, reach(fault, run, bound, pace)) for fault in faults]
    bounds = sorted({edge for _, span in reaches for edge in (span.start, span.end)})
    on = [
        ",".join(label for label, span in reaches if span.start <= since < span.end)
        for since in bounds
    ]
    return FaultWindows(bounds=tuple(bounds), labels=(None, *(labels or None for labels in on)))
