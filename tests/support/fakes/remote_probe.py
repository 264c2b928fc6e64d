"""What is seen of a broker in memory that was not deployed by the harness."""

from dataclasses import dataclass

from ackproof.infra.api.interface import ProcessState
from ackproof.testing.memory.servers import MemoryServer


@dataclass
class FromOutside:
    """What is seen of a broker. ``unmoved``: it serves whatever is done to it."""

    server: MemoryServer
    unmoved: bool = False

    def accepts(self) -> bool:
        return self.unmoved or self.server.process.state() is not ProcessState.EXITED

    def answers(self) -> bool:
        return self.unmoved or self.server.process.state() is ProcessState.RUNNING
