"""Effects on the clocks of servers."""

from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.api.clocks import Clock
from ackproof.infra.api.interface import InfraError
from ackproof.nemesis.effects import OnServer
from ackproof.nemesis.interface import Cluster

CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class SetClock(OnServer):
    """A server's clock is ``offset_ms`` off from now on, and goes ``rate`` times as fast. Undone by
    the true time, whatever became of the server: it is its node's clock."""

    kind: ClassVar[str] = CLOCK

    offset_ms: int = 0
    rate: float = 1.0

    @property
    def ends(self) -> None:
        return None

    def apply(self, cluster: Cluster) -> bool:
        clock_of(cluster, self.server).run(self.offset_ms, self.rate)
        return True

    def undo(self, cluster: Cluster) -> None:
        clock_of(cluster, self.server).run(0)

    def __str__(self) -> str:
        pace = "" if self.rate == 1.0 else f", {self.rate:g} times as fast"
        return f"set the clock of {self.server} {self.offset_ms:+} ms off{pace}"


def clock_of(cluster: Cluster, server: str) -> Clock:
    """Raises InfraError where the server goes by the true time."""
    clock = cluster.server(server).clock
    if clock is None:
        raise InfraError(f"{server} was not started under a clock that can be set")
    return clock
