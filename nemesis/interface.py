"""What a fault is.

A fault is a package: what it needs of the backend, how it breaks, the proof that it bit, how it
heals. Targets are resolved by role at the moment of injection (``nemesis.targets``) and passed in
resolved. Whoever injects writes the intent into the ledger first (``nemesis.ledger``): healing is
driven by the ledger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from infra.interface import Backend, Capability, Node, Server, System, Timings


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a fault may touch.

    ``clients`` are the nodes where workload clients run.
    """

    backend: Backend
    system: System
    clients: Sequence[Node]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The servers a target expression named when it was resolved.

    Attributes:
        expression: As written in the campaign, e.g. ``leader(acks-1-minisr-1, 0)``.
        servers: The servers it stood for at that moment.
        facts: What was read to resolve it (leader, ISR, epoch, session, ...), for the history.
    """

    expression: str
    servers: Sequence[Server]
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Whether something is proven, and by which observations.

    A fault that was not proven to bite did not happen.
    """

    proven: bool
    observations: Mapping[str, object]


class Fault(Protocol):
    """One way of breaking a cluster. Instances carry no state between calls: what ``heal`` needs
    is in the target."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for the catalogue: what it does."""
    needs: ClassVar[frozenset[Capability]]

    def inject(self, cluster: Cluster, target: Target) -> None:
        """Break it. May fail half-way; ``heal`` must cope with that."""

    def verify(self, cluster: Cluster, target: Target, timeout: float) -> Evidence:
        """Wait, at most ``timeout`` seconds, until it is proven to have bitten."""

    def heal(self, cluster: Cluster, target: Target) -> None:
        """Undo it. Idempotent; also run when ``inject`` failed or never began."""

    def verify_healed(self, cluster: Cluster, target: Target, timeout: float) -> Evidence:
        """Wait, at most ``timeout`` seconds, until it is proven to be healed."""

    def hold_ms_min(self, timings: Timings) -> int:
        """Shortest time it must be held to have its full effect, derived from the cluster's
        settings (session timeout, replica lag)."""
