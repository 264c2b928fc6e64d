"""Disks that are slow for a while: how long the executors of their brokers take."""

from simulation.loop.loop import SimulatedLoop
from simulation.loop.ownership import NOBODY


class SlowDisks:
    """Those of one world, by host."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._until: dict[str, float] = {}

    def slow(self, host: str, delay_ms: int, for_ms: int) -> None:
        """Up to ``delay_ms`` from now on; what is under way already takes as long as it would."""
        self._loop.executor_s[host] = delay_ms / 1000
        end = self._loop.time() + for_ms / 1000
        self._until[host] = max(end, self._until.get(host, 0.0))
        self._loop.call_later(for_ms / 1000, self._is_over, host, context=NOBODY)

    def heal(self) -> None:
        """All are as fast as ever."""
        self._until.clear()
        self._loop.executor_s.clear()

    def _is_over(self, host: str) -> None:
        """Unless another time of it lasts."""
        if self._loop.time() >= self._until.get(host, 0.0) - 1e-9:
            self._loop.executor_s.pop(host, None)
