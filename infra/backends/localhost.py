"""The backend of this machine as it is, without namespaces, for the clients of an existing cluster.

They use this machine's network. Nothing is cut, and nothing is deployed.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from ackproof.infra.agent.parents import dying_with
from ackproof.infra.api.interface import Capability, Node
from ackproof.infra.node import this_machine
from ackproof.infra.node.node import AgentNode
from ackproof.infra.node.nodes import AgentLinks, Nodes
from ackproof.infra.node.this_machine import Directories, node_of

CAPABILITIES = frozenset({Capability.SIGNALS})
"""The capabilities for the clients' processes."""

_ADDRESS = "127.0.0.1"


class LocalhostBackend:
    """An ``infra.api.interface.Backend`` whose nodes are a directory and an agent each.

    Nodes must be made by a thread that lives as long as they do: the kernel tells an agent that its
    parent has died when that thread ends.

    Args:
        directory: A directory of the caller, which also removes it. Each node's files lie below
            ``<directory>/<node name>``.
    """

    name = "here"

    def __init__(self, directory: Path) -> None:
        self._directories = Directories(directory)
        self._nodes = Nodes(self._make)
        self.capabilities = CAPABILITIES
        self.links = AgentLinks(self._nodes)

    def node(self, name: str) -> AgentNode:
        """Return the node of a name. Raises ValueError for an invalid name, InfraError when
        closed."""
        return self._nodes.get(name)

    def remove(self, name: str) -> None:
        self._nodes.remove(name)
        self._directories.remove(name)

    def remains(self, name: str) -> Sequence[str]:
        return self._directories.remains(name)

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        return self._nodes.reaches(source, target, port, timeout)

    def close(self) -> None:
        if self._nodes.close():
            for node in self._nodes.made():
                node.close()

    def _make(self, name: str) -> AgentNode:
        directory = self._directories.make(name)
        # There is no PID namespace whose end would end the agent.
        agent = this_machine.start_agent(name, directory, before=dying_with(os.getpid()))
        return node_of(agent, _ADDRESS, directory, agent.end)
