"""**OrdersAreSeen**: without a controller, who begins to lead a partition looks at it again when
its order is another one than he read.

A broker reads a partition, claims it, and is told of orders from then on. What was ordered between
the two it has not read, and nobody tells it of that again. That falls into a ms, so each is asked
what it would do if it had been so.
"""

import copy
from collections.abc import Callable
from dataclasses import replace

from ackproof.broker.coordination.hosting.leading import Leading
from ackproof.broker.coordination.nodes import Assigned
from ackproof.broker.coordination.outbox import Outbox
from ackproof.broker.types import ZkVersion
from simulation.violation import Violation


def begins(leading: Leading, begin: Callable[[Leading], None]) -> None:
    """It is about to ``begin``; raises Violation."""
    hosted = leading.partition
    if hosted.busy:
        return
    anew = Assigned(replicas=leading.assigned, version=ZkVersion(0), created=-1)
    twin, twins = copy.copy(leading), copy.copy(hosted)
    orders = {**hosted.context.orders, hosted.tp: anew}
    twins.context = replace(hosted.context, orders=orders, outbox=Outbox())
    twins.leading, twin.partition, twin._context = twin, twins, twins.context
    begin(twin)
    if not twins.busy:
        what = f"broker {hosted.context.me} begins to lead {hosted.tp}"
        raise Violation("OrdersAreSeen", f"{what}, and would not see what was ordered meanwhile")
