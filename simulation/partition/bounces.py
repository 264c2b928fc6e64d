"""Who has come back since a partition's state counts on it, by what is in ZooKeeper.

``registered`` says by which transaction each broker registered last, as in a :class:`Seat`.
"""

from collections.abc import Mapping

from ackproof.broker.controller.cluster import NEVER_READ, PartitionState
from ackproof.broker.types import NO_LEADER, BrokerId


def begins_anew(
    before: PartitionState, state: PartitionState, registered: Mapping[int, int]
) -> bool:
    """Whether a controller has a member of the ISR lead of which it knows that it was away."""
    leader = state.leader
    if leader == NO_LEADER or leader not in before.isr:
        return False
    epoch = registered.get(leader, NEVER_READ)
    return before.trusted_up_to(leader) < epoch == state.trusted_up_to(leader)


def awaited(before: PartitionState, registered: Mapping[int, int]) -> list[BrokerId]:
    """The members of the ISR that have not come back, or never were away."""
    return [b for b in before.isr if registered.get(b, NEVER_READ) <= before.trusted_up_to(b)]
