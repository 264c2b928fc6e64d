"""What chance may do: bounds of proportions, and whether two samples differ by more than that.

Exact tests alone, that assume nothing of how what is counted is spread, and little enough data that
they can be afforded. All are two-sided.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

DOUBT = 0.05
"""How likely a bound may be wrong, or a difference be seen where there is none."""

PERMUTATIONS = 2000
_AT_ONCE = 100
_HALVINGS = 60

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


def share(found: int, of: int) -> str:
    """``0 of 28,000, below 0.011 % at 95 %``, ``3 of 28,000 (0.0022 to 0.032 %)``."""
    told = f"{found:,} of {of:,}"
    if not of:
        return told
    if not found:
        return f"{told}, {at_most(of)}"
    low, high = bounds(found, of)
    return f"{told} ({_percent(low, ROUND_FLOOR)} to {_percent(high, ROUND_CEILING)} %)"


def at_most(of: int) -> str:
    """What none of ``of`` leaves open: ``below 0.011 % at 95 %``."""
    return f"below {_percent(below(of), ROUND_CEILING)} % at {100 * (1 - DOUBT):.0f} %"


def fisher(found_a: int, of_a: int, found_b: int, of_b: int) -> float:
    """How likely two proportions differ so much or more by chance (Fisher's exact test)."""
    found = found_a + found_b
    ways = [
        comb(of_a, in_a) * comb(of_b, found - in_a)
        for in_a in range(max(0, found - of_b), min(of_a, found) + 1)
    ]
    seen = comb(of_a, found_a) * comb(of_b, found_b)
    return sum(way for way in ways if way <= seen) / sum(ways)


def permuted(a: Array, b: Array, distance: Callable[[Array, Array], Array]) -> float:
    """How likely two samples are so far from each other or farther by chance: as often as they are
    when what is of which is drawn anew.

    Args:
        a, b: A row each unit; units are alike, and independent of each other.
        distance: Of two sets of samples, each as the sums of their units' rows, a row a sample.
    """
    units = np.concatenate([a, b])
    everything = units.sum(axis=0)
    rng = np.random.default_rng(len(units))  # the same answer whenever it is asked
    of_a = np.tile(np.arange(len(units)) < len(a), (_AT_ONCE, 1))
    # Some at a time: of a day in blocks of seconds, all of them are half a gigabyte.
    first = np.concatenate(
        [rng.permuted(of_a, axis=1) @ units for _ in range(PERMUTATIONS // _AT_ONCE)]
    )
    far = distance(first, everything - first)
    seen = distance(a.sum(axis=0)[np.newaxis], b.sum(axis=0)[np.newaxis])
    as_far = int(np.count_nonzero(np.abs(far) >= np.abs(seen) - 1e-9))
    return (1 + as_far) / (1 + PERMUTATIONS)


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
