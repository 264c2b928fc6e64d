"""What a node can have too little of."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol


class Scarce(StrEnum):
    """What a node can have too little of."""

    CPU = "cpu"
    MEMORY = "memory"


class Scarcity(Protocol):
    """What can be done about it to a node."""

    def limit(self, what: Scarce, amount: int) -> None:
        """Let the node's processes, those that run and those that will be started, have no more
        than so much, together. Idempotent. Raises InfraError where the backend cannot.

        Args:
            amount: Of CPU, thousandths of one core; of memory, bytes beyond what they have now,
                for what they write into files, too. Who needs more is killed by the kernel.
        """

    def lift(self, what: Scarce) -> None:
        """Undo :meth:`limit`. Idempotent."""

    def counted(self, what: Scarce) -> Mapping[str, int]:
        """What the kernel has counted since :meth:`limit`; empty where nothing is limited. Of CPU:
        ``throttled`` (tenths of a second in which somebody had to wait), ``throttled_us`` (how
        long). Of memory: ``hits`` (how often the limit was met), ``killed`` (processes)."""
