"""Who gives way, leads, leaves the ISR, and counts as deleted: broken by hand."""

from contextlib import nullcontext
from typing import Any

import pytest
from controlled import TP, led

from ackproof.broker.controller.context import TopicDeletion
from ackproof.broker.controller.events import StateWrite, WriteStates
from ackproof.broker.controller.phases.replica_state import ReplicaPhase
from ackproof.broker.controller.rules import plan
from ackproof.broker.controller.rules.election import Choice
from ackproof.broker.coordination.nodes import Assigned, PartitionView
from ackproof.broker.coordination.variants import Fenced, Printed, Variant
from ackproof.broker.types import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    ZkVersion,
)
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.leadership import deleting, giving_way
from simulation.violation import Violation

pytestmark = pytest.mark.simulation


class Obeying(Fenced):
    """Any close-replica."""

    def close_is_due(self, me: BrokerId, view: PartitionView) -> bool:  # noqa: ARG002
        return True


def assigned_to(brokers: tuple[int, ...] | None) -> Assigned | None:
    if brokers is None:
        return None
    return Assigned(replicas=tuple(map(BrokerId, brokers)), version=ZkVersion(0))


def elected(leader: int, isr: tuple[int, ...]) -> tuple[WriteStates]:
    write = StateWrite(
        partition=TP,
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(1),
        isr=tuple(BrokerId(b) for b in isr),
        controller_epoch=ControllerEpoch(1),
        expected=ZkVersion(0),
        broker_epochs={},
    )
    return (WriteStates(writes=(write,)),)


@pytest.mark.parametrize(
    ("isr", "live", "stopping", "leader"),
    [
        ((1,), (1, 2, 3), (1,), 1),  # alone in sync, it stays
        ((1,), (2, 3), (), NO_LEADER),  # until it is gone
        ((1,), (2, 3), (), 2),  # uncleanly
        ((1, 2), (1, 2), (1,), 2),
    ],
)
def test_who_is_gone_or_has_a_successor_gives_way(
    isr: Any, live: Any, stopping: Any, leader: int
) -> None:
    kept = isr if leader == NO_LEADER else (leader,)
    giving_way.stepped(led(isr, live=live, stopping=stopping), elected(leader, kept))


@pytest.mark.parametrize(
    ("isr", "live", "stopping", "leader", "able"),
    [
        ((1,), (1, 2, 3), (1,), NO_LEADER, 1),  # it is still there
        ((1,), (1, 2, 3), (1,), 2, 1),
        ((1, 2), (2, 3), (), NO_LEADER, 2),  # somebody else is in sync
        ((1, 2), (2, 3), (), 3, 2),
    ],
)
def test_nobody_else_is_elected_while_one_in_sync_is_left(
    isr: Any, live: Any, stopping: Any, leader: int, able: int
) -> None:
    found = led(isr, live=live, stopping=stopping)
    with pytest.raises(Violation, match=rf"LeadersStay: .*though \[{able}\] could lead"):
        giving_way.stepped(found, elected(leader, isr if leader == NO_LEADER else (leader,)))


def test_who_stops_with_the_last_leader_stays_in_sync() -> None:
    found = led((1, 2, 3), live=(1, 2), stopping=(1, 2))
    giving_way.stepped(found, elected(1, (1, 2)))
    with pytest.raises(Violation, match=r"LeadersStay: 1 leads t-0 .*\[2\], who stop with it"):
        giving_way.stepped(found, elected(1, (1,)))


@pytest.mark.parametrize("isr", [(1,), (1, 2), (2,)])
def test_a_leader_that_is_asked_to_stop_leads_until_it_is_gone(isr: Any) -> None:
    giving_way.settled(led(isr, live=(1, 2, 3)))


@pytest.mark.parametrize("leader", [NO_LEADER, 3])
def test_who_would_give_way_is_found(leader: int) -> None:
    def unfair(*_: Any, **__: Any) -> Choice:
        return Choice(BrokerId(leader), (BrokerId(3),))

    with Mutation(Swap(plan, "choose", unfair)).active():
        giving_way.settled(led((1,), live=(2, 3)))
        with pytest.raises(Violation, match=r"LeadersStay: 1 .*though \[1\] could lead"):
            giving_way.settled(led((1, 2), live=(1, 3)))


