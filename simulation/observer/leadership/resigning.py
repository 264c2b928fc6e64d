"""**WaitingAreTold**: who leads a partition no more, or ceases to be the controller, keeps nobody
waiting.

A leader that resigns does not know what becomes of the records that wait for its followers, and
says so at once (Kafka's ``Partition.makeFollower`` completes what is delayed); a controller that
resigns has whoever asked it ask the next one. Nobody else would answer them, nor would a timer:
only leaders look at the clock.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from ackproof.broker.replication.replica import Role
from ackproof.broker.server.replication import partition as server
from simulation.violation import Violation

INVARIANT = "WaitingAreTold"


def stepped(broker: int, hosted: server.Partition) -> None:
    """A replica has taken something in; raises Violation."""
    if hosted.waiting_producers and hosted.replica.role is not Role.LEADER:
        what = f"{hosted.waiting_producers} producers wait at broker {broker}"
        raise Violation(INVARIANT, f"{hosted.tp}: {what}, which is {hosted.replica.role.value}")


def of_office(broker: int, questions: Iterable["asyncio.Future[Any]"]) -> None:
    """A broker is the controller no more, of which these were asked; raises Violation."""
    left = [question for question in questions if not question.done()]
    if left:
        what = f"{len(left)} who asked it as the controller are never answered"
        raise Violation(INVARIANT, f"broker {broker} is that no more, and {what}")
