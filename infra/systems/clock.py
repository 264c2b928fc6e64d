"""The clock that a server goes by, and what it says itself that it shows."""

from collections.abc import Callable
from dataclasses import dataclass

from ackproof.infra.clocks import FakeClock, Question, Told


@dataclass(frozen=True, slots=True)
class ServerClock:
    """Implements ``infra.clocks.Clock``.

    Attributes:
        clock: Of its node.
        ask: How the server is asked; another question each time.
    """

    clock: FakeClock
    ask: Callable[[], Question]

    def run(self, offset_ms: int, rate: float = 1.0) -> None:
        self.clock.run(offset_ms, rate)

    def told(self) -> Told:
        return self.clock.told(self.ask())
