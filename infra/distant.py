"""Servers that were not deployed here: the part of :mod:`infra.interface` on what is seen of
them."""

from typing import Protocol


class Distant(Protocol):
    """What is seen from outside of a server that was not deployed here."""

    def accepts(self) -> bool:
        """Whether it accepts connections. The kernel answers for a process that is stopped."""

    def answers(self) -> bool:
        """Whether it answers a request, asked itself."""
