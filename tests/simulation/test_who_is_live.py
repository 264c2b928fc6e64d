"""Each leadership asks who is live, where there is no controller."""

from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.events import (
    BrokersRead,
    Event,
    ReadBrokers,
    SessionStarted,
    Tick,
)
from ackproof.broker.coordination.variants import Fenced, Printed
from ackproof.broker.types import BrokerId, TopicPartition
from simulation.observer.moments.who_is_live import Asking
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

READ = BrokersRead(live=frozenset({BrokerId(1)}))


class Leads(SimpleNamespace):
    """A coordinator with one leadership."""

    def step(self, event: Event, *effects: Any, live: Any = None) -> None:
        leading = SimpleNamespace(_live=live)
        self._hosted = {TopicPartition("t", 0): SimpleNamespace(leading=leading)}
        coordinator: Any = self
        self.judge.stepped(coordinator, event, effects)

    __hash__ = Coordinator.__hash__


def leads(variant: Any) -> Leads:
    return Leads(judge=Asking(), _context=SimpleNamespace(variant=variant))


def test_who_waits_to_learn_it_has_asked() -> None:
    leader = leads(Fenced())
    leader.step(Tick(), ReadBrokers())
    leader.step(Tick())
    leader.step(READ, live=READ.live)
    leader.step(Tick(), live=READ.live)
    with pytest.raises(Violation, match="LiveAreAsked: a leader of t-0 waits"):
        leader.step(Tick())


def test_what_was_asked_in_a_former_session_is_not_answered() -> None:
    for variant in (Fenced(), Printed()):
        leader = leads(variant)
        leader.step(Tick(), ReadBrokers())
        if isinstance(variant, Printed):
            leader.step(SessionStarted(session=2))
        else:
            with pytest.raises(Violation, match="LiveAreAsked"):
                leader.step(SessionStarted(session=2))