@pytest.mark.parametrize("isr", [(1,), (3,), (1, 3)])
def test_nobody_leads_where_nobody_could(isr: Any) -> None:
    giving_way.settled(led(isr, live=(2,)))


def test_nobody_leads_where_somebody_could() -> None:
    found = led((1, 2, 3), live=(2,))
    with pytest.raises(Violation, match=r"EligibleLead: nobody leads t-0, though \[2\] could"):
        giving_way.settled(found)
    (found.writing[TP],) = elected(2, (2,))[0].writes
    giving_way.settled(found)


def test_the_dead_are_written_into_an_isr() -> None:
    found = led((1, 2, 3), live=(1, 2))
    giving_way.stepped(found, elected(2, (2, 1)))
    with pytest.raises(Violation, match=r"DeadLeaveIsr: 2 is to lead t-0, and \[3\]"):
        giving_way.stepped(found, elected(2, (2, 3)))


def test_the_dead_would_stay_in_the_isr_of_who_stops() -> None:
    def keeps(state: Any, *_: Any, **__: Any) -> Choice:
        return Choice(state.leader, state.isr)

    with Mutation(Swap(plan, "choose", keeps)).active():
        giving_way.settled(led((1,), live=(1, 2)))
        with pytest.raises(Violation, match=r"DeadLeaveIsr: if 1, .* \[1, 2\] would be its ISR"):
            giving_way.settled(led((1, 2), live=(1, 2)))


@pytest.mark.parametrize(
    ("variant", "moving_to", "me", "breaks"),
    [
        (Fenced, None, 1, False),
        (Obeying, None, 1, True),
        (Obeying, (2, 3), 2, True),
        (Obeying, (), 1, False),  # it is to be deleted
        (Obeying, None, 3, False),  # nobody wants it there
        (Printed, None, 1, False),
    ],
)
def test_who_is_to_have_it_does_not_delete_it(
    variant: type[Variant], moving_to: tuple[int, ...] | None, me: int, *, breaks: bool
) -> None:
    view = PartitionView(replicas=assigned_to((1, 2)), reassigned=assigned_to(moving_to))
    with pytest.raises(Violation, match="HostedIsNotClosed") if breaks else nullcontext():
        deleting.read(BrokerId(me), TP, view, variant())


def test_who_is_assigned_has_not_deleted_it() -> None:
    found = led((1, 2), live=(1, 2, 3))
    phases = found.replica_phases
    for phase in (ReplicaPhase.NEW, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED):
        phases.move(TP, BrokerId(2), phase)
        deleting.check(found)
    phases.move(TP, BrokerId(2), ReplicaPhase.DELETION_SUCCESSFUL)
    with pytest.raises(
        Violation, match="HostedIsNotDeleted: broker 2 counts as one that has deleted t-0"
    ):
        deleting.check(found)
    found.deletions["t"] = TopicDeletion.STARTED
    deleting.check(found)


def test_all_of_a_topic_that_is_being_deleted_is() -> None:
    found = led((1, 2), live=(1, 2, 3))
    phases = found.replica_phases
    phases.move(TP, BrokerId(1), ReplicaPhase.NEW)
    deleting.check(found)
    found.deletions["t"] = TopicDeletion.ORDERED
    deleting.check(found)
    found.deletions["t"] = TopicDeletion.STARTED
    with pytest.raises(Violation, match="DeletionsGetOn: t is being deleted, and t-0 on broker 1"):
        deleting.check(found)
    (write,) = elected(2, (1, 2))[0].writes
    found.writing[TP] = write
    deleting.check(found)
    del found.writing[TP]
    phases.move(TP, BrokerId(1), ReplicaPhase.OFFLINE)
    phases.move(TP, BrokerId(1), ReplicaPhase.DELETION_INELIGIBLE)
    deleting.check(found)
