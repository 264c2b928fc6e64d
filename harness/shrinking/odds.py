"""How often to repeat a campaign before believing that it does not fail.

What fails in one run of three holds in two runs of three: that a smaller campaign held once says
little. If it failed with odds p a run, it would hold n times in a row with (1 - p)^n. So it is
repeated until it fails, and given up when that is less than the doubt one accepts: with p = 1/3
and a doubt of 5 %, after 8 runs; with p = 3/4, after 3. One failure is enough, since a failure is
proof: what is found always did fail. What the doubt leaves is the other mistake, to keep a part
that could have gone: once in twenty candidates that fail as often as the one before, more often
with those that fail more seldom.

p is not known. Of k failures in n runs it is taken to be (k + 1) / (n + 2), Laplace's rule of
succession: with few runs it stays away from 0 and 1. It is estimated of the campaign that one
begins with (run until it failed twice), and is never raised afterwards, only lowered when a smaller
one took longer to fail: that one was chosen because it failed, so its first failures say too much.
"""

import math
from dataclasses import dataclass


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
