"""The SSH backend: nodes are hosts of an inventory, a host each.

Not handled: slow links, disks that lose writes. Of the harness's traffic, its SSH connections are
never cut; the rest is where the harness runs on a host of its own cluster.
"""

import getpass
import secrets
import socket
import threading
from collections.abc import Sequence

from infra.interface import Capability, InfraError, Node
from infra.nodes import Nodes
from infra.ssh import hosts
from infra.ssh.hosts import make_ready
from infra.ssh.inventory import Host, Inventory, place
from infra.ssh.keeper import LEASE_S, Keeper
from infra.ssh.login import Trust
from infra.ssh.node import SshNode
from infra.ssh.preparation import Report
from infra.ssh.together import on_all


def _silent(_line: str) -> None: ...


class SshBackend:
    """Implements ``infra.interface.Backend``.

    Args:
        names: The nodes that will be asked for: their hosts are made ready at once, together.
            Others are made ready when they are asked for.
        accepted: Fingerprints of host keys that may be added to the known hosts.
        report: Told, a line at a time, what takes a while.

    Raises InfraError naming every host that cannot be had, and why.
    """

    name = "ssh"

    def __init__(
        self,
        inventory: Inventory,
        names: Sequence[str] = (),
        *,
        accepted: frozenset[str] = frozenset(),
        report: Report = _silent,
    ) -> None:
        self._inventory = inventory
        self._trust = Trust(inventory.known_hosts, accepted)
        self._report = report
        self._run = secrets.token_hex(8)
        self._placing = threading.Lock()
        self._placed: dict[str, Host] = {}
        self._nodes = Nodes(self._make)
        self._keepers: list[Keeper] = []
        try:
            self._place(names)
            on_all(self.node, names)
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> frozenset[Capability]:
        return hosts.capabilities([node.prepared for node in self._nodes.made()])

    def node(self, name: str) -> SshNode:
        """Raises ValueError for a name that is none, InfraError when closed or when no host is
        left for it."""
        return self._nodes.get(name)

    def cut(self, source: Node, target: Node) -> None:
        node = self._nodes.ours(target)
        addresses = self._nodes.ours(source).addresses
        node.connection.ask("cut", base=str(node.base), addresses=addresses)

    def heal(self, source: Node, target: Node) -> None:
        addresses = self._nodes.ours(source).addresses
        self._nodes.ours(target).connection.ask("heal", addresses=addresses)

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        reached: bool = self._nodes.ours(source).connection.ask(
            "reaches", address=target.address, port=port, within=timeout
        )
        return reached

    def close(self) -> None:
        """Raises InfraError naming the hosts that could not be released: they come clean when
        their lease ends, or by ``ackproof clean``."""
        if not self._nodes.close():
            return
        on_all(Keeper.close, self._keepers)
        try:
            on_all(SshNode.close, self._nodes.made())
        except InfraError as error:
            raise InfraError(
                f"{error}\nleft there until {LEASE_S / 60:.0f} minutes have passed without a word "
                "of us, or: ackproof clean --inventory FILE"
            ) from error

    def _place(self, names: Sequence[str]) -> None:
        """Find a host for each that has none yet."""
        with self._placing:
            homeless = [name for name in names if name not in self._placed]
            free = [host for host in self._inventory.hosts if host not in self._placed.values()]
            try:
                self._placed |= place(homeless, free)
            except LookupError as lacking:
                raise InfraError(str(lacking)) from None

    def _make(self, name: str) -> SshNode:
        self._place([name])
        ready = make_ready(self._placed[name], self._inventory.directory, self._trust, self._report)
        try:
            ready.connection.ask(
                "acquire",
                base=str(ready.prepared.base),
                run=self._run,
                holder=f"{getpass.getuser()}@{socket.gethostname()}",
                lease_s=LEASE_S,
            )
            node = SshNode(name, ready)
        except BaseException:
            ready.connection.close()
            raise
        self._keepers.append(Keeper(node, self._run))
        return node
