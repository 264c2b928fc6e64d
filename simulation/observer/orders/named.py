"""**NamedAreRemembered**: without a controller, an order that takes another one's place names whom
that had named, and it names no more.

Whoever is named may have started a replica, and nobody else knows of it when its leader gives way:
it would keep that for good, and fetch on. That three orders come within the time of one is rare: of
each order it is looked at what the next two would say, if they took its place.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple

from ackproof.broker.coordination.nodes import Assigned, PartitionView
from ackproof.broker.types import BrokerId, ZkVersion
from simulation.violation import Violation

Replicas = tuple[BrokerId, ...]


class Order(NamedTuple):
    """``partitions_reassigned`` of a partition."""

    target: Replicas
    removing: Replicas


def replaced(partition: object, former: Order, now: Order, assigned: Collection[BrokerId]) -> None:
    """In one transaction; raises Violation."""
    named = {*former.target, *former.removing} - {*assigned, *now.target}
    forgotten = sorted(named - {*now.removing})
    if forgotten:
        what = f"{partition} is to move to {list(now.target)} instead of {list(former.target)}"
        raise Violation("NamedAreRemembered", f"{what}, and nobody remembers {forgotten}")


def if_replaced(
    view: PartitionView,
    target: Replicas,
    removing: Callable[[PartitionView, Replicas], Replicas],
) -> None:
    """An order to ``target`` is about to be written, and two more come; ``removing`` says whom each
    names. Raises Violation."""
    for following in (view.assigned, view.assigned[:1]):
        order = Order(target, removing(view, target))
        there = Assigned(replicas=target, version=ZkVersion(0), removing=order.removing)
        view = replace(view, reassigned=there)
        now = Order(following, removing(view, following))
        replaced("a partition", order, now, view.assigned)
        target = following
