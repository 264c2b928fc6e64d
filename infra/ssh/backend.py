"""The SSH backend: nodes are hosts of an inventory, a host each.

Not handled: slow links, disks that lose writes. Of the harness's traffic, its SSH connections are
never cut; the rest is where the harness runs on a host of its own cluster.
"""

import getpass
import re
import secrets
import socket
import threading
from collections.abc import Sequence

from infra.interface import Capability, InfraError, Node
from infra.ssh import hosts
from infra.ssh.hosts import make_ready
from infra.ssh.inventory import Host, Inventory, place
from infra.ssh.keeper import LEASE_S, Keeper
from infra.ssh.login import Trust
from infra.ssh.node import SshNode
from infra.ssh.preparation import Report
from infra.ssh.together import on_all

_NODE_NAME = re.compile(r"[a-z][a-z0-9-]*")


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
        self._lock = threading.Lock()
        self._closed = False
        self._placed: dict[str, Host] = {}
        self._nodes: dict[str, SshNode] = {}
        self._keepers: list[Keeper] = []
        try:
            self._make(names)
        except BaseException:
            self.close()
            raise

    @property
    def capabilities(self) -> frozenset[Capability]:
        return hosts.capabilities([node.prepared for node in self._nodes.values()])

    def node(self, name: str) -> SshNode:
        """Raises ValueError for a name that is none, InfraError when closed or when no host is
        left for it."""
        if not _NODE_NAME.fullmatch(name):
            raise ValueError(f"node name {name!r}: must match {_NODE_NAME.pattern}")
        with self._lock:
            if self._closed:
                raise InfraError(f"the backend is closed: no node {name}")
            if name not in self._nodes:
                self._make([name])
            return self._nodes[name]

    def cut(self, source: Node, target: Node) -> None:
        node = self._nodes[target.name]
        addresses = self._nodes[source.name].addresses
        node.connection.ask("cut", base=str(node.base), addresses=addresses)

    def heal(self, source: Node, target: Node) -> None:
        addresses = self._nodes[source.name].addresses
        self._nodes[target.name].connection.ask("heal", addresses=addresses)

    def reaches(self, source: Node, target: Node, port: int, timeout: float = 1.0) -> bool:
        reached: bool = self._nodes[source.name].connection.ask(
            "reaches", address=target.address, port=port, within=timeout
        )
        return reached

    def close(self) -> None:
        """Raises InfraError naming the hosts that could not be released: they come clean when
        their lease ends, or by ``ackproof clean``."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        on_all(Keeper.close, self._keepers)
        try:
            on_all(SshNode.close, list(self._nodes.values()))
        except InfraError as error:
            raise InfraError(
                f"{error}\nleft there until {LEASE_S / 60:.0f} minutes have passed without a word "
                "of us, or: ackproof clean --inventory FILE"
            ) from error

    def _make(self, names: Sequence[str]) -> None:
        free = [host for host in self._inventory.hosts if host not in self._placed.values()]
        try:
            placed = place(names, free)
        except LookupError as lacking:
            raise InfraError(str(lacking)) from None
        on_all(lambda name: self._make_one(name, placed[name]), list(placed))
        self._placed |= placed

    def _make_one(self, name: str, host: Host) -> None:
        ready = make_ready(host, self._inventory.directory, self._trust, self._report)
        try:
            ready.connection.ask(
                "acquire",
                base=str(ready.prepared.base),
                run=self._run,
                holder=f"{getpass.getuser()}@{socket.gethostname()}",
                lease_s=LEASE_S,
            )
            self._nodes[name] = SshNode(name, ready)
        except BaseException:
            ready.connection.close()
            raise
        self._keepers.append(Keeper(self._nodes[name], self._run))
