"""AnsweredIsWritten: a controller that answers too early, or not at all."""

from typing import Any

import pytest
from controlled import in_office

from ackproof.broker.controller import events
from ackproof.broker.controller.events import Event
from ackproof.broker.controller.pending import Pending, Pendings
from ackproof.broker.types import BrokerId, TopicPartition
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.orders import answering
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TPS = TopicPartition("t", 0), TopicPartition("t", 1)
LEADER, PREFERRED = BrokerId(1), BrokerId(2)

STOPS = events.ControlledShutdownAsked(broker=LEADER, broker_epoch=1, token=7)
PREFERS = events.ElectionAsked(partitions=TPS, unclean=False, token=7)


def asked(event: Event) -> None:
    """Of two partitions that 1 leads, and 2 could; raises Violation."""
    controller = in_office(3, (2, 1), live=(1, 2), isr=(2, 1), partitions=2)
    controller.step(event)
    assert controller.context is not None
    assert controller.context.writing.keys() == set(TPS)
    answering.stepped(controller, event)


def _with_the_first(self: Pendings, writing: Any) -> tuple[Pending, ...]:
    settled = tuple(p for p in self._waiting if not all(tp in writing for tp in p.partitions))
    self._waiting = tuple(pending for pending in self._waiting if pending not in settled)
    return settled


def _never(_self: Pendings, _writing: Any) -> tuple[Pending, ...]:
    return ()


@pytest.mark.parametrize("event", [STOPS, PREFERS])
def test_who_asks_is_answered_when_all_is_written(event: Event) -> None:
    asked(event)
    for wrong, found in (
        (_with_the_first, r"told before \['t-1'\] are written"),
        (_never, "never be answered"),
    ):
        with (
            Mutation(Swap(Pendings, "take_settled", wrong)).active(),
            pytest.raises(Violation, match=f"AnsweredIsWritten: .*{found}"),
        ):
            asked(event)
