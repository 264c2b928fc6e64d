"""What chance may do: bounds of proportions, and whether two samples differ by more than that.

Exact tests alone, that assume nothing of how what is counted is spread, and little enough data that
they can be afforded. All are two-sided. What they are given must be independent of each other:
faults for a proportion, runs for a comparison, and never records.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import combinations, count, islice
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

DOUBT = 0.05
"""How likely a bound may be wrong, or a difference be seen where there is none."""

EXACT_MAX = 4_000
"""Ways to share units out that are gone through one by one; of more, so many are drawn at least."""

_AT_ONCE = 100
_HALVINGS = 60
_ROUNDING = 1e-9

Array = npt.NDArray[np.float64]


def below(of: int, doubt: float = DOUBT) -> float:
    """The proportion that is not exceeded where none of ``of`` were found: one more likely than
    that would show itself in so many tries, but for ``doubt``."""
    return float(-np.expm1(np.log(doubt) / of))


def bounds(found: int, of: int, doubt: float = DOUBT) -> tuple[float, float]:
    """Between what the proportion is, with ``doubt`` shared by both ends (Clopper and Pearson,
    1934)."""
    if 2 * found > of:
        low, high = bounds(of - found, of, doubt)
        return 1 - high, 1 - low
    low = 0.0 if not found else _solved(found - 1, of, 1 - doubt / 2)
    return low, _solved(found, of, doubt / 2)


def bound(found: int, of: int) -> str:
    """Return what ``found`` of ``of`` independent trials say of each: ``at most 15 % each at
    95 %``, ``0.25 to 45 % each at 95 %``."""
    sure = f"% each at {100 * (1 - DOUBT):.0f} %"
    if not found:
        return f"at most {_percent(below(of), ROUND_CEILING)} {sure}"
    low, high = bounds(found, of)
    return f"{_percent(low, ROUND_FLOOR)} to {_percent(high, ROUND_CEILING)} {sure}"


def trials(proportion: float, doubt: float = DOUBT) -> int:
    """Return how many trials, none of which finds anything, bound the proportion by so much."""
    return int(np.ceil(np.log(doubt) / np.log1p(-proportion)))


def permuted(
    a: Array, b: Array, distance: Callable[[Array, Array], Array], doubt: float = DOUBT
) -> float:
    """Return how likely two samples are so far from each other or farther by chance: how often they
    are when their units are shared out anew, in every way where there are few of them.

    Args:
        a, b: A row each unit; units are alike, and independent of each other.
        distance: Of two sets of samples, each as the sums of their units' rows, a row a sample.
        doubt: How unlikely it must be to be noteworthy, which takes so many ways to be drawn.
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
    """Return the least that :func:`permuted` can say of so many units a side."""
    return (2 if a == b else 1) / comb(a + b, a)


def units_needed(tests: int, doubt: float = DOUBT) -> int:
    """Return how many units a side it takes for one of so many tests to see any difference."""
    return next(n for n in count(1) if attainable(n, n) <= doubt / tests)


def _shared_out(of_a: int, units: int, draws: int) -> Iterator[Array]:
    """Ways to share units out, a row each with 1 for those of the first sample; all there are,
    or as many as are asked for, that are drawn."""
    if comb(units, of_a) <= EXACT_MAX:
        every = combinations(range(units), of_a)
        while chosen := list(islice(every, _AT_ONCE)):
            ways = np.zeros((len(chosen), units))
            np.put_along_axis(ways, np.array(chosen), 1, axis=1)
            yield ways
        return
    rng = np.random.default_rng(units)  # the same answer whenever it is asked
    template = np.tile((np.arange(units) < of_a).astype(np.float64), (_AT_ONCE, 1))
    for _ in range(max(draws, EXACT_MAX) // _AT_ONCE):
        yield rng.permuted(template, axis=1)


def ranks(values: Sequence[float]) -> Array:
    """From 1; those that are equal share theirs."""
    ordered: Any = np.sort(values)
    first = np.searchsorted(ordered, values, side="left")
    last = np.searchsorted(ordered, values, side="right")
    return np.asarray((first + last + 1) / 2, dtype=np.float64)


def noteworthy(chances: Sequence[float], doubt: float = DOUBT) -> list[bool]:
    """Which of several tests saw a difference, with ``doubt`` for all of them together: of forty
    tests at one in twenty each, two would see one where there is none (Holm, 1979)."""
    told = [False] * len(chances)
    for place, (chance, number) in enumerate(
        sorted(zip(chances, range(len(chances)), strict=True))
    ):
        if chance > doubt / (len(chances) - place):
            break
        told[number] = True
    return told


def _solved(found: int, of: int, chance: float) -> float:
    """The proportion of which at most ``found`` of ``of`` are found with that ``chance``."""
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
    """Two digits of it, rounded away from what it bounds."""
    value = Decimal(100 * proportion)
    if not value:
        return "0"
    digit = Decimal(1).scaleb(value.adjusted() - 1)
    return f"{value.quantize(digit, rounding).normalize():f}"
