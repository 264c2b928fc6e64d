"""Observations of a broker in memory that the harness did not deploy."""

from dataclasses import dataclass

from ackproof.infra.api.interface import ProcessState
from ackproof.testing.memory.servers import MemoryServer


@dataclass
class FromOutside:
    """Observations of a broker. ``unmoved``: it serves in spite of every action."""

    server: MemoryServer
    unmoved: bool = False

    def accepts(self) -> bool:
        return self.unmoved or self.server.process.state() is not ProcessState.EXITED

    def answers(self) -> bool:
        return self.unmoved or self.server.process.state() is ProcessState.RUNNING
