"""Statistics: confidence bounds of proportions, and tests whether two samples differ by more than
chance.

Tests are two-sided and assume nothing about the distribution of the counted values. They are exact
up to :data:`EXACT_MAX` ways to distribute the units, and use that many random ways beyond it. The
observations must be independent of each other: faults for a proportion, runs for a comparison, and
never records, because thousands of records share the fate of one run.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import combinations, count, islice
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

DOUBT = 0.05
"""The accepted probability that a bound is wrong, or that a difference is found where there is
none."""

EXACT_MAX = 4_000
"""The most ways to distribute the units that are all evaluated. If there are more, at least so many
are drawn at random."""

_AT_ONCE = 100
_HALVINGS = 60
_ROUNDING = 1e-9

Array = npt.NDArray[np.float64]


def bounds(found: int, of: int, doubt: float = DOUBT) -> tuple[float, float]:
    """Return the bounds of the proportion, with ``doubt`` shared by both ends (Clopper and Pearson,
    1934)."""
    if 2 * found > of:
        low, high = bounds(of - found, of, doubt)
        return 1 - high, 1 - low
    low = 0.0 if not found else _solved(found - 1, of, 1 - doubt / 2)
    return low, _solved(found, of, doubt / 2)


def interval(found: int, of: int) -> str:
    """Return the bounds of the proportion in words, rounded to percents: ``0 to 31 %``."""
    low, high = (100 * end for end in bounds(found, of))
    return f"{low:.0f} to {high:.0f} %"


def bound(found: int, of: int, unit: str = "%") -> str:
    """Return the bounds that ``found`` of ``of`` independent trials give, in words: ``at most 15 %
    (95 % confidence)``, ``0.51 to 40 % (95 % confidence at each end)``.

    ``unit``: ``% of`` something, where that is not clear.

    Each end is wrong with at most the probability :data:`DOUBT` by itself, so that the upper bound
    has the same meaning with and without findings.
    """
    sure = f"{100 * (1 - DOUBT):.0f} % confidence"
    low, high = bounds(found, of, 2 * DOUBT)
    if not found:
        return f"at most {_percent(high, ROUND_CEILING)} {unit} ({sure})"
    ends = f"{_percent(low, ROUND_FLOOR)} to {_percent(high, ROUND_CEILING)} {unit}"
    return f"{ends} ({sure} at each end)"


def trials(proportion: float, doubt: float = DOUBT) -> int:
    """Return the number of trials without a finding that bound the proportion by ``proportion``,
    which is above 0."""
    return int(np.ceil(np.log(doubt) / np.log1p(-proportion)))


def permuted(
    a: Array, b: Array, distance: Callable[[Array, Array], Array], doubt: float = DOUBT
) -> float:
    """Return the probability that two samples are so far apart, or farther, by chance. It is the
    share of ways to distribute their units over two samples that give such a distance. All ways are
    evaluated if they are few.

    Args:
        a, b: One row for each unit. Units are alike, and independent of each other.
        distance: Returns the distances of pairs of samples. Row i of each argument is the sum of
            the units of one sample.
        doubt: The probability below which a difference is noteworthy. It decides how many ways are
            drawn.
    """
    units = np.concatenate([a, b])
    everything = units.sum(axis=0)
    seen = distance(a.sum(axis=0)[np.newaxis], b.sum(axis=0)[np.newaxis])
    nearer = np.abs(seen) * (1 - _ROUNDING)
    as_far = drawn = 0
    for first in _shared_out(len(a), len(units), round(2 / doubt)):
        far = distance(first @ units, everything - first @ units)
        as_far += int(np.count_nonzero(np.abs(far) >= nearer))
        drawn += len(first)
    exact = drawn == comb(len(units), len(a))
    return as_far / drawn if exact else (1 + as_far) / (1 + drawn)


def attainable(a: int, b: int) -> float:
    """Return the smallest probability that :func:`permuted` can return for so many units a side, if
    it evaluates all ways and the distance is symmetric."""
    return (2 if a == b else 1) / comb(a + b, a)


def units_needed(tests: int, doubt: float = DOUBT) -> int:
    """Return the number of units a side with which one of so many tests can find any difference."""
    return next(n for n in count(1) if attainable(n, n) <= doubt / tests)


def _shared_out(of_a: int, units: int, draws: int) -> Iterator[Array]:
    """Yield ways to distribute the units, one row each with 1 for those of the first sample. All
    ways are yielded, or as many as are asked for, drawn at random."""
    if comb(units, of_a) <= EXACT_MAX:
        every = combinations(range(units), of_a)
        while chosen := list(islice(every, _AT_ONCE)):
            ways = np.zeros((len(chosen), units))
            np.put_along_axis(ways, np.array(chosen), 1, axis=1)
            yield ways
        return
    rng = np.random.default_rng(units)  # the same result in every call
    template = np.tile((np.arange(units) < of_a).astype(np.float64), (_AT_ONCE, 1))
    for _ in range(max(draws, EXACT_MAX) // _AT_ONCE):
        yield rng.permuted(template, axis=1)


def ranks(values: Sequence[float]) -> Array:
    """Return the ranks of the values, from 1. Equal values share their mean rank."""
    ordered: Any = np.sort(values)
    first = np.searchsorted(ordered, values, side="left")
    last = np.searchsorted(ordered, values, side="right")
    return np.asarray((first + last + 1) / 2, dtype=np.float64)


def noteworthy(chances: Sequence[float], doubt: float = DOUBT) -> list[bool]:
    """Return which of several tests found a difference, with ``doubt`` for all of them together. Of
    forty tests at one in twenty each, two would find one where there is none (Holm, 1979)."""
    found = [False] * len(chances)
    for place, (chance, number) in enumerate(
        sorted(zip(chances, range(len(chances)), strict=True))
    ):
        if chance > doubt / (len(chances) - place):
            break
        found[number] = True
    return found


def _solved(found: int, of: int, chance: float) -> float:
    """Return the proportion with which at most ``found`` of ``of`` are found with the probability
    ``chance``."""
    number = np.arange(1, found + 1)
    ways = np.concatenate([[0.0], np.cumsum(np.log((of - number + 1) / number))])
    number = np.arange(found + 1)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        logs = ways + number * np.log(middle) + (of - number) * np.log1p(-middle)
        if np.exp(logs).sum() > chance:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _percent(proportion: float, rounding: str) -> str:
    """Return a proportion in percent with two significant digits, rounded in the given
    direction."""
    value = Decimal(100 * proportion)
    if not value:
        return "0"
    digit = Decimal(1).scaleb(value.adjusted() - 1)
    return f"{value.quantize(digit, rounding).normalize():f}"
