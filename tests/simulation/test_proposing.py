"""One ISR at a time: proposed twice by hand, and once more where that is right."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.replication.events import (
    Event,
    FollowerFetch,
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    LeaderAndIsr,
    WriteIsr,
)
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, Millis, Offset, ZkVersion
from simulation.observer.leadership import proposing
from simulation.partition.invariants import Partition
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

LEADER, MEMBER, JOINING = BrokerId(1), BrokerId(2), BrokerId(3)
EPOCH = LeaderEpoch(4)
JOINS = WriteIsr(leader_epoch=EPOCH, isr=(LEADER, MEMBER, JOINING), zk_version=ZkVersion(7))
FETCH = FollowerFetch(
    replica=JOINING, offset=Offset(5), log_start_offset=Offset(0), now=Millis(1_000)
)
TOLD = LeaderAndIsr(
    controller_epoch=ControllerEpoch(2),
    leader=LEADER,
    leader_epoch=EPOCH,
    isr=(LEADER, MEMBER),
    replicas=(LEADER, MEMBER, JOINING),
    zk_version=ZkVersion(7),
    now=Millis(900),
)
WRITTEN = IsrWritten(leader_epoch=EPOCH, isr=JOINS.isr, zk_version=ZkVersion(8))


class Leading:
    """1 leads, and has proposed to let 3 in."""

    def __init__(self) -> None:
        self.partition = Partition("t-0", checks_data=True, note=lambda _: None)
        self.role, self.epoch, self.version = Role.LEADER, EPOCH, ZkVersion(7)
        self.step(FETCH, JOINS)

    def step(self, event: Event, *effects: Any) -> None:
        leader: Any = SimpleNamespace(
            role=self.role, leader_epoch=self.epoch, zk_version=self.version
        )
        proposing.stepped(LEADER, leader, self.partition, event, effects)


@pytest.fixture
def leading() -> Leading:
    return Leading()


@pytest.mark.parametrize(
    "heard",
    [
        FETCH,
        TOLD,
        IsrWriteFailed(leader_epoch=EPOCH, conflict=True),
        IsrRefused(leader_epoch=LeaderEpoch(3)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_what_says_nothing_of_the_proposal_makes_no_other_one(
    leading: Leading, heard: Event
) -> None:
    leading.step(heard)
    with pytest.raises(Violation, match="OneIsrAtATime: t-0: leader 1 proposes the ISR"):
        leading.step(FETCH, JOINS)


@pytest.mark.parametrize(
    "heard",
    [IsrWriteFailed(leader_epoch=EPOCH, conflict=False), IsrRefused(leader_epoch=EPOCH)],
    ids=lambda event: type(event).__name__,
)
def test_what_is_heard_of_it_makes_another_one(leading: Leading, heard: Event) -> None:
    leading.step(heard)
    leading.step(FETCH, JOINS)


def test_a_newer_state_makes_another_one(leading: Leading) -> None:
    leading.version = ZkVersion(8)
    leading.step(WRITTEN)
    leading.step(FETCH, replace(JOINS, isr=(LEADER, MEMBER), zk_version=ZkVersion(8)))


def test_another_epoch_makes_another_one(leading: Leading) -> None:
    leading.epoch = LeaderEpoch(5)
    leading.step(replace(TOLD, leader_epoch=LeaderEpoch(5)))
    leading.step(FETCH, replace(JOINS, leader_epoch=LeaderEpoch(5)))
