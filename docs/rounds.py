"""Compare settings over rounds of a benchmark: in each round every setting was measured once.

What differs from round to round (a busier machine, a warmer cache) is common to all settings of a
round, so two settings are compared by the ratio of their figures within each round. The interval is
Student's t interval of the mean logarithm of these ratios. A finding that rests on several ratios
has intervals that hold together (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, stdev

LEVEL = 0.95
SAME = 1.1
"""Two settings whose ratio lies between this and its inverse count as the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio of two settings.

    Attributes:
        name: The two settings, for example ``acks 0 / acks 1``.
        mean: The geometric mean over all rounds.
        low, high: The interval.
    """

    name: str
    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.name}: {self.mean:.2f} ({self.low:.2f}–{self.high:.2f})"  # noqa: RUF001

    @property
    def verdict_of_more(self) -> str | None:
        """Whether the first setting has more than the second: ``confirmed``, ``refuted`` (it has
        less, or the same), or None where the interval does not decide."""
        if self.low > 1:
            return "confirmed"
        return "refuted" if self.high < 1 or self.verdict_of_same == "confirmed" else None

    @property
    def verdict_of_same(self) -> str | None:
        """Whether the two settings have the same within :data:`SAME`; as above."""
        if self.low >= 1 / SAME and self.high <= SAME:
            return "confirmed"
        return "refuted" if self.low > SAME or self.high < 1 / SAME else None


def ratio(name: str, first: Sequence[float], second: Sequence[float], together: int = 1) -> Ratio:
    """Return the ratio of two settings.

    Args:
        first, second: A figure each round, in the same order; at least two rounds.
        together: The number of ratios whose intervals hold together at :data:`LEVEL`.

    Raises ValueError for fewer than two rounds, or another number of them.
    """
    logs = [log(a / b) for a, b in zip(first, second, strict=True)]
    if len(logs) < 2:
        raise ValueError(f"{name}: one round cannot tell how far rounds differ")
    from scipy.stats import t  # takes a second to import

    within = t.ppf(1 - (1 - LEVEL) / together / 2, len(logs) - 1) * stdev(logs) / sqrt(len(logs))
    middle = fmean(logs)
    return Ratio(name=name, mean=exp(middle), low=exp(middle - within), high=exp(middle + within))


def conclusion(verdicts: Sequence[str | None]) -> str:
    """Return the verdict of a finding that says several things at once: ``confirmed`` when all of
    them are, ``refuted`` when one of them is, else ``undecided``."""
    if "refuted" in verdicts:
        return "refuted"
    return "confirmed" if all(verdict == "confirmed" for verdict in verdicts) else "undecided"
