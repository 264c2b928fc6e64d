"""The local backend: nodes as network namespaces of this machine.

They are made inside the namespaces of :mod:`infra.backends.local.enter`. When those end, everything
here ends. Not handled: more than one open backend in a process (they would share the one router).
"""

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path

from ackproof.infra.agent.cgroups import RUN
from ackproof.infra.api.interface import Capability, InfraError, Node
from ackproof.infra.backends.local.enter import host_network, inside, obstacles, undoable, unlimited
from ackproof.infra.backends.local.network import (
    NetworkNamespace,
    Router,
    exposed_router,
    free_subnet,
    routed_networks,
)
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.node import this_machine
from ackproof.infra.node.capability_probes import TRIALS
from ackproof.infra.node.node import AgentNode
from ackproof.infra.node.nodes import AgentLinks, Nodes, capabilities, limits
from ackproof.infra.node.this_machine import Directories, node_of

_INHERITED = (*this_machine.INHERITED, RUN)


def make_node(name: str, directory: Path, namespace: NetworkNamespace, router: Router) -> AgentNode:
    """Return the node in ``namespace``, linked to ``router``, with its files in ``directory``.

    Raises InfraError if no address is left for it.
    """
    with ExitStack() as made:
        agent = this_machine.start_agent(
            name, directory, inherited=_INHERITED, within=namespace.call
        )
        made.callback(agent.end)
        address = router.attach(namespace)  # while the agent starts
        return node_of(agent, [address], directory, made.pop_all().close)


# --- backend ----------------------------------------------------------------------------------


class LocalBackend:
    """An ``infra.api.interface.Backend`` with network namespaces as nodes.

    Args:
        directory: A directory of the caller, which also removes it. Each node's files lie below
            ``<directory>/<node name>``.
        names: The nodes that will be requested: their agents are started at once, together.
        clocks: Whether nodes can have fake clocks.
        exposed: Whether this machine outside of the run reaches the nodes at their addresses until
            the run ends. That needs root. Other users enter by ``Entry.nsenter`` of the registry.

    Raises InfraError outside of the namespaces that ``infra.backends.local.enter.enter`` makes.
    """

    name = "local"

    def __init__(
        self,
        directory: Path,
        names: Sequence[str] = (),
        *,
        clocks: bool = False,
        exposed: bool = False,
    ) -> None:
        if not inside():
            raise InfraError("the local backend works only inside the namespaces of a run")
        if clocks:
            _have_shared_memory_of_our_own()
        self._directories = Directories(directory)
        self._gone: dict[str, str] = {}
        self._nodes = Nodes(self._make)
        self.links = AgentLinks(self._nodes)
        descriptor = host_network()
        host = None if descriptor is None else NetworkNamespace(descriptor)
        self._exposed = exposed and host is not None
        self._router = _router(host, exposed)
        for name in names:  # no wait: the first request to an agent waits for it
            self.node(name)

    @cached_property
    def capabilities(self) -> frozenset[Capability]:
        tried = {one: [undoable(one)] for one in TRIALS}
        return capabilities([obstacles()], [limits(unlimited)], tried)

    def node(self, name: str) -> AgentNode:
        """Return the node of a name.

        Raises ValueError for an invalid name, and InfraError when closed or out of addresses.
        """
        return self._nodes.get(name)

    def remove(self, name: str) -> None:
        address = next((node.address for node in self._nodes.made() if node.name == name), None)
        self._nodes.remove(name)
        self._directories.remove(name)
        if address is not None:
            self._router.detach(address)
            self._gone[name] = address

    def remains(self, name: str) -> Sequence[str]:
        left = [*self._directories.remains(name)]
        address = self._gone.get(name)
        if address is not None and self._router.reaches(address):
            left.append(f"a link to {address}")
        return left

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        return self._nodes.reaches(source, target, port, timeout)

    @property
    def subnet(self) -> str | None:
        """Return the subnet by which this machine reaches the nodes; None if it does not."""
        return str(self._router.subnet) if self._exposed else None

    def close(self) -> None:
        if self._nodes.close():
            # Links are removed first. Meanwhile those of a namespace without a holder go by
            # themselves.
            self._router.close()
            on_all(AgentNode.close, self._nodes.made())

    def _make(self, name: str) -> AgentNode:
        with NetworkNamespace.create() as namespace:  # held by its agent from now on
            return make_node(name, self._directories.make(name), namespace, self._router)


def _router(host: NetworkNamespace | None, exposed: bool) -> Router:
    if host is not None and exposed:
        return exposed_router(host)
    return Router(free_subnet(host.call(routed_networks) if host else ()))


def _have_shared_memory_of_our_own() -> None:
    """Mount shared memory for this run alone.

    libfaketime names its shared memory after process ids, and the ids of this PID namespace occur
    in other runs, too. A process that finds the memory of another run may not start.
    """
    command = ["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/dev/shm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InfraError(f"no shared memory for the run: {done.stderr.strip()}")
