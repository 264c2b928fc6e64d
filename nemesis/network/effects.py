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
        cluster.backend.links.impair(*nodes(cluster, self.link), self._with_ports(cluster))
        return True

    def undo(self, cluster: Cluster) -> None:
        cluster.backend.links.mend(*nodes(cluster, self.link), self._with_ports(cluster))

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
