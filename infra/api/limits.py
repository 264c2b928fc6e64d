"""Limits on the resources of a node."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol


class LimitedResource(StrEnum):
    """A resource of a node that can be limited."""

    CPU = "cpu"
    MEMORY = "memory"


class ResourceLimits(Protocol):
    """The limits on the resources of a node."""

    def limit(self, what: LimitedResource, amount: int) -> None:
        """Limit a resource for all the node's processes together, those that run and later ones.

        Idempotent. Raises InfraError if the backend cannot.

        Args:
            amount: For CPU, thousandths of one core. For memory, bytes beyond what the processes
                have now, including what they write into files. The kernel kills a process that
                needs more.
        """

    def lift(self, what: LimitedResource) -> None:
        """Undo :meth:`limit`. Idempotent."""

    def counted(self, what: LimitedResource) -> Mapping[str, int]:
        """Return what the kernel has counted since :meth:`limit`; empty without a limit.

        CPU has ``throttled`` (tenths of a second in which a process had to wait) and
        ``throttled_us`` (the time waited). Memory has ``hits`` (how often the limit was reached)
        and ``killed`` (processes).
        """
