"""Clients of the workload, as faults on them see them."""

from dataclasses import dataclass

from ackproof.infra.api.interface import Process


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadClient:
    """A client of the workload that was started. ``node``: the name of the node that it runs on;
    ``role``: ``producer`` or ``consumer``; ``runs``: whether it is not known to have ended;
    ``instead_of``: the client in whose place it has come; ``begun``: whether it does its work."""

    name: str
    node: str
    process: Process
    role: str = "producer"
    runs: bool = True
    instead_of: str | None = None
    begun: bool = True


def nobody_comes_back(client: str) -> None:
    """Where nobody was planned to. Raises LookupError."""
    raise LookupError(f"nobody comes in the place of {client} here")
