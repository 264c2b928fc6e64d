"""The backend of this machine as it is, without namespaces, for the clients of an existing cluster.

They use this machine's network. Nothing is cut here, and nothing is deployed. The brokers of the
cluster may have nodes, too: their own hosts, with an agent beside each broker. Links between them
and the clients are treated there.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ackproof.infra.agent.parents import dying_with
from ackproof.infra.api.interface import Capability, Links, Node
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.node import this_machine
from ackproof.infra.node.node import AgentNode
from ackproof.infra.node.nodes import AgentLinks, Nodes
from ackproof.infra.node.this_machine import Directories, addresses_of_interfaces, node_of

if TYPE_CHECKING:
    from ackproof.infra.backends.attachment import Attachments
    from ackproof.infra.backends.kubernetes.pod_links import PodLinks

CAPABILITIES = frozenset({Capability.SIGNALS})
"""The capabilities for the clients' processes."""

_ADDRESS = "127.0.0.1"


class LocalhostBackend:
    """An ``infra.api.interface.Backend`` whose nodes are a directory and an agent each.

    Nodes must be made by a thread that lives as long as they do: the kernel tells an agent that its
    parent has died when that thread ends. Nodes of brokers may be made by any thread.

    Args:
        directory: A directory of the caller, which also removes it. Each node's files lie below
            ``<directory>/<node name>``.
        attachments: The hosts of brokers beside which agents may be put; None without any.
        pod_links: The links between brokers in pods without agents; None without any.
    """

    name = "here"

    def __init__(
        self,
        directory: Path,
        attachments: "Attachments | None" = None,
        pod_links: "PodLinks | None" = None,
    ) -> None:
        self._directories = Directories(directory)
        self._attachments = attachments
        self._nodes = Nodes(self._make)
        self._pod_links = pod_links
        self.links: Links = AgentLinks(self._nodes) if pod_links is None else pod_links

    @property
    def capabilities(self) -> frozenset[Capability]:
        if self._attachments is None:
            return CAPABILITIES
        return self._attachments.capabilities

    def node(self, name: str) -> AgentNode:
        """Return the node of a name. Raises ValueError for an invalid name, InfraError when
        closed."""
        return self._nodes.get(name)

    def remove(self, name: str) -> None:
        if self._attachments is not None:
            self._attachments.release(name)
        self._nodes.remove(name)
        self._directories.remove(name)

    def remains(self, name: str) -> Sequence[str]:
        return self._directories.remains(name)

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        if self._pod_links is not None and source.name in self._pod_links.pods:
            return self._pod_links.reaches(source, target, port, timeout)
        return self._nodes.reaches(source, target, port, timeout)

    def close(self) -> None:
        if self._pod_links is not None:
            self._pod_links.close()
        if self._nodes.close():
            made = self._nodes.made()
            if self._attachments is not None:
                for node in made:
                    self._attachments.release(node.name)
            on_all(AgentNode.close, made)

    def _make(self, name: str) -> AgentNode:
        if self._attachments is not None and name in self._attachments.hosts:
            return self._attachments.attach(name)
        directory = self._directories.make(name)
        # There is no PID namespace whose end would end the agent.
        agent = this_machine.start_agent(name, directory, before=dying_with(os.getpid()))
        addresses = [_ADDRESS] if self._attachments is None else addresses_of_interfaces()
        return node_of(agent, addresses, directory, agent.end, impairs=False)
