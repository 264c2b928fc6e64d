"""A clock for several threads of faults that takes no time."""

import threading

from ackproof.harness.running.deadline import SystemClock


class JumpingClock(SystemClock):
    """Time stands still while any fault's thread is at work, and jumps to the next moment that one
    of them waits for when all are waiting.

    Args:
        lanes: Threads without which it does not begin: the first would be ten seconds ahead by
            the time the second is started.
    """

    def __init__(self, lanes: int) -> None:
        self._now = 0.0
        self._lanes = lanes
        self._met: set[str] = set()
        self._moved = threading.Condition()
        self._ends: list[float] = []

    def time_ns(self) -> int:
        return int(self._now * 1e9)

    def monotonic(self) -> float:
        return self._now

    def wait(self, event: threading.Event, seconds: float) -> bool:
        with self._moved:
            end = self._now + seconds
            self._ends.append(end)
            self._met.add(threading.current_thread().name)
            while self._now < end and not event.is_set():
                if len(self._met) >= self._lanes and len(self._ends) == sum(
                    t.name.startswith("faults-") for t in threading.enumerate()
                ):
                    self._now = min(self._ends)
                    self._moved.notify_all()
                if self._now < end:
                    self._moved.wait(0.01)
            self._ends.remove(end)
        return event.is_set()
