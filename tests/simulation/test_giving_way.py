"""LeadersStay and HostedIsNotDeleted: what a controller decides, broken by hand."""

from typing import Any

import pytest
from controlled import TP, led

from broker.controller.context import TopicDeletion
from broker.controller.events import StateWrite, WriteStates
from broker.controller.phases.replica_state import ReplicaPhase
from broker.types import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    ZkVersion,
)
from simulation.observer.leadership import deleting, giving_way
from simulation.violation import Violation

pytestmark = pytest.mark.simulation


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
    giving_way.stepped(led(isr, live=live, stopping=stopping), elected(leader, isr))


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
        giving_way.stepped(found, elected(leader, isr))


def test_who_is_assigned_has_not_deleted_it() -> None:
    found = led((1, 2), live=(1, 2, 3))
    phases = found.replica_phases
    for phase in (ReplicaPhase.NEW, ReplicaPhase.OFFLINE, ReplicaPhase.DELETION_STARTED):
        phases.move(TP, BrokerId(2), phase)
        deleting.check(found)
    phases.move(TP, BrokerId(2), ReplicaPhase.DELETION_SUCCESSFUL)
    with pytest.raises(Violation, match="HostedIsNotDeleted: broker 2 is to have t-0"):
        deleting.check(found)
    found.deletions["t"] = TopicDeletion.STARTED
    deleting.check(found)
