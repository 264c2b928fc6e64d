"""**CountsAreAsked**: without a controller, who waits to hear how full a queue is has asked in this
session.

What was asked in the one before is never answered. Whatever is sent to that broker later would wait
with it, in one request: reassignments and deletions would hang until the process ends. A session
seldom ends within the one way there and back, and what hangs then is seldom sent again.
"""

from weakref import WeakKeyDictionary

from broker.coordination.coordinator import Coordinator
from broker.coordination.events import Effect, Event, ReadQueueSize, SessionExpired
from broker.types import BrokerId
from simulation.violation import Violation


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
