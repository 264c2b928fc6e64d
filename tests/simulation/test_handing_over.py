"""HandsOver: answers of a controller, broken by hand."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from broker.controller.cluster import BrokerInfo, LiveBroker, PartitionState
from broker.controller.context import Context
from broker.controller.events import AnswerShutdown
from broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from simulation.observer.leadership import handing_over
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)


def context(isr: tuple[int, ...], *, live: tuple[int, ...], stopping: tuple[int, ...]) -> Context:
    """Broker 1 leads."""
    made = Context(ControllerEpoch(1), waits_for_isr=False)
    made.live = {
        BrokerId(b): LiveBroker(info=BrokerInfo(broker_id=BrokerId(b), endpoints=()), epoch=1)
        for b in live
    }
    made.stopping = {BrokerId(b) for b in stopping}
    made.states[TP] = PartitionState(
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(0),
        isr=tuple(BrokerId(b) for b in isr),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(0),
        mzxid=5,
    )
    return made


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
    handing_over.check(context(isr, live=live, stopping=stopping), REMAINS)


def test_where_another_can_lead_none_remains() -> None:
    for stopping in ((1,), ()):
        found = context((1, 2), live=(1, 2), stopping=stopping)
        with pytest.raises(Violation, match=r"HandsOver: broker 1 keeps leading .*\[2\] could"):
            handing_over.check(found, REMAINS)
        handing_over.check(found, AnswerShutdown(token=1, error=ErrorCode.none))
