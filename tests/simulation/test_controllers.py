"""The invariants of controllers: each is broken once and kept once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.controller.events import AnswerShutdown, StateWrite, WriteStates
from ackproof.broker.controller.requests import RequestBatch
from ackproof.broker.types import NO_LEADER, BrokerId, ZkVersion
from simulation.model.controller import ControllerModel, check_leaders
from tests.support.oracles.violations import violates
from tests.support.worlds.controlled_partition import TP, assigned, comes, led

pytestmark = pytest.mark.simulation

# --- brokers that registered again -----------------------------------------------------------

FIRST, SECOND = IN_SYNC = (BrokerId(1), BrokerId(2))
STATE = PartitionState(
    leader=FIRST, leader_epoch=4, isr=IN_SYNC, controller_epoch=1, zk_version=7,
    broker_epochs={FIRST: 10, SECOND: 10}, mzxid=50,
)  # fmt: skip


class Bounces:
    """Broker 1 leads, broker 2 is in the ISR with its tenth registration, and nothing has
    changed."""

    def __init__(self) -> None:
        self.judge = ControllerModel()
        self.context = assigned(IN_SYNC)
        self.context.states[TP] = STATE
        for broker in IN_SYNC:
            comes(self.context, broker, 10)
        self.steps()

    def reads(self, *isr: BrokerId, lives: Mapping[BrokerId, int], mzxid: int) -> None:
        known = self.context.states[TP]
        version = ZkVersion(known.zk_version + 1)
        self.context.states[TP] = replace(
            known, isr=isr, zk_version=version, broker_epochs=lives, mzxid=mzxid
        )
        self.steps()

    def steps(self) -> None:
        self.judge.check_bounced_brokers(self.context, ())


@pytest.fixture
def bounces() -> Bounces:
    return Bounces()


def test_bounced_member_in_the_isr_is_a_violation(bounces: Bounces) -> None:
    comes(bounces.context, SECOND, 60)
    with violates(r"Isr/restarted-broker-stays: t-0: brokers \[2\], which restarted"):
        bounces.steps()


def test_bounced_member_may_stay_without_a_leader(bounces: Bounces) -> None:
    bounces.context.states[TP] = replace(STATE, leader=NO_LEADER)
    comes(bounces.context, SECOND, 60)
    bounces.steps()


def test_bounced_member_outside_the_isr_is_allowed(bounces: Bounces) -> None:
    comes(bounces.context, SECOND, 60)
    bounces.reads(FIRST, lives={FIRST: 10}, mzxid=61)


def test_member_that_joins_after_it_bounced_is_allowed(bounces: Bounces) -> None:
    """Test a join by a leader that did not see the registration yet."""
    bounces.reads(FIRST, lives={FIRST: 10}, mzxid=51)
    comes(bounces.context, SECOND, 60)
    bounces.reads(FIRST, SECOND, lives={FIRST: 10, SECOND: 0}, mzxid=61)


def test_member_that_joined_before_it_bounced_is_a_violation(bounces: Bounces) -> None:
    bounces.reads(FIRST, lives={FIRST: 10}, mzxid=51)
    comes(bounces.context, SECOND, 60)
    with violates("Isr/restarted-broker-stays"):
        bounces.reads(FIRST, SECOND, lives={FIRST: 10, SECOND: 10}, mzxid=59)


def send_role(bounces: Bounces, receiver: BrokerId) -> None:
    """Tell a broker its role while the next state is being written; raises Violation."""
    (bounces.context.writing[TP],) = elected(2, (2,))[0].writes
    batch = RequestBatch(BrokerId(3), "PLAINTEXT")
    batch.role(bounces.context, receiver, TP, IN_SYNC)
    bounces.judge.check_bounced_brokers(bounces.context, tuple(batch.drain(bounces.context)))


@pytest.mark.parametrize("broker", IN_SYNC)
def test_bounced_leader_in_a_request_is_a_violation(bounces: Bounces, broker: BrokerId) -> None:
    send_role(bounces, broker)
    comes(bounces.context, FIRST, 60)
    what = f"broker {broker} is informed that 1 leads t-0 since epoch 4"
    with violates(f"Election/restarted-broker-leads: {what}"):
        send_role(bounces, broker)


def test_bounced_follower_may_receive_its_leader(bounces: Bounces) -> None:
    comes(bounces.context, SECOND, 60)
    send_role(bounces, SECOND)


# --- leaders --------------------------------------------------------------------------------------


def elected(leader: int, isr: tuple[int, ...]) -> tuple[WriteStates]:
    write = StateWrite(
        partition=TP, leader=leader, leader_epoch=1, isr=isr, controller_epoch=1, expected=0,
        broker_epochs={},
    )  # fmt: skip
    return (WriteStates(writes=(write,)),)


@pytest.mark.parametrize(
    ("isr", "live", "stopping", "leader"),
    [
        ((1,), (1, 2, 3), (1,), 1),  # alone in sync, it stays
        ((1,), (2, 3), (), NO_LEADER),  # until it is removed
        ((1,), (2, 3), (), 2),  # an unclean election
        ((1, 2), (1, 2), (1,), 2),
    ],
)
def test_absent_or_succeeded_leader_may_be_replaced(
    isr: Any, live: Any, stopping: Any, leader: int
) -> None:
    kept = isr if leader == NO_LEADER else (leader,)
    check_leaders(led(isr, live=live, stopping=stopping), elected(leader, kept))


@pytest.mark.parametrize(
    ("isr", "live", "stopping", "leader", "able"),
    [
        ((1,), (1, 2, 3), (1,), NO_LEADER, 1),  # it is still in the ISR
        ((1,), (1, 2, 3), (1,), 2, 1),
        ((1, 2), (2, 3), (), NO_LEADER, 2),  # another broker is in sync
        ((1, 2), (2, 3), (), 3, 2),
    ],
)
def test_leader_replaced_although_a_member_could_lead_is_a_violation(
    isr: Any, live: Any, stopping: Any, leader: int, able: int
) -> None:
    found = led(isr, live=live, stopping=stopping)
    with violates(rf"Election/leader-replaced-without-need: .*though \[{able}\] could lead"):
        check_leaders(found, elected(leader, isr if leader == NO_LEADER else (leader,)))


def test_removed_member_that_stops_with_the_leader_is_a_violation() -> None:
    found = led((1, 2, 3), live=(1, 2), stopping=(1, 2))
    check_leaders(found, elected(1, (1, 2)))
    with violates(r"leader-replaced-without-need: 1 leads t-0 .*\[2\], which stop with it"):
        check_leaders(found, elected(1, (1,)))


@pytest.mark.parametrize("isr", [(1,), (3,), (1, 3)])
def test_partition_without_an_eligible_leader_may_have_none(isr: Any) -> None:
    check_leaders(led(isr, live=(2,)), ())


def test_partition_without_leader_although_a_member_could_lead_is_a_violation() -> None:
    found = led((1, 2, 3), live=(2,))
    with violates(r"Election/eligible-leader-not-elected: t-0 has no leader, though \[2\] could"):
        check_leaders(found, ())
    (found.writing[TP],) = elected(2, (2,))[0].writes
    check_leaders(found, ())


def test_dead_broker_in_a_written_isr_is_a_violation() -> None:
    found = led((1, 2, 3), live=(1, 2))
    check_leaders(found, elected(2, (2, 1)))
    with violates(r"Isr/dead-broker-stays: 2 is to lead t-0, .* has \[3\]"):
        check_leaders(found, elected(2, (2, 3)))


REMAINS = AnswerShutdown(token=1, error=ErrorCode.none, remaining=(TP,))


@pytest.mark.parametrize(
    ("isr", "live", "stopping"),
    [
        ((1,), (1, 2, 3), (1,)),  # no other broker is in sync
        ((1, 2), (1, 3), (1,)),  # the other member is away
        ((1, 2), (1, 2), (1, 2)),  # the other member stops, too
    ],
)
def test_leadership_may_remain_if_no_other_broker_can_lead(
    isr: Any, live: Any, stopping: Any
) -> None:
    check_leaders(led(isr, live=live, stopping=stopping), (REMAINS,))


def test_leadership_that_remains_although_another_broker_can_lead_is_a_violation() -> None:
    for stopping in ((1,), ()):
        found = led((1, 2), live=(1, 2), stopping=stopping)
        with violates(r"leadership-kept-at-shutdown: broker 1 keeps leading .*\[2\] could"):
            check_leaders(found, (REMAINS,))
        check_leaders(found, (AnswerShutdown(token=1, error=ErrorCode.none),))
