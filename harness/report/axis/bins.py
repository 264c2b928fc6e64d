"""The bins of a run's time axis: equal spans of time, few enough that a long run stays small."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ackproof.checkers.arrays import Array

NS_PER_S = 1_000_000_000
_NS_PER_MS = 1_000_000

POINTS_MAX = 600
"""The most bins of an axis. A screen has hardly more columns to draw them in."""

_WIDTHS_MS = (200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000)
"""The widths of a bin, so that its edges are round figures. Longer ones are whole minutes."""

Pairs = list[tuple[int, int]]
"""The bins that are not 0, with their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """The bins of an axis. ``start`` is that of the first one, in nanoseconds of the Unix epoch.
    All of them have the same ``width``, in nanoseconds."""

    start: int
    width: int
    count: int

    def of(self, times: Array) -> Array:
        """Return the number of the bin of each time. Times beside the axis are in the first or the
        last bin, so that the sum over all bins is complete."""
        numbers: Array = np.clip((times - self.start) // self.width, 0, self.count - 1)
        return numbers

    def sums(self, times: Array) -> Array:
        """Return the number of times in each bin."""
        counted: Array = np.bincount(self.of(times), minlength=self.count)
        return counted

    def seconds(self, time: int) -> float:
        """Return a time as seconds since the start of the axis, to the millisecond. Times before it
        are at 0."""
        return max(0, time - self.start) // _NS_PER_MS / 1_000

    def time(self, seconds: float) -> int:
        """Return the time so many seconds after the start of the axis."""
        return self.start + round(seconds * 1_000) * _NS_PER_MS

    @property
    def end(self) -> int:
        """The end of the last bin, in nanoseconds of the Unix epoch."""
        return self.start + self.width * self.count


def bins(start: int, end: int) -> Bins:
    """Return the narrowest bins from ``start`` that cover everything until ``end``, inclusive."""
    span = max(end - start, 0) + 1
    needed_ms = -(-span // (POINTS_MAX * _NS_PER_MS))
    minutes = -(-needed_ms // _WIDTHS_MS[-1])
    fitting = (width for width in _WIDTHS_MS if width >= needed_ms)
    width = next(fitting, minutes * _WIDTHS_MS[-1]) * _NS_PER_MS
    return Bins(start=start, width=width, count=-(-span // width))


def pairs(counts: Array) -> Pairs:
    """Return the bins that are not 0, with their values."""
    places = np.flatnonzero(counts)
    return list(zip(places.tolist(), counts[places].tolist(), strict=True))


def carried(values: Array, known: Array, before: int) -> Array:
    """Return ``values`` with those that are not ``known`` replaced by the last known one, or by
    ``before``."""
    last = np.maximum.accumulate(np.where(known, np.arange(len(values)), -1))
    filled: Array = np.where(last < 0, before, values[np.maximum(last, 0)])
    return filled


def lanes(spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return a lane for each span, from 0, so that spans of one lane do not overlap. The spans are
    in the order of their starts."""
    ends: list[int] = []
    found = []
    for start, end in spans:
        lane = next((n for n, taken in enumerate(ends) if taken <= start), len(ends))
        ends[lane : lane + 1] = [end]
        found.append(lane)
    return found


def thinned(times: Iterable[int], within: Bins) -> list[list[int]]:
    """Return the places of times, in their order, grouped by bin if there are more times than
    points, and otherwise each by itself."""
    given = np.fromiter(times, dtype=np.int64)
    if len(given) <= POINTS_MAX:
        return [[place] for place in range(len(given))]
    numbered = zip(within.of(given).tolist(), range(len(given)), strict=True)
    return [[place for _, place in group] for _, group in groupby(numbered, lambda one: one[0])]
