"""Who is to give a leadership back does, or knows when: judged by hand."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ackproof.broker.coordination.hosting.partition import HostedPartition
from ackproof.broker.types import BrokerId, Millis, TopicPartition
from simulation.observer.leadership import giving_back
from simulation.violation import Violation

pytestmark = pytest.mark.simulation


class Led(SimpleNamespace):
    """A leadership."""

    @property
    def next_tick(self) -> Millis | None:
        return self.partition.give_back_after if self.offers_again else None


def led(
    *isr: int,
    me: int = 2,
    serves: bool = True,
    busy: bool = False,
    balancing: bool = True,
    next_tick: int | None = None,
    offers_again: bool = True,
) -> HostedPartition:
    """Of 1 and 2, of which 1 is the preferred replica."""
    settings = SimpleNamespace(load_balancing=balancing)
    assigned = BrokerId(1), BrokerId(2)
    leading = Led(serves=serves, assigned=assigned, isr=isr, offers_again=offers_again)
    hosted: Any = SimpleNamespace(
        tp=TopicPartition("t", 0),
        leading=leading,
        busy=busy,
        context=SimpleNamespace(me=BrokerId(me), settings=settings, now=Millis(1_000)),
        next_tick=None if next_tick is None else Millis(next_tick),
    )
    return cast(HostedPartition, hosted)


def test_who_will_not_look_again_does_not_give_back() -> None:
    with pytest.raises(Violation, match="GivesBack: broker 2 leads t-0, and 1 is to"):
        giving_back.judge(led(1, 2))


def test_who_would_not_offer_it_again_does_not_give_back() -> None:
    with pytest.raises(Violation, match=r"GivesBack: broker 2, .* would not offer it again"):
        giving_back.judge(led(1, 2, next_tick=5_000, offers_again=False))


@pytest.mark.parametrize(
    "hosted",
    [
        led(1, 2, next_tick=5_000),
        led(1, 2, busy=True),
        led(1, 2, serves=False),
        led(1, 2, balancing=False),
        led(1, 2, me=1),
        led(2),
    ],
    ids=["later", "at it", "before it serves", "not at all", "is preferred", "not in sync"],
)
def test_others_owe_nothing_now(hosted: HostedPartition) -> None:
    giving_back.judge(hosted)
