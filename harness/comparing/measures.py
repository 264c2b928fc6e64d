"""The measures of a cell on both sides, each with a test or the reason why there is none.

A test distributes the runs over both sides in other ways. The run is the unit for every measure,
because only runs are alike and independent. A fault affects all partitions of a cluster at once,
one slow send delays those after it, and the machine or the hour makes a whole run slower than
another. The required improbability of a difference depends on the number of tests, which
:mod:`harness.comparing.differences` knows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np

from ackproof.checkers.verdict import WORST_FIRST, Verdict
from ackproof.harness.comparing.sides import Array, PooledCell, Sends
from ackproof.harness.report import chance
from ackproof.harness.report.cell_document import CellDocument, UnavailabilityDocument
from ackproof.harness.report.rows import UNKNOWN, number

PERCENTILES = (50, 95, 99)

Distance = Callable[[Array, Array], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The runs of both sides, one row each, for a test. ``distance`` is the distance of two sets of
    samples, each given as the sums of their runs' rows."""

    a: Array
    b: Array
    distance: Distance

    @property
    def counts(self) -> tuple[int, int]:
        """Return the number of runs of each side."""
        return len(self.a), len(self.b)

    def chance(self, doubt: float = chance.DOUBT) -> float:
        """Return the probability that the sides differ so much or more by chance. ``doubt`` is the
        probability below which that is noteworthy."""
        return chance.permuted(self.a, self.b, self.distance, doubt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of a cell.

    Attributes:
        a, b: Both sides in words.
        value_a, value_b: Both sides as numbers; None if unknown.
        runs: The rows to test; None without a test.
        why: The reason why there is none.
        change: The difference in words, which counts if it is more than chance.
        worse: Whether B is worse than A, which counts if it is more than chance.
    """

    name: str
    a: str
    b: str
    value_a: float | str | None
    value_b: float | str | None
    runs: Runs | None = None
    why: str = ""
    change: str = ""
    worse: bool = False


def measures(a: PooledCell, b: PooledCell) -> Iterator[Measure]:
    """Yield all measures of a cell that both sides have."""
    yield _verdict(a, b)
    yield _proportion("lost", "acked", a, b)
    yield _proportion("duplicated", "sent", a, b)
    yield from _latencies(a, b)
    yield _away("unavailable, longest", _longest_ms, max, _milliseconds, (a, b))
    yield _away("unavailable, share", _share_away, mean, _percent, (a, b))
    yield _throughput(a, b)


def _verdict(a: PooledCell, b: PooledCell) -> Measure:
    found = [side.verdict for side in (a, b)]
    change = ""
    if a.verdict is not b.verdict:
        worse = WORST_FIRST.index(b.verdict) < WORST_FIRST.index(a.verdict)
        # A guarantee that only one of them gives makes neither better nor worse.
        change = "changed" if Verdict.NOT_GUARANTEED in found else "worse" if worse else "better"
    return Measure(
        name="verdict",
        a=a.verdict.value,
        b=b.verdict.value,
        value_a=a.verdict.value,
        value_b=b.verdict.value,
        change=change,
        worse=change == "worse",
    )


def _proportion(what: str, of: str, a: PooledCell, b: PooledCell) -> Measure:
    """Return the counts of records, with the faults that could have cost them. The test is of the
    share in each run."""
    counts = [(side.total(_of(what)), side.total(_of(of))) for side in (a, b)]
    (value_a, of_a), (value_b, of_b) = counts
    known = None not in (value_a, value_b, of_a, of_b)
    shares = [[_share(run, what, of) for run in side.runs] for side in (a, b)]
    more = (value_b or 0) * (of_a or 1) > (value_a or 0) * (of_b or 1)
    return Measure(
        name=what,
        a=_counted(a, what, *counts[0]),
        b=_counted(b, what, *counts[1]),
        value_a=value_a,
        value_b=value_b,
        runs=_of_runs(shares) if known else None,
        why="" if known else _NOT_KNOWN,
        change="more" if more else "fewer",
        worse=more,
    )


_NOT_KNOWN = "not known on both sides"


def _of(name: str) -> Callable[[CellDocument], int | None]:
    def read(cell: CellDocument) -> int | None:
        count: int | None = getattr(cell, name)
        return count

    return read


def _share(run: CellDocument, what: str, of: str) -> float:
    return float(getattr(run, what) or 0) / max(getattr(run, of) or 0, 1)


def _counted(side: PooledCell, what: str, found: int | None, among: int | None) -> str:
    if found is None or among is None:
        return UNKNOWN
    # With few acked records, for example, 12 duplicates among 10 records are not 12 of 10.
    count = f"{found:,} of {among:,}" if found <= among else number(found)
    faults = side.faults() if what == "lost" else None
    if faults is None:
        return count
    struck, of = faults
    return (
        f"{count}; {struck} of {of} faults, {chance.bound(struck, of)}"
        if of
        else f"{count}; no fault"
    )


def _of_runs(values: Sequence[Sequence[float]]) -> Runs:
    """Return a test with one number for each run: the difference of the means."""
    first, second = (np.array(side, dtype=np.float64)[:, np.newaxis] for side in values)
    return Runs(a=first, b=second, distance=_means(len(first), len(second)))


def _means(first: int, second: int) -> Distance:
    def distance(one: Array, other: Array) -> Array:
        difference: Array = one[:, 0] / first - other[:, 0] / second
        return difference

    return distance


def _latencies(a: PooledCell, b: PooledCell) -> Iterator[Measure]:
    known = bool(a.sends and b.sends)
    rows = [np.array([_rates(one) for one in side.sends]) for side in (a, b)]
    for percent in PERCENTILES:

        def distance(first: Array, second: Array, percent: int = percent) -> Array:
            return _bin_of(first, percent) - _bin_of(second, percent)

        runs = Runs(a=rows[0], b=rows[1], distance=distance) if known else None
        values = [_percentile(side, percent) for side in (a, b)]
        yield _number(f"ack, {percent} % within", values, _milliseconds, runs)


def _rates(one: Sends) -> Array:
    """Return the distribution of the waits, as shares, so that a longer run does not count more."""
    rates: Array = one.waits / max(float(one.waits.sum()), 1.0)
    return rates


def _percentile(side: PooledCell, percent: int) -> float | None:
    if not side.sends:
        return None
    return float(np.percentile(np.concatenate([one.waited_ms for one in side.sends]), percent))


def _bin_of(counts: Array, percent: int) -> Array:
    """Return the bin of the percentile in each row."""
    running = counts.cumsum(axis=1)
    found: Array = (running < running[:, -1:] * percent / 100).sum(axis=1).astype(np.float64)
    return found


def _throughput(a: PooledCell, b: PooledCell) -> Measure:
    rates = [[len(one.waited_ms) / max(one.lasted_s, _MOMENT_S) for one in s.sends] for s in (a, b)]
    known = bool(a.sends and b.sends)
    values = [_acks_a_second(side) for side in (a, b)]
    runs = _of_runs(rates) if known else None
    return _number("acks per second", values, lambda one: f"{one:,.1f}", runs, least_is_worst=True)


_MOMENT_S = 1e-9


def _acks_a_second(side: PooledCell) -> float | None:
    lasted_s = sum(one.lasted_s for one in side.sends)
    return sum(len(one.waited_ms) for one in side.sends) / lasted_s if lasted_s else None


def _away(
    name: str,
    figure: Callable[[UnavailabilityDocument], float | None],
    combine: Callable[[Sequence[float]], float],
    words: Callable[[float], str],
    both: tuple[PooledCell, PooledCell],
) -> Measure:
    sides = [
        [None if cell.unavailable is None else figure(cell.unavailable) for cell in side.runs]
        for side in both
    ]
    known = [[one for one in side if one is not None] for side in sides]
    if any(len(some) < len(all_) for some, all_ in zip(known, sides, strict=True)):
        return _number(name, [None, None], words, None)
    values = [float(combine(side)) for side in known]
    ranks = chance.ranks([one for side in known for one in side]).tolist()
    return _number(name, values, words, _of_runs([ranks[: len(known[0])], ranks[len(known[0]) :]]))


def _longest_ms(of: UnavailabilityDocument) -> float:
    return of.longest_ms


def _share_away(of: UnavailabilityDocument) -> float | None:
    """Return the unavailable share of partition-seconds, or None for a result that lacks the
    total."""
    if not of.total_ms:
        return 0.0
    return of.total_ms / of.traffic_ms if of.traffic_ms else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _number(
    name: str,
    values: Sequence[float | None],
    words: Callable[[float], str],
    runs: Runs | None,
    *,
    least_is_worst: bool = False,
) -> Measure:
    a, b = values
    return Measure(
        name=name,
        a=UNKNOWN if a is None else words(a),
        b=UNKNOWN if b is None else words(b),
        value_a=a,
        value_b=b,
        runs=runs,
        why="" if runs else _NOT_KNOWN,
        change="" if not a or b is None else f"{100 * (b - a) / a:+.0f} %",
        worse=a is not None and b is not None and (b < a if least_is_worst else b > a),
    )


def _milliseconds(value: float) -> str:
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.3g} ms"
