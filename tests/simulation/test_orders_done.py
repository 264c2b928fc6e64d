"""What a controller writes when a move or a deletion is over, judged: broken once and kept once."""

from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.controller.cluster import PartitionState, ReplicaAssignment, TopicAssignment
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from simulation.observer.leadership import orders_done
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)


def brokers(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(each) for each in ids)


def topic(
    *replicas: int, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()
) -> TopicAssignment:
    assigned = ReplicaAssignment(
        replicas=brokers(*replicas), adding=brokers(*adding), removing=brokers(*removing)
    )
    return TopicAssignment(topic_id=None, partitions={0: assigned})


def states(*isr: int, been: tuple[int, ...] = (1, 2, 3, 4)) -> dict[int, Any]:
    led = PartitionState(
        leader=BrokerId(isr[0]),
        leader_epoch=LeaderEpoch(3),
        isr=brokers(*isr),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(7),
    )
    return {0: SimpleNamespace(state=led, been_in_sync=set(been))}


MOVING = topic(3, 4, 1, 2, adding=(3, 4), removing=(1, 2))


@pytest.mark.parametrize("isr", [(3, 4), (4, 3), (3,)])  # of the last one 4 has dropped out since
def test_a_move_may_be_over_when_the_isr_has_left_who_is_removed(isr: tuple[int, ...]) -> None:
    orders_done.moved("t", MOVING, topic(3, 4), states(*isr))


@pytest.mark.parametrize("isr", [(3, 4, 1), (1,)])
def test_a_move_is_not_over_while_who_is_removed_is_in_sync(isr: tuple[int, ...]) -> None:
    with pytest.raises(Violation, match=r"MovedIsInSync: t-0 counts as moved to \[3, 4\]"):
        orders_done.moved("t", MOVING, topic(3, 4), states(*isr))


def test_a_move_is_not_over_before_who_was_added_has_been_in_sync() -> None:
    with pytest.raises(Violation, match=r"MovedIsInSync: .* and \[4\] were never in the ISR"):
        orders_done.moved("t", MOVING, topic(3, 4), states(3, been=(1, 2, 3)))


def test_as_long_as_it_is_under_way_any_isr_will_do() -> None:
    orders_done.moved("t", topic(1, 2), MOVING, states(1, 2))
    orders_done.moved("t", MOVING, MOVING, states(1, 3))


def test_of_a_partition_that_never_had_a_leader_nothing_is_in_sync() -> None:
    orders_done.moved(
        "t", MOVING, topic(3, 4), {0: SimpleNamespace(state=None, been_in_sync=set())}
    )


def test_a_move_is_no_more_when_it_is_made() -> None:
    orders_done.ended(TP, brokers(2, 3), brokers(2, 3))
    with pytest.raises(
        Violation, match=r"EndedIsMoved: t-0 is to move to \[2, 3\] no more, and is"
    ):
        orders_done.ended(TP, brokers(2, 3), brokers(1, 2))


def test_a_topic_is_gone_when_none_of_its_replicas_has_it() -> None:
    orders_done.gone("t", topic(1, 2), ())
    orders_done.gone("t", topic(1, 2), [(3, TP)])  # moved away from 3, which has not heard of it
    with pytest.raises(Violation, match=r"GoneEverywhere: .* broker 2 still has t-0"):
        orders_done.gone("t", topic(1, 2), [(2, TP)])
