"""Deadlines: the time limit of a step, and the end of its waits.

Two events end a wait early: the step's limit, and cancellation (Ctrl-C). Time and sleeping are
behind :class:`TimeSource`, so that tests of the logic do not have to wait.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class TimeSource(Protocol):
    """A source of time."""

    def time_ns(self) -> int:
        """Return the nanoseconds of the Unix epoch."""

    def monotonic(self) -> float:
        """Return the seconds of a clock that never goes back."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for ``event``, at most ``seconds``, and return whether it was set."""


class SystemClock:
    """The machine's own clocks."""

    def time_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


class StepTimeout(TimeoutError):
    """A step that took longer than its limit."""


class Cancelled(Exception):
    """The cancellation of a step."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a step's time.

    Attributes:
        clock: The clock of the end.
        end: The end on ``clock.monotonic``.
        cancelled: Set when the step must stop, whatever it waits for.
    """

    clock: TimeSource
    end: float
    cancelled: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def after(cls, clock: TimeSource, limit_s: float) -> "Deadline":
        return cls(clock, clock.monotonic() + limit_s)

    def remaining(self, at_most: float = float("inf")) -> float:
        """Return the seconds left, between 0 and ``at_most``."""
        return max(0.0, min(at_most, self.end - self.clock.monotonic()))

    def wait(self, seconds: float) -> None:
        """Wait for ``seconds``. Raises Cancelled, or StepTimeout if the time ends before."""
        allowed = self.remaining(at_most=seconds)
        if self.clock.wait(self.cancelled, allowed):
            raise Cancelled
        if allowed < seconds:
            raise StepTimeout("the time limit of this step is over")

    def check(self) -> None:
        """Raise Cancelled if the step was cancelled."""
        if self.cancelled.is_set():
            raise Cancelled

    def until(
        self, condition: Callable[[], bool], *, at_most: float = float("inf"), poll: float = 0.2
    ) -> bool:
        """Wait until ``condition`` holds. Return False if ``at_most`` seconds or the deadline pass
        before."""
        end = self.clock.monotonic() + self.remaining(at_most)
        while not condition():
            if self.clock.monotonic() + poll > end:
                return False
            self.wait(poll)
        return True
