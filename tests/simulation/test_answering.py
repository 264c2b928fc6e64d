"""AnsweredIsWritten: a controller that answers too early, or not at all."""

import uuid
from typing import Any

import pytest
from controlled import ENDPOINT

from broker.controller import events
from broker.controller.cluster import (
    BrokerInfo,
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from broker.controller.controller import Controller
from broker.controller.events import Event
from broker.controller.pending import Pending, Pendings
from broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
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
    controller = Controller(BrokerId(3))
    state = PartitionState(
        leader=LEADER,
        leader_epoch=LeaderEpoch(0),
        isr=(PREFERRED, LEADER),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(0),
        mzxid=5,
    )
    assigned = ReplicaAssignment(replicas=(PREFERRED, LEADER))
    topic = TopicAssignment(topic_id=uuid.UUID(int=1), partitions={0: assigned, 1: assigned})
    infos = [BrokerInfo(broker_id=each, endpoints=(ENDPOINT,)) for each in (LEADER, PREFERRED)]
    controller.step(
        events.Elected(
            epoch=ControllerEpoch(2),
            live={info.broker_id: LiveBroker(info=info, epoch=1) for info in infos},
            topics={"t": topic},
            states=dict.fromkeys(TPS, state),
            unclean=frozenset(),
            waits_for_isr=True,
        )
    )
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
