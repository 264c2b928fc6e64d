"""HandsOver: answers of a controller, broken by hand."""

from typing import Any

import pytest
from controlled import TP, led
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.events import AnswerShutdown
from simulation.observer.leadership import handing_over
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

REMAINS = AnswerShutdown(token=1, error=ErrorCode.none, remaining=(TP,))


@pytest.mark.parametrize(
    ("isr", "live", "stopping"),
    [
        ((1,), (1, 2, 3), (1,)),  # nobody else is in sync
        ((1, 2), (1, 3), (1,)),  # who is, is away
        ((1, 2), (1, 2), (1, 2)),  # or stops, too
    ],
)
def test_where_nobody_can_lead_a_leadership_remains(isr: Any, live: Any, stopping: Any) -> None:
    handing_over.check(led(isr, live=live, stopping=stopping), REMAINS)


def test_where_another_can_lead_none_remains() -> None:
    for stopping in ((1,), ()):
        found = led((1, 2), live=(1, 2), stopping=stopping)
        with pytest.raises(Violation, match=r"HandsOver: broker 1 keeps leading .*\[2\] could"):
            handing_over.check(found, REMAINS)
        handing_over.check(found, AnswerShutdown(token=1, error=ErrorCode.none))
