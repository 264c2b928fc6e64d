"""When records are due: at a rate, whatever became of those before, or flat out.

At a rate, record n is due n intervals after the beginning, and that does not move: a record that is
sent late is late by what it waited, and who measures latency from when it was due leaves nothing
out (coordinated omission: were it measured from when it was sent, the stall of one record would be
told once, and not of all those that were due meanwhile).
"""

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

BACKLOG_SECONDS = 1.0
"""How much of the schedule a producer that waits for no ack catches up after a stall; what is older
is let go."""


class Pace(Protocol):
    """Times are seconds of a clock that only goes forward."""

    def due(self, now: float, /) -> float:
        """How many records are due by now, and not taken."""

    def take(self, many: int, /) -> NDArray[np.float64] | None:
        """So many of them: when each was due, None where there is no schedule."""

    def seconds_to_next(self, now: float, /) -> float:
        """How long it is until one is due; 0 where one is."""


class Pacer:
    """``rate`` records a second, the first of them one interval after ``now``.

    Args:
        backlog_s: How late a record may be taken; those that are later are let go, but for the
            last of them.
    """

    def __init__(self, rate: float, now: float, backlog_s: float = BACKLOG_SECONDS) -> None:
        self._rate = rate
        self._start = now
        self._backlog = max(1.0, rate * backlog_s)
        self._number = 0

    def due(self, now: float) -> int:
        behind = math.floor((now - self._start) * self._rate - self._number)
        if behind <= self._backlog:
            return max(0, behind)
        kept = math.floor(self._backlog)
        self._number += behind - kept
        return kept

    def take(self, many: int) -> NDArray[np.float64]:
        first = self._number + 1
        self._number += many
        return self._start + np.arange(first, first + many) / self._rate

    def seconds_to_next(self, now: float) -> float:
        return max(0.0, self._start + (self._number + 1) / self._rate - now)


class FlatOut:
    """Whenever it is asked. How fast that is, the client decides, which takes no more than it has
    room for."""

    def due(self, _now: float, /) -> float:
        return math.inf

    def take(self, _many: int, /) -> None:
        return None

    def seconds_to_next(self, _now: float, /) -> float:
        return 0.0
