"""**NamedAreRemembered**: without a controller, an order that takes another one's place names whom
that had named, and it names no more.

Whoever is named may have started a replica, and nobody else knows of it when its leader gives way:
it would keep that for good, and fetch on. That three orders come within the time of one, and that
the first one's broker has begun by then, is rare.
"""

from collections.abc import Collection
from typing import NamedTuple

from broker.types import BrokerId, TopicPartition
from simulation.violation import Violation


class Order(NamedTuple):
    """``partitions_reassigned`` of a partition."""

    target: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


def replaced(tp: TopicPartition, former: Order, now: Order, assigned: Collection[BrokerId]) -> None:
    """In one transaction; raises Violation."""
    named = {*former.target, *former.removing} - {*assigned, *now.target}
    forgotten = sorted(named - {*now.removing})
    if forgotten:
        what = f"{tp} is to move to {list(now.target)} instead of {list(former.target)}"
        raise Violation("NamedAreRemembered", f"{what}, and nobody remembers {forgotten}")
