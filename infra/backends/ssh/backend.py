"""The SSH backend: each node is a host of an inventory.

The harness's own SSH connections are never cut. Its other traffic is cut if the harness runs on a
host of its own cluster.
"""

import secrets
import threading
from collections.abc import Sequence
from pathlib import PurePosixPath

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.interface import Capability, InfraError, Node
from ackproof.infra.backends.ssh.hosts import LEASE_S, ReadyHost, claim, held, make_ready
from ackproof.infra.backends.ssh.inventory import Host, Inventory, place
from ackproof.infra.backends.ssh.login import TrustedHosts
from ackproof.infra.backends.ssh.preparation import Report
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.node.capability_probes import TRIALS
from ackproof.infra.node.copying import CopiedShares, Keeper
from ackproof.infra.node.node import AgentNode, NodeParts
from ackproof.infra.node.nodes import AgentLinks, Nodes, Obstacles, capabilities, limits

_RELEASE_TIMEOUT_S = 60.0


def _silent(_line: str) -> None: ...


class SshBackend:
    """An ``infra.api.interface.Backend`` with hosts as nodes.

    Args:
        names: The nodes that will be requested: their hosts are prepared at once, together. Others
            are prepared at their first request.
        accepted: Fingerprints of host keys that may be added to the known hosts.
        report: Gets a line for each step that takes a while.
        artifacts: Files that nodes also need, copied to each host once.

    Raises InfraError with every host that cannot be used, and why.
    """

    name = "ssh"

    def __init__(
        self,
        inventory: Inventory,
        names: Sequence[str] = (),
        *,
        accepted: frozenset[str] = frozenset(),
        report: Report = _silent,
        artifacts: Sequence[Artifact] = (),
    ) -> None:
        self._inventory = inventory
        self._trust = TrustedHosts(inventory.known_hosts, accepted)
        self._report = report
        self._artifacts = artifacts
        self._run = secrets.token_hex(8)
        self._placing = threading.Lock()
        self._placed: dict[str, Host] = {}
        self._left: dict[str, Host] = {}
        self._nodes = Nodes(self._make)
        self.links = AgentLinks(self._nodes)
        self._keepers: dict[str, Keeper] = {}
        self._obstacles: list[Obstacles] = []
        self._limits: list[frozenset[Capability]] = []
        try:
            self._place(names)
            on_all(self.node, names)
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> frozenset[Capability]:
        agents = [node.agent for node in self._nodes.made()]
        tried = {one: [agent.ask(verb) for agent in agents] for one, verb in TRIALS.items()}
        with self._placing:
            further = len(self._placed) < len(self._inventory.hosts)
        return capabilities(self._obstacles, self._limits, tried, further=further)

    def node(self, name: str) -> AgentNode:
        """Return the node of a name.

        Raises ValueError for an invalid name, and InfraError when closed or without a free host.
        """
        return self._nodes.get(name)

    def remove(self, name: str) -> None:
        """Remove a node. Its host is free for another node then."""
        if (keeper := self._keepers.pop(name, None)) is not None:
            keeper.close()
        self._nodes.remove(name)
        with self._placing:
            if (host := self._placed.pop(name, None)) is not None:
                self._left[name] = host

    def remains(self, name: str) -> Sequence[str]:
        """Return what is left of a node, by the answer of its host."""
        with self._placing:
            if name in self._placed:
                return [f"the host {self._placed[name]}"]
            host = self._left.get(name)
            # A host with another node was empty when that was made.
            if host is None or host in self._placed.values():
                return []
        there = held(host, self._inventory.directory, self._trust, self._run)
        return [f"the run's claim of {host}"] if there else []

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        return self._nodes.reaches(source, target, port, timeout)

    def close(self) -> None:
        """Release every host.

        Raises InfraError with the hosts that could not be released. They are cleaned up when their
        lease ends, or by ``ackproof clean``.
        """
        if not self._nodes.close():
            return
        on_all(Keeper.close, list(self._keepers.values()))
        try:
            on_all(AgentNode.close, self._nodes.made())
        except InfraError as error:
            raise InfraError(
                f"{error}\nleft on the host until {LEASE_S / 60:.0f} minutes have passed "
                "without a message of this run, or until: ackproof clean --inventory FILE"
            ) from error

    def _place(self, names: Sequence[str]) -> None:
        """Find a host for each node that has none yet."""
        with self._placing:
            homeless = [name for name in names if name not in self._placed]
            free = [host for host in self._inventory.hosts if host not in self._placed.values()]
            try:
                self._placed |= place(homeless, free)
            except LookupError as lacking:
                raise InfraError(str(lacking)) from None

    def _make(self, name: str) -> AgentNode:
        self._place([name])
        host = make_ready(
            self._placed[name],
            self._inventory.directory,
            self._trust,
            self._report,
            self._artifacts,
        )
        prepared = host.prepared
        try:
            node = _node(name, host, self._run)
        except BaseException:
            host.connection.close()
            raise
        self._obstacles.append(prepared.obstacles)
        self._limits.append(limits(prepared.unlimited.get))
        self._keepers[name] = Keeper(name, lambda: self._keep(node, prepared.base))
        return node

    def _keep(self, node: AgentNode, base: PurePosixPath) -> None:
        """Renew the claim of a node's host, and copy its shared files. ``base`` is the directory
        of the harness there."""
        node.agent.ask("renew", base=str(base), run=self._run)
        node.sync()


def _node(name: str, host: ReadyHost, run: str) -> AgentNode:
    """Claim a host for the run, and return the node there."""
    prepared = host.prepared
    agent = claim(host.connection, prepared, run, {"PYTHONPATH": str(prepared.sources)})
    directory = prepared.base / "run" / name
    agent.ask("mkdir", path=str(directory / "logs"))
    return AgentNode(
        NodeParts(
            name=name,
            addresses=host.addresses,
            directory=directory,
            agent=agent,
            software=lambda: prepared.software,
            shares=CopiedShares(agent, directory / "shared"),
            artifacts=prepared.artifacts,
            remove=lambda: _release(host),
        )
    )


def _release(host: ReadyHost) -> None:
    try:
        base = str(host.prepared.base)
        host.prepared.agent.ask("release", base=base, timeout=_RELEASE_TIMEOUT_S)
    finally:
        host.connection.close()
