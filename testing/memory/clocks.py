"""Clocks of servers that exist in memory: what a fault proves of them can be true or false."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ackproof.infra.api.clocks import Told
from ackproof.infra.api.interface import InfraError

BETWEEN_MS = 500
"""Each time that a server is asked, so much time has passed."""


@dataclass
class MemoryClock:
    answers: Callable[[], bool]
    """Whether its server runs."""
    deaf: bool = False
    """It cannot be set."""
    bound_ms: float = 1.0
    offset_ms: float = 0.0
    rate: float = 1.0
    now_ms: float = 0.0
    runs: list[tuple[int, float]] = field(default_factory=list)
    """All that it was set to."""
    _since_ms: float = 0.0

    def run(self, offset_ms: int, rate: float = 1.0) -> None:
        self.runs.append((offset_ms, rate))
        if not self.deaf:
            self.offset_ms, self.rate, self._since_ms = offset_ms, rate, self.now_ms

    def told(self) -> Told:
        if not self.answers():
            raise InfraError("no answer")
        self.now_ms += BETWEEN_MS
        gained = (self.rate - 1) * (self.now_ms - self._since_ms)
        return Told(offset_ms=self.offset_ms + gained, bound_ms=self.bound_ms, at_ms=self.now_ms)
