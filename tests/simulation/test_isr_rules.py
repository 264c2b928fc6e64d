"""The invariants of single steps of a replica: each is broken once and kept once."""

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
from simulation.model.log import BatchExtent, ModelLog
from simulation.model.partition import PartitionModel, check_after_step, check_before_step
from tests.support.oracles.violations import violates

pytestmark = pytest.mark.simulation

ISR = LEADER, MEMBER = 1, 2
FOLLOWER = 3
EPOCH, VERSION, BEGINS = 4, 7, 12
STATE = PartitionState(
    leader=LEADER, leader_epoch=EPOCH, isr=ISR, zk_version=VERSION, controller_epoch=1
)
ELECTED = LeaderAndIsr(
    controller_epoch=1, leader=LEADER, leader_epoch=EPOCH, isr=ISR, replicas=(*ISR, FOLLOWER),
    zk_version=VERSION, now=0,
)  # fmt: skip
TICK = Tick(now=1)
FETCH = FollowerFetch(replica=FOLLOWER, offset=5, log_start_offset=0, now=1_000)
JOINS = WriteIsr(leader_epoch=EPOCH, isr=(*ISR, FOLLOWER), zk_version=VERSION)


class Leader:
    """Broker 1 leads from ``BEGINS`` on, and knows that 10 records are committed."""

    def __init__(self) -> None:
        self.partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
        self.partition.state = STATE
        self.epoch, self.version, self.high_watermark = EPOCH, VERSION, 10
        self.has(LEADER, BEGINS)
        self.step(ELECTED)
        self.has(LEADER, 20)
        self.has(FOLLOWER, 20)

    def has(self, broker: int, end: int) -> None:
        self.partition.replica(broker).log = ModelLog(0, [BatchExtent(0, end, 0, 0)])

    def step(self, event: Event, *effects: Any) -> None:
        leader: Any = SimpleNamespace(
            role=Role.LEADER, leader_epoch=self.epoch, isr=ISR, high_watermark=self.high_watermark,
            zk_version=self.version, follower_ends=dict.fromkeys((MEMBER, FOLLOWER), -1),
        )  # fmt: skip
        check_before_step(LEADER, leader, self.partition, event, effects)


@pytest.fixture
def leader() -> Leader:
    return Leader()


# --- Isr/joined-before-epoch-start ----------------------------------------------------------------


@pytest.mark.parametrize(("end", "high_watermark"), [(10, 10), (11, 10), (12, 13), (0, 10)])
def test_join_without_all_records_is_a_violation(
    leader: Leader, end: int, high_watermark: int
) -> None:
    leader.has(FOLLOWER, end)
    leader.high_watermark = high_watermark
    with violates("Isr/joined-before-epoch-start"):
        leader.step(TICK, JOINS)


@pytest.mark.parametrize(("end", "high_watermark"), [(12, 10), (13, 13), (20, 13)])
def test_join_with_all_records_is_allowed(leader: Leader, end: int, high_watermark: int) -> None:
    leader.has(FOLLOWER, end)
    leader.high_watermark = high_watermark
    leader.step(TICK, JOINS)


def test_epoch_starts_at_the_leaders_first_order(leader: Leader) -> None:
    leader.step(ELECTED)  # a controller has written the ISR meanwhile
    leader.has(FOLLOWER, BEGINS)
    leader.step(TICK, JOINS)


def test_joining_member_may_lack_uncommitted_records(leader: Leader) -> None:
    leader.has(MEMBER, 0)
    leader.step(TICK, replace(JOINS, isr=ISR))


def test_follower_that_lost_power_after_its_fetch_may_join(leader: Leader) -> None:
    leader.has(FOLLOWER, BEGINS)
    leader.partition.damaged(FOLLOWER, 5, now=0)
    leader.has(FOLLOWER, 5)
    leader.step(TICK, JOINS)


def test_deposed_leader_is_excused(leader: Leader) -> None:
    leader.partition.state = replace(STATE, leader=MEMBER, leader_epoch=EPOCH + 1)
    leader.has(FOLLOWER, 8)
    leader.step(TICK, JOINS)


# --- Isr/two-proposals-at-once --------------------------------------------------------------------


def outcome_of(event: Event) -> str:
    return type(event).__name__


@pytest.mark.parametrize(
    "outcome",
    [
        FETCH,
        replace(ELECTED, controller_epoch=2),
        IsrWriteFailed(leader_epoch=EPOCH, conflict=True),
        IsrRefused(leader_epoch=EPOCH - 1),
    ],
    ids=outcome_of,
)
def test_isr_proposal_before_the_last_outcome_is_a_violation(
    leader: Leader, outcome: Event
) -> None:
    leader.step(FETCH, JOINS)
    leader.step(outcome)
    with violates("two-proposals-at-once: t-0: leader 1 proposes the ISR"):
        leader.step(FETCH, JOINS)


@pytest.mark.parametrize(
    "outcome",
    [IsrWriteFailed(leader_epoch=EPOCH, conflict=False), IsrRefused(leader_epoch=EPOCH)],
    ids=outcome_of,
)
def test_isr_proposal_after_a_rejection_is_allowed(leader: Leader, outcome: Event) -> None:
    leader.step(FETCH, JOINS)
    leader.step(outcome)
    leader.step(FETCH, JOINS)


@pytest.mark.parametrize(
    ("epoch", "version", "news"),
    [
        (EPOCH, VERSION + 1, IsrWritten(leader_epoch=EPOCH, isr=JOINS.isr, zk_version=VERSION + 1)),
        (EPOCH + 1, VERSION, replace(ELECTED, controller_epoch=2, leader_epoch=EPOCH + 1)),
    ],
    ids=["written", "epoch"],
)
def test_isr_proposal_after_a_newer_state_is_allowed(
    leader: Leader, epoch: int, version: int, news: Event
) -> None:
    leader.step(FETCH, JOINS)
    leader.epoch, leader.version = epoch, version
    leader.step(news)
    leader.step(FETCH, replace(JOINS, isr=ISR, leader_epoch=epoch, zk_version=version))


# --- Fetch/uncommitted-record-read ----------------------------------------------------------------


def test_serving_beyond_the_high_watermark_is_a_violation() -> None:
    partition = PartitionModel("t-0", checks_data=True, note=lambda _: None)
    bounded: Any = SimpleNamespace(high_watermark=10, read_bound=lambda _: 10)
    check_after_step(LEADER, bounded, partition)
    bounded.read_bound = lambda _: 11
    with violates("Fetch/uncommitted-record-read"):
        check_after_step(LEADER, bounded, partition)
