"""Who looks after servers, as faults see it: it is told of those that join and leave."""

from dataclasses import dataclass, field
from typing import Protocol

from ackproof.infra.api.interface import Server


class Attendant(Protocol):
    """Told once of each, or again where the same was tried again."""

    def joins(self, server: Server) -> None:
        """It is about to be started for the first time."""

    def leaves(self, server: Server) -> None:
        """It is about to be asked to end, and does not come back: its end is no failure."""

    def left(self, server: Server) -> None:
        """It has ended, and its node is about to be removed: what is to be kept of it is fetched.
        Raises InfraError when it cannot be."""


@dataclass(frozen=True, slots=True)
class Attendants:
    """Implements :class:`Attendant`: several, or nobody."""

    present: list[Attendant] = field(default_factory=list)

    def joins(self, server: Server) -> None:
        for one in self.present:
            one.joins(server)

    def leaves(self, server: Server) -> None:
        for one in self.present:
            one.leaves(server)

    def left(self, server: Server) -> None:
        for one in self.present:
            one.left(server)
