"""Effects on links."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.agent.impairments import CUT, Impairment
from ackproof.infra.api.interface import PacketCounts
from ackproof.nemesis.effects import LINK
from ackproof.nemesis.interface import Cluster, Link, Resource
from ackproof.nemesis.network.services import Service, nodes, ports, way

_WORDS: Mapping[str, str] = {
    "loss": "lose {amount} % of {packets}",
    "reset": "reset {packets}",
    "reset-open": "reset open connections of {packets}",
    "narrow": "narrow {packets} to {amount} kbit/s",
    "slow": "slow {packets} by {amount} ms",
}


def is_by_policies(cluster: Cluster, link: Link) -> bool:
    """Return whether NetworkPolicies cut the link: a server at one of its ends is in a pod without
    an agent."""
    servers = {one.name: one for one in cluster.system.brokers}
    views = (servers[name].distant for name in (link.source, link.target) if name in servers)
    return any(view is not None and view.pod is not None and not view.attached for view in views)


def held_name(link: Link) -> str:
    """Return the name of the connection over a link that was opened before it was cut."""
    return f"open {link}"


@dataclass(frozen=True, slots=True)
class OnLink:
    """An impairment of a link.

    Attributes:
        impairment: The impairment without its ports, which only the cluster knows.
        service: The service whose packets alone it strikes, or None for all.
    """

    link: Link
    impairment: Impairment
    service: Service | None = None
    ends: ClassVar[None] = None

    @property
    def resource(self) -> Resource:
        ends = (self.link.source, self.link.target)
        return Resource(LINK, ends, (self.impairment, self.service))

    def apply(self, cluster: Cluster) -> bool:
        if is_by_policies(cluster, self.link):
            # Nothing counts what a NetworkPolicy drops: open connections show it. The first effect
            # of a link cuts both directions.
            for one in (self.link, self.link.back):
                if (there := way(cluster, one)) is not None:
                    name = held_name(one)
                    cluster.backend.links.hold(name, *nodes(cluster, there), there.port)
        cluster.backend.links.impair(*nodes(cluster, self.link), self._with_ports(cluster))
        return True

    def undo(self, cluster: Cluster) -> None:
        cluster.backend.links.mend(*nodes(cluster, self.link), self._with_ports(cluster))
        if is_by_policies(cluster, self.link):
            cluster.backend.links.let_go(held_name(self.link), cluster.node(self.link.source))

    def counted(self, cluster: Cluster) -> PacketCounts:
        """Return what the kernel has counted of the impairment."""
        return cluster.backend.links.counted(*nodes(cluster, self.link), self._with_ports(cluster))

    def _with_ports(self, cluster: Cluster) -> Impairment:
        """Return the impairment with its ports; raise LookupError where no server has the
        service."""
        return self.impairment._replace(ports=ports(cluster, self.service))

    def __str__(self) -> str:
        packets = f"{self.link} ({self.service})" if self.service else f"{self.link}"
        if self.impairment == CUT:
            return f"cut {packets}"
        return _WORDS[self.impairment.kind].format(amount=self.impairment.amount, packets=packets)


@dataclass(frozen=True, slots=True)
class ResetLink(OnLink):
    """A TCP reset in answer to packets.

    A connection of our own is opened first, to see whether it is reset.
    """

    def apply(self, cluster: Cluster) -> bool:
        there = way(cluster, self.link, self.service)
        if there is not None:
            cluster.backend.links.hold(str(self), *nodes(cluster, there), there.port)
        OnLink.apply(self, cluster)
        return True

    def undo(self, cluster: Cluster) -> None:
        OnLink.undo(self, cluster)
        there = way(cluster, self.link, self.service)
        if there is not None:
            cluster.backend.links.let_go(str(self), cluster.node(there.source))
