"""Who waits to hear how full a queue is has asked in its session: judged by hand."""

from typing import Any, cast

import pytest

from broker.coordination.coordinator import Coordinator
from broker.coordination.events import Event, QueueSizeRead, ReadQueueSize, SessionExpired
from broker.types import BrokerId
from simulation.observer.leadership.counting import Counting
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

OTHER = BrokerId(2)
ASKS = ReadQueueSize(broker=OTHER)
ROOM = QueueSizeRead(broker=OTHER, size=0)


class Waiting:
    """A coordinator that waits for these."""

    def __init__(self) -> None:
        self.judge = Counting()
        self.counting: frozenset[BrokerId] = frozenset()

    def step(self, event: Event, *effects: Any, counting: tuple[BrokerId, ...]) -> None:
        self.counting = frozenset(counting)
        self.judge.stepped(cast(Coordinator, self), event, effects)


@pytest.fixture
def asked() -> Waiting:
    waiting = Waiting()
    waiting.step(ROOM, ASKS, counting=(OTHER,))
    return waiting


def test_what_was_asked_may_be_waited_for(asked: Waiting) -> None:
    asked.step(ROOM, counting=(OTHER,))
    asked.step(ROOM, counting=())


def test_what_was_asked_before_the_session_ended_is_not_waited_for(asked: Waiting) -> None:
    with pytest.raises(Violation, match=r"CountsAreAsked: waits .* of brokers \[2\] are"):
        asked.step(SessionExpired(), counting=(OTHER,))


def test_in_the_next_session_it_is_asked_anew(asked: Waiting) -> None:
    asked.step(SessionExpired(), counting=())
    asked.step(ROOM, ASKS, counting=(OTHER,))
