"""Who is let into the ISR has all: broken once by hand, and kept where nobody is to blame."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.replication.events import Event, LeaderAndIsr, Tick, WriteIsr
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, Millis, ZkVersion
from simulation.observer.leadership import joining
from simulation.partition.invariants import Partition
from simulation.partition.shadow import Extent, Shadow
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

LEADER, FOLLOWER = BrokerId(1), BrokerId(3)
ISR = (LEADER, BrokerId(2))
EPOCH = LeaderEpoch(4)
BEGINS = 12
STATE = PartitionState(
    leader=LEADER,
    leader_epoch=EPOCH,
    isr=ISR,
    zk_version=ZkVersion(0),
    controller_epoch=ControllerEpoch(1),
)
ELECTED = LeaderAndIsr(
    controller_epoch=ControllerEpoch(1),
    leader=LEADER,
    leader_epoch=EPOCH,
    isr=ISR,
    replicas=(*ISR, FOLLOWER),
    zk_version=ZkVersion(0),
    now=Millis(0),
)
JOINS = WriteIsr(leader_epoch=EPOCH, isr=(*ISR, FOLLOWER), zk_version=ZkVersion(0))


def log(end: int) -> Shadow:
    return Shadow(0, [Extent(0, end, 0, 0)])


class Elected:
    """1 leads from ``BEGINS`` on, and knows so far of 10 that they are committed."""

    def __init__(self) -> None:
        self.partition = Partition("t-0", checks_data=True, note=lambda _: None)
        self.partition.state = STATE
        self.has(LEADER, BEGINS)
        self.high_watermark = 10
        self.step(ELECTED)
        self.has(LEADER, 20)

    def has(self, broker: int, end: int) -> None:
        self.partition.seat(broker).log = log(end)

    def step(self, event: Event, *effects: Any) -> None:
        leader: Any = SimpleNamespace(
            role=Role.LEADER, leader_epoch=EPOCH, isr=ISR, high_watermark=self.high_watermark
        )
        joining.stepped(LEADER, leader, self.partition, event, effects)

    def lets_in(self) -> None:
        self.step(Tick(now=Millis(1)), JOINS)


@pytest.fixture
def elected() -> Elected:
    return Elected()


@pytest.mark.parametrize(("end", "high_watermark"), [(10, 10), (11, 10), (12, 13), (0, 10)])
def test_who_lacks_some_is_not_let_in(elected: Elected, end: int, high_watermark: int) -> None:
    elected.has(FOLLOWER, end)
    elected.high_watermark = high_watermark
    with pytest.raises(Violation) as raised:
        elected.lets_in()
    assert raised.value.invariant == "JoinersHaveAll"


@pytest.mark.parametrize(("end", "high_watermark"), [(12, 10), (13, 13), (20, 13)])
def test_who_has_all_is(elected: Elected, end: int, high_watermark: int) -> None:
    elected.has(FOLLOWER, end)
    elected.high_watermark = high_watermark
    elected.lets_in()


def test_an_epoch_begins_where_it_was_first_heard_of(elected: Elected) -> None:
    elected.step(ELECTED)  # the ISR was written by a controller meanwhile
    elected.has(FOLLOWER, BEGINS)
    elected.lets_in()


def test_who_is_in_it_already_may_lack_what_is_not_committed(elected: Elected) -> None:
    elected.has(2, 0)
    elected.step(Tick(now=Millis(1)), replace(JOINS, isr=ISR))


def test_who_lost_power_had_all_when_it_asked(elected: Elected) -> None:
    elected.has(FOLLOWER, BEGINS)
    elected.partition.damaged(FOLLOWER, 5, now=0)
    elected.has(FOLLOWER, 5)
    elected.lets_in()


def test_a_leader_that_was_deposed_cannot_know(elected: Elected) -> None:
    elected.partition.state = replace(STATE, leader=BrokerId(2), leader_epoch=LeaderEpoch(5))
    elected.has(FOLLOWER, 8)
    elected.lets_in()
