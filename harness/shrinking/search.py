"""The search for the smallest campaign that fails: pure, whoever judges.

Delta debugging (Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*) over
the faults, then whatever else can be less, one thing at a time, and all of that again until nothing
goes. Each candidate is run as often as the odds ask for (:mod:`harness.shrinking.search`).

Told twice with the same answers it asks the same questions in the same order: a search that was
interrupted is taken up by answering from what is known.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

# --- repetitions ----------------------------------------------------------------------------------
#
# What fails in one run of three holds in two runs of three: that a smaller campaign held once says
# little. If it failed with odds p a run, it would hold n times in a row with (1 - p)^n. So it is
# repeated until it fails, and given up when that is less than the doubt one accepts: with p = 1/3
# and a doubt of 5 %, after 8 runs; with p = 3/4, after 3. One failure is enough, since a failure is
# proof: what is found always did fail. What the doubt leaves is the other mistake, to keep a part
# that could have gone: once in twenty candidates that fail as often as the one before, more often
# with those that fail more seldom.
#
# p is not known. Of k failures in n runs it is taken to be (k + 1) / (n + 2), Laplace's rule of
# succession: with few runs it stays away from 0 and 1. It is estimated of the campaign that one
# begins with (run until it failed twice), and is never raised afterwards, only lowered when a
# smaller one took longer to fail: that one was chosen because it failed, so its first failures say
# too much.


@dataclass(frozen=True, slots=True)
class Tally:
    """So many of so many runs failed."""

    failed: int = 0
    runs: int = 0

    def and_one(self, failed: bool) -> "Tally":
        return Tally(self.failed + failed, self.runs + 1)

    @property
    def odds(self) -> float:
        """The odds of a failure a run, by the rule of succession; never 0, never 1."""
        return (self.failed + 1) / (self.runs + 2)

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs}"


def repeats(odds: float, doubt: float, at_most: int) -> int:
    """How many runs that hold make it believable, but for ``doubt``, that a campaign does not fail
    with these ``odds``: the least n with (1 - odds)^n <= doubt; 1 at least, ``at_most`` at most."""
    wanted = math.ceil(math.log(doubt) / math.log(1 - odds))
    return max(1, min(at_most, wanted))


# --- the search -----------------------------------------------------------------------------------

C = TypeVar("C", bound=Hashable)
T = TypeVar("T")

FIRST_RUNS_MAX = 20
"""Of the campaign that one begins with: one that does not fail again in as many is given up."""

FIRST_FAILURES = 2
"""With them, the odds are known well enough to begin."""


class NotAgain(Exception):
    """What failed once does not fail again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way(Generic[C]):
    """One way for a candidate to become smaller.

    Attributes:
        name: What becomes less.
        parts: What of a candidate may go, of which as much as can be is left out together.
        with_parts: The candidate with these of its parts alone; None where there is none such.
        less: Candidates with a little less, the smallest first.
    """

    name: str
    parts: Callable[[C], Sequence[object]] = lambda _candidate: ()
    with_parts: Callable[[C, Sequence[object]], C | None] = lambda _candidate, _parts: None
    less: Callable[[C], Iterable[C]] = lambda _candidate: ()


@dataclass(slots=True)
class Search(Generic[C]):
    """One search.

    Attributes:
        fails: Runs a candidate once; whether it failed likewise. May raise, which ends the search.
        ways: In the order in which they are tried.
        told: Is told after each run: the candidate, how often it failed, and whether it is the
            smallest so far.
        doubt: How likely a candidate may be given up that fails as often as the one before.
        repeats_max: Of one candidate.
    """

    fails: Callable[[C], bool]
    ways: Sequence[Way[C]]
    told: Callable[[C, Tally, bool], None]
    doubt: float = 0.05
    repeats_max: int = 30
    tallies: dict[C, Tally] = field(default_factory=dict)
    best: C | None = None
    _odds: float = 1.0

    def shrink(self, start: C) -> C:
        """The smallest found. Raises NotAgain when ``start`` does not fail."""
        self._begin(start)
        self.best = start
        before = None
        while before != self.best:
            before = self.best
            for way in self.ways:
                self._fewer(way)
                self._less(way)
        return self.best

    def confirm(self, runs: int) -> Tally:
        """Run the smallest so many times more; how often it failed in all."""
        best = self._smallest()
        for _ in range(runs):
            self._run(best)
        return self.tallies[best]

    def _begin(self, start: C) -> None:
        while self.tallies.get(start, Tally()).runs < FIRST_RUNS_MAX:
            self._run(start)
            if self.tallies[start].failed == FIRST_FAILURES:
                break
        if not self.tallies[start].failed:
            raise NotAgain(f"it did not fail again in {FIRST_RUNS_MAX} runs")
        self._odds = self.tallies[start].odds

    def _run(self, candidate: C) -> bool:
        failed = self.fails(candidate)
        tally = self.tallies.get(candidate, Tally()).and_one(failed)
        self.tallies[candidate] = tally
        self.told(candidate, tally, failed and candidate != self.best)
        return failed

    def _try(self, candidate: C | None) -> bool:
        """Whether it fails; the smallest so far, if so."""
        if candidate is None:
            return False
        wanted = repeats(self._odds, self.doubt, self.repeats_max)
        while self.tallies.get(candidate, Tally()).runs < wanted:
            if self._run(candidate):
                self.best = candidate
                self._odds = min(self._odds, self.tallies[candidate].odds)
                return True
        return False

    def _fewer(self, way: Way[C]) -> None:
        """ddmin: without all, without halves, then without ever smaller parts."""
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

    def _less(self, way: Way[C]) -> None:
        """Begins anew with what is left whenever something went."""
        while any(map(self._try, way.less(self._smallest()))):
            pass

    def _smallest(self) -> C:
        assert self.best is not None
        return self.best


def _smaller(parts: Sequence[T], number: int) -> Iterator[Sequence[T]]:
    """Of ``parts`` cut into ``number`` pieces: each piece alone, then all but each."""
    bounds = [len(parts) * n // number for n in range(number + 1)]
    pieces = [(bounds[n], bounds[n + 1]) for n in range(number)]
    if number > 2:  # of two, each piece alone is all but the other
        yield from (parts[low:high] for low, high in pieces)
    yield from ([*parts[:low], *parts[high:]] for low, high in pieces)
