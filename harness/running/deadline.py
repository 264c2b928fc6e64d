"""Deadlines: how long a step may take, and how its waiting is cut short.

Two things end a wait early: the step's limit, and cancellation (Ctrl-C). Clock and sleeping come in
through :class:`Clock`, so that the logic above runs in tests without waiting.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def time_ns(self) -> int:
        """Nanoseconds of the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for ``event``, at most ``seconds``; whether it was set."""


class SystemClock:
    """The machine's own clocks."""

    def time_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


class StepTimeout(TimeoutError):
    """A step took longer than its limit."""


class Cancelled(Exception):
    """The step is no longer wanted."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The end of a step's time.

    Attributes:
        clock: What the end is measured on.
        end: On ``clock.monotonic``.
        cancelled: Set when the step is to stop whatever it waits for.
    """

    clock: Clock
    end: float
    cancelled: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def after(cls, clock: Clock, limit_s: float) -> "Deadline":
        return cls(clock, clock.monotonic() + limit_s)

    def remaining(self, at_most: float = float("inf")) -> float:
        """Seconds left, not below 0 and not above ``at_most``."""
        return max(0.0, min(at_most, self.end - self.clock.monotonic()))

    def wait(self, seconds: float) -> None:
        """Let ``seconds`` pass. Raises Cancelled, or StepTimeout when the time ends before."""
        allowed = self.remaining(at_most=seconds)
        if self.clock.wait(self.cancelled, allowed):
            raise Cancelled
        if allowed < seconds:
            raise StepTimeout("the time for this step is over")

    def check(self) -> None:
        """Raise Cancelled when the step is no longer wanted."""
        if self.cancelled.is_set():
            raise Cancelled

    def until(
        self, condition: Callable[[], bool], *, at_most: float = float("inf"), poll: float = 0.2
    ) -> bool:
        """Wait until ``condition`` holds; False when ``at_most`` seconds or the deadline pass."""
        end = self.clock.monotonic() + self.remaining(at_most)
        while not condition():
            if self.clock.monotonic() + poll > end:
                return False
            self.wait(poll)
        return True
