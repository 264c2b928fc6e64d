"""The odds that a campaign fails as it was and with each change, and whether they differ by more
than chance.

A run is one trial, whatever number of records it lost. Runs that are inconclusive are no trials.
Runs of the same cell count for each of its guarantees.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.harness.counterfactuals.failures import failed
from ackproof.harness.report import chance
from ackproof.harness.subprocesses import CachedRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """The runs of a variant.

    Attributes:
        failed: The number of runs that lost records, or broke the examined guarantee otherwise.
        runs: The number of conclusive runs, with those.
        inconclusive: The number of inconclusive runs, which are not counted.
        p99_ms: The median over the runs of the time within which 99 % of the acks came, in
            milliseconds; None if it is unknown.
        chance: The probability of a difference as large as that from the campaign as it was by
            chance alone; None if it was not tested.
        differs: Whether the difference is more than chance, with all changes together; None
            without a test.
        rank: 1 for the best changes. A change has a higher rank than another only if its interval
            is wholly above. None for a change that is not shown to fail less.
    """

    name: str
    failed: int
    runs: int
    inconclusive: int
    p99_ms: float | None = None
    chance: float | None = None
    differs: bool | None = None
    rank: int | None = None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return the 95 % interval of the probability of a failure (Clopper and Pearson), or None
        without a conclusive run."""
        return chance.bounds(self.failed, self.runs) if self.runs else None


def odds(name: str, runs: Sequence[CachedRun], guarantee: str = NO_LOSS) -> Odds:
    """Return the odds of a variant. Runs without a verdict are left out. Raises DamagedResults."""
    results = [result for one in runs if (result := one.result) is not None]
    outcomes = Counter(failed(one, guarantee) for one in results)
    waits = [
        cell.ack_latency.p99_ms
        for one in results
        for cell in one.cells
        if cell.ack_latency is not None and cell.ack_latency.p99_ms is not None
    ]
    return Odds(
        name=name,
        failed=outcomes[True],
        runs=outcomes[True] + outcomes[False],
        inconclusive=outcomes[None],
        p99_ms=median(waits) if waits else None,
    )


def shared_doubt(looks: int) -> float:
    """Return the accepted probability that one of so many answers finds an effect of nothing.

    Runs that are added because an answer was not sure enough give chance another try. With tests
    at one in twenty after 6, 12 and 24 runs, about one question in ten finds an effect of nothing.
    """
    return chance.DOUBT / max(looks, 1)


def compared(base: Odds, changes: Sequence[Odds], doubt: float = chance.DOUBT) -> list[Odds]:
    """Return the changes with their tests against the campaign as it was, the best first.

    Those that are shown to fail less come first, in the order of their ranks. The others stay in
    their order. There is no test if so few runs could not show any difference. ``doubt`` is the
    accepted probability that any of the tests finds a difference where there is none.
    """
    testable, threshold = _testable(base, changes, doubt)
    tests = {one.name: _chance(base, one, threshold) for one in testable}
    noted = dict(zip(tests, chance.noteworthy(list(tests.values()), doubt), strict=True))
    tested = [
        replace(one, chance=tests.get(one.name), differs=noted.get(one.name)) for one in changes
    ]
    better = [one for one in tested if one.differs and _share(one) < _share(base)]
    ranked = [
        replace(one, rank=1 + sum(_is_below(other, one) for other in better)) for one in better
    ]
    ranked.sort(key=lambda one: (one.rank, _share(one)))
    shown = {one.name for one in ranked}
    return [*ranked, *(one for one in tested if one.name not in shown)]


def _testable(base: Odds, changes: Sequence[Odds], doubt: float) -> tuple[Sequence[Odds], float]:
    """Return the changes with enough runs for a test, and the probability that each test must
    reach. Changes that could not reach it, whatever their runs had shown, do not count among the
    tests (Tarone, 1990).

    A change that failed counts with as many runs as the campaign as it was: it may have fewer
    because it failed (:func:`hopeless`). Without that, six changes given up after two losses
    each would leave one test, and luck of the seventh would pass for an effect.
    """
    runs = [(one, max(one.runs, base.runs) if one.failed else one.runs) for one in changes]
    least = [(chance.attainable(base.runs, of), one) for one, of in runs if of and base.runs]
    for many in range(1, len(least) + 1):
        threshold = doubt / many
        able = [one for reached, one in least if reached <= threshold]
        if len(able) <= many:
            return able, threshold
    return [], doubt


def hopeless(base: Odds, one: Odds, runs: int, doubt: float = chance.DOUBT) -> bool:
    """Return whether a change that failed cannot be shown to fail less with so many runs, even if
    it held in its further runs, and the campaign as it was failed in all of its own."""
    if not one.failed:
        return False
    most, least = max(runs, base.runs), max(runs, one.runs)
    at_best = replace(base, failed=base.failed + most - base.runs, runs=most)
    return _chance(at_best, replace(one, runs=least), doubt) > doubt


def settled(base: Odds, one: Odds, runs: int, doubt: float = chance.DOUBT) -> bool:
    """Return whether a change has so many runs, or more of them could not show that it helps."""
    return one.runs >= runs or hopeless(base, one, runs, doubt)


def runs_needed(changes: int, doubt: float = chance.DOUBT) -> int:
    """Return the number of runs of each variant with which any of so many changes could be shown to
    matter."""
    return chance.units_needed(max(changes, 1), doubt)


def _share(one: Odds) -> float:
    return one.failed / one.runs


def _is_below(one: Odds, other: Odds) -> bool:
    low, high = one.interval, other.interval
    return low is not None and high is not None and low[1] < high[0]


def _chance(base: Odds, one: Odds, threshold: float) -> float:
    def distance(first: chance.Array, second: chance.Array) -> chance.Array:
        return np.asarray(first[:, 0] / base.runs - second[:, 0] / one.runs)

    return chance.permuted(_trials(base), _trials(one), distance, threshold)


def _trials(one: Odds) -> chance.Array:
    return np.array([[1.0]] * one.failed + [[0.0]] * (one.runs - one.failed))
