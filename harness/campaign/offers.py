"""Which fault is offered where, before there is a place: on every backend, and by a cluster of
one's own. What a certain machine can do is found out when a campaign is about to run there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.harness.backends import BACKENDS, HERE
from ackproof.harness.campaign.problems import external
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Fault

OWN_CLUSTER = "your cluster"
"""What a cluster of one's own is called among the places. Its clients are on the backend here."""

PLACES: Sequence[str] = (*(name for name in BACKENDS if name != HERE), OWN_CLUSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Whether a place offers a fault.

    Attributes:
        refused: Why it never does; None where it may.
        where: On what it depends, if on anything.
    """

    refused: str | None = None
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.refused is not None:
            return f"no: {self.refused}"
        return f"where {'; '.join(self.where)}" if self.where else "yes"


def offer(fault: Fault, place: str) -> Offer:
    """Whether one of :data:`PLACES` offers the fault."""
    if place == OWN_CLUSTER:
        return _of_own_cluster(fault.name)
    backend, needs = BACKENDS[place], sorted(fault.needs)
    never = dict.fromkeys(backend.never[one] for one in needs if one in backend.never)
    if never:
        return Offer(refused="; ".join(never))
    where = dict.fromkeys(backend.where[one] for one in needs if one in backend.where)
    return Offer(where=tuple(where))


def _of_own_cluster(fault: str) -> Offer:
    why = external.refused_everywhere(fault)
    if why is not None:
        return Offer(refused=f"it {why}")
    where = external.asked_for(fault)
    return Offer(where=() if where is None else (where,))


def table() -> Iterator[tuple[str, Mapping[str, Offer]]]:
    """Every fault by name, and what each place says of it."""
    for name, fault in FAULTS.items():
        yield name, {place: offer(fault, place) for place in PLACES}
