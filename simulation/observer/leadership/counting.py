"""How full other brokers' queues are, without a controller.

**CountsAreAsked**: who waits to hear that has asked in this session. What was asked in the one
before is never answered. Whatever is sent to that broker later would wait
with it, in one request: reassignments and deletions would hang until the process ends. A session
seldom ends within the one way there and back, and what hangs then is seldom sent again.

**RoomIsMade**: a request is refused by a queue that is full still when what is superfluous is out
of it, and by no other; and nothing else is taken out of it. Ten thousand requests are in no queue
here: whoever hears that there is room is asked what it would do if there were room for two, and two
in it. Those of one partition make room, of two none; but as printed start-replica requests do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from ackproof.broker.coordination.context import Context
from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.events import (
    Effect,
    Event,
    QueueRead,
    QueueSizeRead,
    ReadQueue,
    ReadQueueSize,
    Refused,
    SessionExpired,
)
from ackproof.broker.coordination.nodes import Change, QueuedRequest, StateChangeRequest
from ackproof.broker.coordination.outbox import Outbox
from ackproof.broker.coordination.queues.sending import Sender
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition
from simulation.violation import Violation

Hear = Callable[[Sender, QueueSizeRead], None]

ROOM: Final = 2


class Counting:
    """What all coordinators have asked, each in its session."""

    def __init__(self) -> None:
        self._asked: WeakKeyDictionary[Coordinator, set[BrokerId]] = WeakKeyDictionary()

    def stepped(self, coordinator: Coordinator, event: Event, effects: tuple[Effect, ...]) -> None:
        """Raises Violation."""
        asked = self._asked.setdefault(coordinator, set())
        if type(event) is SessionExpired:
            asked.clear()
        asked.update(each.broker for each in effects if type(each) is ReadQueueSize)
        never = sorted(coordinator.counting - asked)
        if never:
            what = f"waits to hear how full the queues of brokers {never} are"
            raise Violation("CountsAreAsked", f"{what}, and has not asked in this session")


def if_full(sender: Sender, broker: BrokerId, hear: Hear) -> None:
    """It is about to ``hear`` how full this broker's queue is; raises Violation."""
    if broker not in sender.waits_for:
        return
    keeps = not sender._context.variant.as_printed
    for change in (Change.START_REPLICA, Change.CLOSE_REPLICA):
        for partitions in (1, ROOM):
            refuses = partitions == ROOM and (keeps or change is Change.CLOSE_REPLICA)
            if _refuses(sender, broker, hear, _entries(broker, change, partitions)) != refuses:
                would = "would be refused" if not refuses else "would not be refused"
                what = f"{ROOM} of {change.value} for {partitions} partitions"
                raise Violation(
                    "RoomIsMade",
                    f"a request to broker {broker}, in whose queue are {what} and room for {ROOM}, "
                    f"{would}",
                )


def _refuses(
    sender: Sender, broker: BrokerId, hear: Hear, entries: tuple[QueuedRequest, ...]
) -> bool:
    """A sender that waits for the same, and nobody carries out what it decides."""
    context = sender._context
    settings = replace(context.settings, state_change_queue_max=ROOM)
    twin = Sender(Context(settings=settings, variant=context.variant, outbox=Outbox()))
    twin._jobs = [
        replace(job, unknown={broker}, full=set(), then=lambda _: None, before=lambda: None)
        for job in sender._jobs
        if broker in job.unknown
    ]
    outbox = twin._context.outbox
    hear(twin, QueueSizeRead(broker=broker, size=ROOM))
    for effect in outbox.drain():
        if type(effect) is ReadQueue:
            outbox.queue_read(QueueRead(token=effect.token, entries=entries))
    return any(type(effect) is Refused for effect in outbox.drain())


def _entries(broker: BrokerId, change: Change, partitions: int) -> tuple[QueuedRequest, ...]:
    return tuple(
        QueuedRequest(
            name=f"{number:010d}",
            request=StateChangeRequest(
                change=change,
                partition=TopicPartition("in no plan", number % partitions),
                leader=broker,
                epoch=LeaderEpoch(0),
            ),
        )
        for number in range(ROOM)
    )
