"""What must hold when a controller writes that an order is carried out.

* **MovedIsInSync**: a move is over when the ISR has left whoever it removes, who is told to delete
  what he has (KIP-455). Who was added has been in it, and may have dropped out since.
* **EndedIsMoved**: without a controller, a reassignment is no more when the partition is where that
  was to move it, or another one has taken its place. To take it back is another one, too (KIP-455).
* **GoneEverywhere**: a topic is gone when all of its replicas are deleted, those on brokers that
  were down meanwhile as well (``TopicDeletionManager``). Whoever keeps one meets it again with the
  next topic of that name.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from ackproof.broker.controller.cluster import PartitionState, TopicAssignment
from ackproof.broker.types import TopicPartition
from simulation.violation import Violation


class Moving(Protocol):
    """A partition, as it is in ZooKeeper."""

    state: PartitionState | None
    been_in_sync: set[int]
    """Who has been in its ISR since it was assigned."""


def moved(
    topic: str,
    before: TopicAssignment,
    after: TopicAssignment,
    partitions: Mapping[int, Moving],
) -> None:
    """The topic's znode was written. Raises Violation."""
    for number, partition in partitions.items():
        was, now, state = before.partitions[number], after.partitions[number], partition.state
        if state is None or not (was.adding or was.removing) or now.adding or now.removing:
            continue
        over = f"{topic}-{number} counts as moved to {list(now.replicas)}, and"
        if not set(state.isr) <= set(now.replicas):
            raise Violation("MovedIsInSync", f"{over} the ISR is {list(state.isr)}")
        been = partition.been_in_sync
        never = [b for b in was.adding if b in now.replicas and b not in been]
        if never:
            raise Violation("MovedIsInSync", f"{over} {never} were never in the ISR")


def ended(tp: TopicPartition, target: tuple[int, ...], replicas: tuple[int, ...]) -> None:
    """``partitions_reassigned`` was removed, and is not there anew. Raises Violation."""
    if target != replicas:
        what = f"{tp} is to move to {list(target)} no more, and is on {list(replicas)}"
        raise Violation("EndedIsMoved", what)


def gone(
    topic: str, assigned: TopicAssignment, hosts: Iterable[tuple[int, TopicPartition]]
) -> None:
    """The topic's znode was removed; ``hosts``: who has replicas of it. Raises Violation."""
    for broker, tp in hosts:
        placed = assigned.partitions.get(tp.partition)
        if placed is not None and broker in placed.replicas:
            raise Violation(
                "GoneEverywhere", f"{topic} counts as deleted, and broker {broker} still has {tp}"
            )
