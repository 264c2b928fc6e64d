"""Whose log may lack something, forgotten too early by hand, and not."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from controlled import TP, assigned, comes

from ackproof.broker.controller.cluster import (
    PartitionState,
)
from ackproof.broker.controller.requests.request_batch import RequestBatch
from ackproof.broker.coordination.events import Result, Written
from ackproof.broker.types import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    ZkVersion,
)
from simulation.observer.leadership import suspecting
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

LEADER, OTHER = BROKERS = (BrokerId(1), BrokerId(2))
STATE = PartitionState(
    leader=LEADER,
    leader_epoch=LeaderEpoch(4),
    isr=BROKERS,
    controller_epoch=ControllerEpoch(1),
    zk_version=ZkVersion(7),
    broker_epochs={LEADER: 10, OTHER: 10},
    mzxid=50,
)


class Controlled:
    """1 leads, 2 is in the ISR as its tenth incarnation, and all is as it was."""

    def __init__(self) -> None:
        self.judge = suspecting.Bounced()
        self.context = assigned(BROKERS)
        self.context.states[TP] = STATE
        for broker in BROKERS:
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
        self.judge.stepped(self.context)


@pytest.fixture
def controlled() -> Controlled:
    return Controlled()


def test_who_bounced_and_stays(controlled: Controlled) -> None:
    comes(controlled.context, OTHER, 60)
    with pytest.raises(Violation, match=r"BouncedLeaveIsr: t-0: \[2\], who bounced, stay in"):
        controlled.steps()


def test_who_bounced_where_nobody_leads(controlled: Controlled) -> None:
    controlled.context.states[TP] = replace(STATE, leader=NO_LEADER)
    comes(controlled.context, OTHER, 60)
    controlled.steps()


def test_who_bounced_and_has_left(controlled: Controlled) -> None:
    comes(controlled.context, OTHER, 60)
    controlled.reads(LEADER, lives={LEADER: 10}, mzxid=61)


def test_who_was_let_in_when_he_was_back(controlled: Controlled) -> None:
    """By a leader that did not see him registered yet."""
    controlled.reads(LEADER, lives={LEADER: 10}, mzxid=51)
    comes(controlled.context, OTHER, 60)
    controlled.reads(LEADER, OTHER, lives={LEADER: 10, OTHER: 0}, mzxid=61)


def test_who_was_let_in_before_he_bounced(controlled: Controlled) -> None:
    controlled.reads(LEADER, lives={LEADER: 10}, mzxid=51)
    comes(controlled.context, OTHER, 60)
    with pytest.raises(Violation, match="BouncedLeaveIsr"):
        controlled.reads(LEADER, OTHER, lives={LEADER: 10, OTHER: 10}, mzxid=59)


def told(controlled: Controlled, told: BrokerId) -> None:
    """Of t-0, as the controller knows it; raises Violation."""
    batch = RequestBatch(BrokerId(3), "PLAINTEXT")
    batch.role(controlled.context, told, TP, BROKERS)
    controlled.judge.told(controlled.context, batch.drain(controlled.context))


@pytest.mark.parametrize("broker", BROKERS)
def test_who_bounced_is_told_to_lead_on(controlled: Controlled, broker: BrokerId) -> None:
    told(controlled, broker)
    comes(controlled.context, LEADER, 60)
    what = f"BouncedDoNotLead: broker {broker} is told that 1 leads t-0 since epoch 4"
    with pytest.raises(Violation, match=what):
        told(controlled, broker)


def test_who_bounced_may_be_told_whom_to_follow(controlled: Controlled) -> None:
    comes(controlled.context, OTHER, 60)
    told(controlled, OTHER)


@pytest.mark.parametrize(("unclean", "suspect"), [(True, True), (False, False)])
def test_what_is_hosted_is_suspect_after_disorder(*, unclean: bool, suspect: bool) -> None:
    suspecting.hosted(TP, unclean=unclean, suspect=suspect)


def test_what_is_hosted_is_trusted_after_disorder() -> None:
    with pytest.raises(Violation, match="SuspicionStays: t-0 is trusted from the start"):
        suspecting.hosted(TP, unclean=True, suspect=False)


def test_who_has_left_the_isr_is_suspect_no_more() -> None:
    suspecting.stepped(Written(token=1, result=Result.DONE), [TP], [])


@pytest.mark.parametrize("result", [Result.REFUSED, Result.UNKNOWN])
def test_who_has_not_left_the_isr_is_suspect(result: Result) -> None:
    suspecting.stepped(Written(token=1, result=result), [TP], [TP])
    with pytest.raises(Violation, match=f"SuspicionStays: t-0 .* it hears {result.name}"):
        suspecting.stepped(Written(token=1, result=result), [TP], [])
