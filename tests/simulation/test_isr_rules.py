"""The invariants of single steps of a replica: each is broken once and kept once."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.replication.events import (
    Event,
    FollowerFetch,
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    LeaderAndIsr,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, Millis, Offset, ZkVersion
from simulation.model.log import BatchExtent, ModelLog
from simulation.model.partition import PartitionModel, check_after_step, check_before_step
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


def log(end: int) -> ModelLog:
    return ModelLog(0, [BatchExtent(0, end, 0, 0)])


class Elected:
    """Broker 1 leads from ``BEGINS`` on, and knows that 10 records are committed."""

    def __init__(self) -> None:
        self.partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
        self.partition.state = STATE
        self.has(LEADER, BEGINS)
        self.high_watermark = 10
        self.follower_ends = dict.fromkeys((BrokerId(2), FOLLOWER), -1)
        self.step(ELECTED)
        self.has(LEADER, 20)

    def has(self, broker: int, end: int) -> None:
        self.partition.replica(broker).log = log(end)

    def step(self, event: Event, *effects: Any) -> None:
        leader: Any = SimpleNamespace(
            role=Role.LEADER,
            leader_epoch=EPOCH,
            isr=ISR,
            high_watermark=self.high_watermark,
            zk_version=ZkVersion(0),
            follower_ends=self.follower_ends,
        )
        check_before_step(LEADER, leader, self.partition, event, effects)

    def lets_in(self) -> None:
        self.partition.replica(LEADER).pending_proposal = None
        self.step(Tick(now=Millis(1)), JOINS)


@pytest.fixture
def elected() -> Elected:
    return Elected()


@pytest.mark.parametrize(("end", "high_watermark"), [(10, 10), (11, 10), (12, 13), (0, 10)])
def test_join_without_all_records_is_a_violation(
    elected: Elected, end: int, high_watermark: int
) -> None:
    elected.has(FOLLOWER, end)
    elected.high_watermark = high_watermark
    with pytest.raises(Violation) as raised:
        elected.lets_in()
    assert raised.value.invariant == "Isr/joined-before-epoch-start"


@pytest.mark.parametrize(("end", "high_watermark"), [(12, 10), (13, 13), (20, 13)])
def test_join_with_all_records_is_allowed(elected: Elected, end: int, high_watermark: int) -> None:
    elected.has(FOLLOWER, end)
    elected.high_watermark = high_watermark
    elected.lets_in()


def test_epoch_starts_at_the_leaders_first_order(elected: Elected) -> None:
    elected.step(ELECTED)  # a controller has written the ISR meanwhile
    elected.has(FOLLOWER, BEGINS)
    elected.lets_in()


def test_joining_member_may_lack_uncommitted_records(elected: Elected) -> None:
    elected.has(2, 0)
    elected.step(Tick(now=Millis(1)), replace(JOINS, isr=ISR))


def test_follower_that_lost_power_after_its_fetch_may_join(elected: Elected) -> None:
    elected.has(FOLLOWER, BEGINS)
    elected.partition.damaged(FOLLOWER, 5, now=0)
    elected.has(FOLLOWER, 5)
    elected.lets_in()


def test_deposed_leader_is_excused(elected: Elected) -> None:
    elected.partition.state = replace(STATE, leader=BrokerId(2), leader_epoch=LeaderEpoch(5))
    elected.has(FOLLOWER, 8)
    elected.lets_in()


# --- Isr/two-proposals-at-once --------------------------------------------------------------------

PROPOSAL = WriteIsr(
    leader_epoch=EPOCH, isr=(LEADER, BrokerId(2), FOLLOWER), zk_version=ZkVersion(7)
)
FETCH = FollowerFetch(
    replica=FOLLOWER, offset=Offset(5), log_start_offset=Offset(0), now=Millis(1_000)
)
REPEATED = LeaderAndIsr(
    controller_epoch=ControllerEpoch(2),
    leader=LEADER,
    leader_epoch=EPOCH,
    isr=(LEADER, BrokerId(2)),
    replicas=(LEADER, BrokerId(2), FOLLOWER),
    zk_version=ZkVersion(7),
    now=Millis(900),
)
WRITTEN = IsrWritten(leader_epoch=EPOCH, isr=PROPOSAL.isr, zk_version=ZkVersion(8))


class Proposer:
    """Broker 1 leads, and has proposed to let broker 3 into the ISR."""

    def __init__(self) -> None:
        self.partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
        self.role, self.epoch, self.version = Role.LEADER, EPOCH, ZkVersion(7)
        self.step(FETCH, PROPOSAL)

    def step(self, event: Event, *effects: Any) -> None:
        leader: Any = SimpleNamespace(
            role=self.role,
            leader_epoch=self.epoch,
            zk_version=self.version,
            isr=ISR,
            follower_ends={},
            high_watermark=Offset(0),
        )
        check_before_step(LEADER, leader, self.partition, event, effects)


@pytest.fixture
def proposer() -> Proposer:
    return Proposer()


@pytest.mark.parametrize(
    "outcome",
    [
        FETCH,
        REPEATED,
        IsrWriteFailed(leader_epoch=EPOCH, conflict=True),
        IsrRefused(leader_epoch=LeaderEpoch(3)),
    ],
    ids=lambda event: type(event).__name__,
)
def test_isr_proposal_before_the_last_outcome_is_a_violation(
    proposer: Proposer, outcome: Event
) -> None:
    proposer.step(outcome)
    with pytest.raises(
        Violation, match="Isr/two-proposals-at-once: t-0: leader 1 proposes the ISR"
    ):
        proposer.step(FETCH, PROPOSAL)


@pytest.mark.parametrize(
    "outcome",
    [IsrWriteFailed(leader_epoch=EPOCH, conflict=False), IsrRefused(leader_epoch=EPOCH)],
    ids=lambda event: type(event).__name__,
)
def test_isr_proposal_after_a_rejection_is_allowed(proposer: Proposer, outcome: Event) -> None:
    proposer.step(outcome)
    proposer.step(FETCH, PROPOSAL)


def test_isr_proposal_after_a_newer_state_is_allowed(proposer: Proposer) -> None:
    proposer.version = ZkVersion(8)
    proposer.step(WRITTEN)
    proposer.step(FETCH, replace(PROPOSAL, isr=(LEADER, BrokerId(2)), zk_version=ZkVersion(8)))


def test_isr_proposal_in_another_epoch_is_allowed(proposer: Proposer) -> None:
    proposer.epoch = LeaderEpoch(5)
    proposer.step(replace(REPEATED, leader_epoch=LeaderEpoch(5)))
    proposer.step(FETCH, replace(PROPOSAL, leader_epoch=LeaderEpoch(5)))


# --- Fetch/uncommitted-record-read ----------------------------------------------------------------


def test_serving_beyond_the_high_watermark_is_a_violation() -> None:
    partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
    for bound in (10, 11):
        leader: Any = SimpleNamespace(high_watermark=10, read_bound=lambda _, bound=bound: bound)
        with (
            contextlib.nullcontext()
            if bound == 10
            else pytest.raises(Violation, match="Fetch/uncommitted-record-read")
        ):
            check_after_step(LEADER, leader, partition)
