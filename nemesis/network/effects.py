"""Effects on links."""

from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.api.interface import CUT, Counted, Impairment
from ackproof.nemesis.effects import LINK
from ackproof.nemesis.interface import Cluster, Link, Resource
from ackproof.nemesis.network.services import Service, nodes, ports, way


@dataclass(frozen=True, slots=True)
class OnLink:
    """An impairment of a link. ``service``: of its packets alone, None for all."""

    link: Link
    service: Service | None = None
    ends: ClassVar[None] = None

    @property
    def kind(self) -> Impairment:
        """Without its ports, which only the cluster knows."""
        raise NotImplementedError

    @property
    def resource(self) -> Resource:
        ends = (self.link.source, self.link.target)
        return Resource(LINK, ends, (self.kind, self.service))

    def impairment(self, cluster: Cluster) -> Impairment:
        """Raises LookupError where nobody has the service."""
        kind = self.kind
        return Impairment(kind=kind.kind, amount=kind.amount, ports=ports(cluster, self.service))

    def apply(self, cluster: Cluster) -> bool:
        cluster.backend.links.impair(*nodes(cluster, self.link), self.impairment(cluster))
        return True

    def undo(self, cluster: Cluster) -> None:
        cluster.backend.links.mend(*nodes(cluster, self.link), self.impairment(cluster))

    def counted(self, cluster: Cluster) -> Counted:
        """What the kernel has counted of it."""
        return cluster.backend.links.counted(*nodes(cluster, self.link), self.impairment(cluster))

    def _of_service(self) -> str:
        return f"{self.link} ({self.service})" if self.service else f"{self.link}"


@dataclass(frozen=True, slots=True)
class Cut(OnLink):
    """Every packet dropped, silently."""

    @property
    def kind(self) -> Impairment:
        return CUT

    def __str__(self) -> str:
        return f"cut {self._of_service()}"


@dataclass(frozen=True, slots=True)
class Lose(OnLink):
    """Some of the packets dropped, silently: the kernel draws, not our seed."""

    percent: int = 0

    @property
    def kind(self) -> Impairment:
        return Impairment(kind="loss", amount=self.percent)

    def __str__(self) -> str:
        return f"lose {self.percent} % of {self._of_service()}"


@dataclass(frozen=True, slots=True)
class Reset(OnLink):
    """Packets answered with a TCP reset. A connection of our own is opened before, to see what
    becomes of it. ``only_open``: new connections are left alone."""

    only_open: bool = False

    @property
    def kind(self) -> Impairment:
        return Impairment(kind="reset-open" if self.only_open else "reset")

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

    def __str__(self) -> str:
        return f"reset {'what is open of ' if self.only_open else ''}{self._of_service()}"


@dataclass(frozen=True, slots=True)
class Narrow(OnLink):
    """So many kilobits a second, and no more."""

    kbit_per_s: int = 0

    @property
    def kind(self) -> Impairment:
        return Impairment(kind="narrow", amount=self.kbit_per_s)

    def __str__(self) -> str:
        return f"narrow {self.link} to {self.kbit_per_s} kbit/s"


@dataclass(frozen=True, slots=True)
class Slow(OnLink):
    """Every packet waits, at least so long."""

    delay_ms: int = 0

    @property
    def kind(self) -> Impairment:
        return Impairment(kind="slow", amount=self.delay_ms)

    def __str__(self) -> str:
        return f"slow {self.link} by {self.delay_ms} ms"
