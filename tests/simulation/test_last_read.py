"""LastReadCounts: a controller that goes by what a topic allowed once."""

from typing import Any

import pytest
from controlled import TP, in_office

from ackproof.broker.controller import events
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.controller import Controller
from ackproof.broker.controller.elections import Elections
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.orders import unclean
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TOPIC = TP.topic
changed = Elections.unclean_changed


def in_charge() -> tuple[Controller, Context]:
    """Of t, which allows no unclean elections."""
    controller = in_office(1, (1, 2), live=(1, 2), isr=(1, 2))
    assert controller.context is not None
    return controller, controller.context


def looked() -> None:
    """A controller has looked at what topics there are; raises Violation."""
    controller, context = in_charge()
    event = events.TopicsChanged(topics={TOPIC: context.topics[TOPIC]})
    controller.step(event)
    unclean.stepped(controller, event)


class _NeverLess(set[str]):
    def __sub__(self, _other: object) -> Any:
        return self


def _allows_for_good(self: Elections, enabled: Any) -> None:
    changed(self, enabled)
    self._context.unclean = _NeverLess(self._context.unclean)


def test_what_was_read_last_counts() -> None:
    looked()


def test_what_was_allowed_once_is_allowed_for_good() -> None:
    with (
        Mutation(Swap(Elections, "unclean_changed", _allows_for_good)).active(),
        pytest.raises(Violation, match=r"LastReadCounts: if .* of t are not allowed, and would be"),
    ):
        looked()


@pytest.mark.parametrize("allowed", [True, False])
def test_what_was_just_read_is_not_what_counts(*, allowed: bool) -> None:
    controller, context = in_charge()
    event = events.UncleanElectionsChanged(enabled={TOPIC: allowed})
    controller.step(event)
    unclean.stepped(controller, event)
    context.unclean = set() if allowed else {TOPIC}
    with pytest.raises(Violation, match="LastReadCounts: unclean elections of t are"):
        unclean.stepped(controller, event)
