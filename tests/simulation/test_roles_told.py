"""Whom a controller tells who leads, and when: somebody left out by hand, or told too late."""

import pytest
from controlled import TP, assigned, comes
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import (
    PartitionState,
)
from ackproof.broker.controller.events import (
    Answer,
    AnswerShutdown,
    DropIsrChanges,
    DropPreferredElection,
    Effect,
    StateWrite,
)
from ackproof.broker.controller.requests.request_batch import RequestBatch
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion
from simulation.observer.leadership.roles_told import RolesTold
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

FORMER, NEW, OTHER = BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))


class Controlled:
    """1 leads in epoch 4, and all have been told."""

    def __init__(self) -> None:
        self.told = RolesTold()
        self.context = assigned(BROKERS)
        self.batch = RequestBatch(BrokerId(1), "PLAINTEXT")
        for broker in BROKERS:
            comes(self.context, broker, epoch=10)
        self.leads(FORMER, 4, BROKERS)

    def leads(self, leader: BrokerId, epoch: int, tells: tuple[BrokerId, ...]) -> None:
        """It is written, and these are told."""
        self.context.states[TP] = PartitionState(
            leader=leader,
            leader_epoch=LeaderEpoch(epoch),
            isr=BROKERS,
            controller_epoch=ControllerEpoch(1),
            zk_version=ZkVersion(epoch),
        )
        for broker in tells:
            self.batch.role(self.context, broker, TP, BROKERS)
        self.steps()

    def stops(self, broker: BrokerId, *, delete: bool) -> None:
        self.batch.stop(broker, TP, LeaderEpoch(5), delete=delete)

    def steps(self) -> None:
        self.told.stepped(self.context, tuple(self.batch.drain(self.context)))


@pytest.fixture
def controlled() -> Controlled:
    return Controlled()


def test_all_are_told(controlled: Controlled) -> None:
    controlled.leads(NEW, 5, BROKERS)


@pytest.mark.parametrize("left_out", BROKERS)
def test_somebody_is_left_out(controlled: Controlled, left_out: BrokerId) -> None:
    told = tuple(broker for broker in BROKERS if broker != left_out)
    heard = rf"broker {left_out} heard \(1, 4\)"
    with pytest.raises(Violation, match=rf"RolesAreTold: 2 leads t-0 in epoch 5, and {heard}"):
        controlled.leads(NEW, 5, told)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(token=1, outcomes={}),
        AnswerShutdown(token=1, error=ErrorCode.none),
        DropIsrChanges(notifications=()),
        DropPreferredElection(),
    ],
)
def test_who_asked_is_answered_before_all_are_told(controlled: Controlled, answer: Effect) -> None:
    """Of metadata they may hear later: what is said of them may have nothing to do with it."""
    context, batch = controlled.context, controlled.batch
    for broker in BROKERS:
        batch.role(context, broker, TP, BROKERS)
    *roles, last = batch.drain(context)
    batch.metadata(BROKERS, [TP])
    controlled.told.stepped(context, (*roles, last, answer, *batch.drain(context)))
    with pytest.raises(Violation, match=f"AnsweredIsTold: {type(answer).__name__} .*broker 3"):
        controlled.told.stepped(context, (*roles, answer, last))


def test_who_stops_is_told_that_it_leads_no_more(controlled: Controlled) -> None:
    controlled.context.stopping.add(FORMER)
    controlled.stops(FORMER, delete=False)
    with pytest.raises(Violation, match="broker 1 heard"):
        controlled.leads(NEW, 5, (NEW, OTHER))


def test_who_stops_and_follows_need_not_hear_of_it(controlled: Controlled) -> None:
    controlled.context.stopping.add(OTHER)
    controlled.stops(OTHER, delete=False)
    controlled.leads(NEW, 5, (FORMER, NEW))


def test_what_is_about_to_change_is_told_later(controlled: Controlled) -> None:
    controlled.context.writing[TP] = StateWrite(
        partition=TP,
        leader=OTHER,
        leader_epoch=LeaderEpoch(6),
        isr=BROKERS,
        controller_epoch=ControllerEpoch(1),
        expected=ZkVersion(5),
        broker_epochs={},
    )
    controlled.leads(NEW, 5, ())


def test_who_is_back_is_told_once_more(controlled: Controlled) -> None:
    comes(controlled.context, OTHER, epoch=11)
    with pytest.raises(Violation, match="broker 3 heard None"):
        controlled.steps()


def test_who_is_gone_is_not_told(controlled: Controlled) -> None:
    del controlled.context.live[FORMER]
    controlled.leads(NEW, 5, (NEW, OTHER))


def test_what_was_deleted_there_is_told_once_more(controlled: Controlled) -> None:
    controlled.stops(OTHER, delete=True)
    with pytest.raises(Violation, match="broker 3 heard None"):
        controlled.steps()
