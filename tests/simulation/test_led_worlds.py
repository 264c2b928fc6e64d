"""Worlds without a controller: the same invariants, over the nodes of seed 001.

A longer search: ``python -m simulation --coordination leader-fenced --seconds 600``.
"""

import os

import pytest

from broker.server.coordination import nodes
from broker.types import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition
from simulation.actions import ORDERS
from simulation.coverage import CONTROLLER_EVENT, COORDINATION_EVENT, Coverage, expected
from simulation.led_tree import LedTree
from simulation.observer import Observer
from simulation.schedule import draw
from simulation.violation import Violation
from simulation.world import run

pytestmark = pytest.mark.simulation

WORLDS = int(os.environ.get("ACKPROOF_SIMULATION_WORLDS", "60")) // 2
BLOCKS = 3
TP = TopicPartition("t", 0)
HOME = "/brokers/topics/t/0"


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_invariant_holds(block: int) -> None:
    for seed in range(block, WORLDS, BLOCKS):
        outcome = run(draw(seed, coordination="leader-fenced"))
        replay = f"python -m simulation --coordination leader-fenced --seed {seed}"
        assert outcome.violation is None, replay


@pytest.mark.timeout(0)
def test_worlds_are_worth_something() -> None:
    met = Coverage()
    for seed in range(12):
        met.update(run(draw(seed, coordination="leader-fenced")).coverage)
    assert met["client", "produce, acks=-1: acked"] > 300
    for name in ("Append", "StartEpoch", "WriteIsr", "HighWatermark", "Respond"):
        assert met["replica effect", name], name
    assert not any(room == CONTROLLER_EVENT for room, _ in (*met, *expected(met)))
    assert any(room == COORDINATION_EVENT for room, _ in met)
    assert len([name for room, name in met if room == "fault"]) >= 6


def test_a_plan_without_a_controller_asks_for_nothing() -> None:
    for seed in range(30):
        plan = draw(seed, coordination="leader-fenced")
        assert plan.led_by_leaders
        assert plan.promises
        assert not any(isinstance(timed.action, ORDERS) for timed in plan.actions)
        assert not draw(seed).led_by_leaders


def test_any_is_now_this_and_now_that() -> None:
    kinds = {draw(seed, coordination="any").led_by_leaders for seed in range(20)}
    assert kinds == {True, False}


# --- the tree -------------------------------------------------------------------------------------


class Tree:
    """A tree under observation; ``lives`` says in which life each broker is."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.lives = {1: 1, 2: 1}
        self.observer = Observer(lambda: 0.0, self.failures.append, checks_data=True, unclean=False)
        self.tree = LedTree(self.observer, self.lives.__getitem__)
        self.tree.changed(
            [(f"{HOME}/replicas", nodes.encode_ids([BrokerId(1), BrokerId(2)]), 0)], 1
        )

    def write(self, leader: int | None, isr: list[int], epoch: int) -> None:
        """Both nodes in one transaction; None: ``leader`` is deleted."""
        led = None if leader is None else nodes.encode_leader(BrokerId(leader), LeaderEpoch(epoch))
        kept = nodes.encode_isr([BrokerId(b) for b in isr], LeaderEpoch(epoch))
        self.tree.changed([(f"{HOME}/leader", led, 0), (f"{HOME}/ISR", kept, epoch)], 1)

    @property
    def leader(self) -> int:
        partition = self.observer.find(TP)
        assert partition is not None
        assert partition.state is not None
        return partition.state.leader


def test_the_tree_is_told_as_states() -> None:
    tree = Tree()
    tree.write(1, [1, 2], 3)
    assert tree.leader == 1
    tree.tree.changed([(f"{HOME}/leader", None, -1)], 1)
    assert tree.leader == NO_LEADER
    tree.write(2, [2], 4)
    assert tree.leader == 2
    assert not tree.failures


def test_the_leader_of_a_former_life_leads_no_more() -> None:
    tree = Tree()
    tree.write(1, [1, 2], 3)
    tree.lives[1] = 2
    tree.tree.changed([(f"{HOME}/ISR", nodes.encode_isr([BrokerId(2)], LeaderEpoch(3)), 4)], 1)
    assert tree.leader == NO_LEADER
    assert not tree.failures


def test_a_leader_outside_the_isr_is_a_violation() -> None:
    tree = Tree()
    tree.write(1, [2], 3)
    (failure,) = tree.failures
    assert isinstance(failure, Violation)
    assert failure.invariant == "LeaderInIsr"


def test_two_leaders_of_one_epoch_are_a_violation() -> None:
    tree = Tree()
    tree.write(1, [1, 2], 3)
    tree.write(2, [1, 2], 3)
    (failure,) = tree.failures
    assert isinstance(failure, Violation)
    assert failure.invariant == "OneLeaderPerEpoch"
