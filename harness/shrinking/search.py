"""The search for the smallest campaign that fails. It is a pure function of the judge's answers.

It applies delta debugging (Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing
Input*) to the faults, then reduces everything else, one thing at a time, and repeats all of that
until nothing can be removed. Each candidate is run as often as its probability of failure requires.

With the same answers, the search asks the same questions in the same order. An interrupted search
is continued by answering from the journal.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

# --- repetitions ----------------------------------------------------------------------------------
#
# A campaign that fails in one run of three passes in two runs of three. One pass of a smaller
# campaign therefore says little. If it failed with probability p in each run, it would pass n times
# in a row with (1 - p)^n. So it is repeated until it fails, and given up when that value is below
# the accepted doubt: with p = 1/3 and a doubt of 5 %, after 8 runs; with p = 3/4, after 3. One
# failure is enough, since a failure is proof: each candidate that is kept did fail. The doubt
# concerns the other mistake, keeping a part that could have been removed. This happens once in
# twenty candidates that fail as often as the one before, and more often with candidates that fail
# less often.
#
# p is unknown. With k failures in n runs it is estimated as (k + 1) / (n + 2), by Laplace's rule of
# succession: with few runs the estimate stays away from 0 and 1. It is made for the first campaign
# (run until it failed twice). It is never raised afterwards, and only lowered when a smaller
# campaign took longer to fail. That campaign was chosen because it failed, so its first failures
# say too much.


@dataclass(frozen=True, slots=True)
class RunCounts:
    """The number of runs, and of those that failed."""

    failed: int = 0
    runs: int = 0

    def and_one(self, failed: bool) -> "RunCounts":
        return RunCounts(self.failed + failed, self.runs + 1)

    @property
    def odds(self) -> float:
        """Return the probability of a failure in a run, by the rule of succession. It is never 0
        and never 1."""
        return (self.failed + 1) / (self.runs + 2)

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs}"


def repeats(odds: float, doubt: float, at_most: int) -> int:
    """Return the number of passing runs that show, except with the probability ``doubt``, that a
    campaign does not fail with these ``odds``. It is the least n with (1 - odds)^n <= doubt, at
    least 1 and at most ``at_most``."""
    wanted = math.ceil(math.log(doubt) / math.log(1 - odds))
    return max(1, min(at_most, wanted))


# --- the search -----------------------------------------------------------------------------------

C = TypeVar("C", bound=Hashable)
T = TypeVar("T")

FIRST_RUNS_MAX = 20
"""The most runs of the first campaign. If it does not fail again in so many, the search is given
up."""

FIRST_FAILURES = 2
"""The number of failures with which the odds are known well enough to begin."""


class FailureNotReproduced(Exception):
    """A failure that does not occur again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction(Generic[C]):
    """One way for a candidate to become smaller.

    Attributes:
        name: The name of what becomes less.
        parts: Returns the removable parts of a candidate. As many as possible are left out
            together.
        with_parts: Returns the candidate with only these of its parts, or None if it is invalid.
        less: Returns candidates with a little less, the smallest first.
    """

    name: str
    parts: Callable[[C], Sequence[object]] = lambda _candidate: ()
    with_parts: Callable[[C, Sequence[object]], C | None] = lambda _candidate, _parts: None
    less: Callable[[C], Iterable[C]] = lambda _candidate: ()


@dataclass(slots=True)
class Search(Generic[C]):
    """One search.

    Attributes:
        fails: Runs a candidate once, and returns whether it failed in the same way. An exception
            ends the search.
        ways: The ways in the order in which they are tried.
        report: Receives, after each run, the candidate, how often it failed, and whether it is the
            smallest so far.
        doubt: The probability of giving up a candidate that fails as often as the one before.
        repeats_max: The most runs of one candidate.
    """

    fails: Callable[[C], bool]
    ways: Sequence[Reduction[C]]
    report: Callable[[C, RunCounts, bool], None]
    doubt: float = 0.05
    repeats_max: int = 30
    tallies: dict[C, RunCounts] = field(default_factory=dict)
    best: C | None = None
    _odds: float = 1.0

    def shrink(self, start: C) -> C:
        """Return the smallest campaign found. Raises NotAgain if ``start`` does not fail."""
        self._begin(start)
        self.best = start
        before = None
        while before != self.best:
            before = self.best
            for way in self.ways:
                self._fewer(way)
                self._less(way)
        return self.best

    def confirm(self, runs: int) -> RunCounts:
        """Run the smallest campaign so many times more, and return how often it failed in all."""
        best = self._smallest()
        for _ in range(runs):
            self._run(best)
        return self.tallies[best]

    def _begin(self, start: C) -> None:
        while self.tallies.get(start, RunCounts()).runs < FIRST_RUNS_MAX:
            self._run(start)
            if self.tallies[start].failed == FIRST_FAILURES:
                break
        if not self.tallies[start].failed:
            raise FailureNotReproduced(f"it did not fail again in {FIRST_RUNS_MAX} runs")
        self._odds = self.tallies[start].odds

    def _run(self, candidate: C) -> bool:
        failed = self.fails(candidate)
        tally = self.tallies.get(candidate, RunCounts()).and_one(failed)
        self.tallies[candidate] = tally
        self.report(candidate, tally, failed and candidate != self.best)
        return failed

    def _try(self, candidate: C | None) -> bool:
        """Return whether a candidate fails. If so, it is the smallest so far."""
        if candidate is None:
            return False
        wanted = repeats(self._odds, self.doubt, self.repeats_max)
        while self.tallies.get(candidate, RunCounts()).runs < wanted:
            if self._run(candidate):
                self.best = candidate
                self._odds = min(self._odds, self.tallies[candidate].odds)
                return True
        return False

    def _fewer(self, way: Reduction[C]) -> None:
        """Remove parts by ddmin: all of them, then halves, then ever smaller pieces."""
        best = self._smallest()
        if way.parts(best) and self._try(way.with_parts(best, ())):
            return
        number = 2
        while len(parts := way.parts(best := self._smallest())) >= 2:
            number = min(number, len(parts))
            if any(self._try(way.with_parts(best, rest)) for rest in _smaller(parts, number)):
                number = max(2, number - 1)
            elif number == len(parts):
                return
            else:
                number = min(len(parts), 2 * number)

    def _less(self, way: Reduction[C]) -> None:
        """Reduce the smallest candidate, and begin again whenever a reduction succeeds."""
        while any(map(self._try, way.less(self._smallest()))):
            pass

    def _smallest(self) -> C:
        assert self.best is not None
        return self.best


def _smaller(parts: Sequence[T], number: int) -> Iterator[Sequence[T]]:
    """Yield each of ``number`` pieces of ``parts`` alone, then everything but each piece."""
    bounds = [len(parts) * n // number for n in range(number + 1)]
    pieces = [(bounds[n], bounds[n + 1]) for n in range(number)]
    if number > 2:  # with two pieces, each alone is everything but the other
        yield from (parts[low:high] for low, high in pieces)
    yield from ([*parts[:low], *parts[high:]] for low, high in pieces)
