"""When records are due: at a rate, whatever became of those before, or flat out.

At a rate, record n is due n intervals after the beginning, and that does not move: a record that is
sent late is late by what it waited, and who measures latency from when it was due leaves nothing
out (coordinated omission: were it measured from when it was sent, the stall of one record would be
told once, and not of all those that were due meanwhile).
"""

import math
from typing import Protocol

BACKLOG_SECONDS = 1.0
"""How much of the schedule a producer that waits for no ack catches up after a stall; what is older
is let go."""


class Pace(Protocol):
    """Times are seconds of a clock that only goes forward."""

    due: float | None
    """When the record that was taken last was due; None where there is no schedule."""

    def take(self, now: float, /) -> bool:
        """Whether a record is due by now; it counts as taken then."""

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
        self.due: float | None = None

    def take(self, now: float) -> bool:
        behind = math.floor((now - self._start) * self._rate - self._number)
        if behind < 1:
            return False
        if behind > self._backlog:
            self._number += behind - math.floor(self._backlog)
        self._number += 1
        self.due = self._start + self._number / self._rate
        return True

    def seconds_to_next(self, now: float) -> float:
        return max(0.0, self._start + (self._number + 1) / self._rate - now)


class FlatOut:
    """Whenever it is asked. How fast that is, the client decides, which takes no more than it has
    room for."""

    due: float | None = None

    def take(self, _now: float, /) -> bool:
        return True

    def seconds_to_next(self, _now: float, /) -> float:
        return 0.0
