"""DecidedAgain: a controller that forgets what it has decided when somebody else was faster."""

from dataclasses import replace
from typing import Any

import pytest
from controlled import TP, in_office

from ackproof.broker.controller import events
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Event
from ackproof.broker.controller.intent import NOTHING
from ackproof.broker.controller.partitions import Partitions
from ackproof.broker.types import BrokerId
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.leadership.suspecting import Bounced
from simulation.observer.orders import decided_again
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

read_again = Partitions.read_again


def looked(*, without: int | None = None, isr: tuple[int, ...] = (1, 2, 3)) -> None:
    """A controller is in office, and looks who is there; raises Violation."""
    controller = in_office(4, (1, 2, 3), live=(1, 2, 3, 4), isr=isr)
    context = controller.context
    assert context is not None
    live = {broker: there for broker, there in context.live.items() if broker != without}
    event: Event = events.BrokersChanged(live=live)
    controller.step(event)
    decided_again.stepped(controller, event, Bounced())


@pytest.mark.parametrize("without", [None, 1, 3])
@pytest.mark.parametrize("isr", [(1,), (1, 2), (1, 2, 3)])
def test_it_decides_again(without: int | None, isr: tuple[int, ...]) -> None:
    looked(without=without, isr=isr)


def _dropped(self: Partitions, tp: Any, fresh: Any) -> bool:
    read_again(self, tp, fresh)
    return False


def _trusts(self: Partitions, tp: Any, fresh: Any) -> bool:
    decides = read_again(self, tp, fresh)
    self._context.intents[tp] = NOTHING
    return decides


def _is_another(self: Partitions, tp: Any, fresh: Any) -> bool:
    return read_again(self, tp, replace(fresh, isr=tuple(map(BrokerId, (1, 3)))))


@pytest.mark.parametrize(
    ("forgets", "instead"),
    [(_dropped, "nothing"), (_trusts, "nothing"), (_is_another, r"3, \[3\]")],
)
def test_it_decides_otherwise(forgets: Any, instead: str) -> None:
    with Mutation(Swap(Partitions, "read_again", forgets)).active():
        looked(isr=(1,))
        what = rf"DecidedAgain: 2 is to lead t-0 with the ISR \[2, 3\]: .*, {instead} would be"
        with pytest.raises(Violation, match=what):
            looked()


def _tells_all(self: Partitions, brokers: Any) -> None:
    context: Context = self._context
    for broker in brokers:
        if TP in context.states:
            self._outbox.batch.role(context, broker, TP, (BrokerId(1),))


def test_who_is_back_would_be_told_to_lead_on() -> None:
    with (
        Mutation(Swap(Partitions, "introduce", _tells_all)).active(),
        pytest.raises(Violation, match="BouncedDoNotLead: broker 1 is told that 1 leads t-0"),
    ):
        looked()
