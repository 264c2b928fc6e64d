"""Worlds without a controller: the same invariants, over the znodes of *Design V2*.

For a longer search, run ``python -m simulation --coordination leader-fenced --seconds 600``.
"""

import os
from typing import get_args

import pytest
from click.testing import CliRunner

from ackproof.broker.server.coordination import nodes
from ackproof.broker.types import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition
from simulation.__main__ import main
from simulation.model.observer import ClusterObserver
from simulation.model.zookeeper import LeaderCoordinatedTree
from simulation.plans.actions import (
    BreakDisk,
    Consume,
    CreateTopicOrder,
    DeposeController,
    Order,
    Target,
    Timed,
)
from simulation.plans.plan import SimulationPlan
from simulation.plans.scenario import TOPIC as OF_SCENARIOS
from simulation.plans.schedule import draw, without_controller
from simulation.world.world import run

pytestmark = pytest.mark.simulation

WORLDS = int(os.environ.get("ACKPROOF_SIMULATION_WORLDS", "12")) // 2
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


def test_plan_without_a_controller_has_orders_and_scenarios_and_no_deposition() -> None:
    plans = [draw(seed, coordination="leader-fenced") for seed in range(60)]
    actions = [timed.action for plan in plans for timed in plan.actions]
    assert all(plan.led_by_leaders and plan.guarantees_records for plan in plans)
    assert {type(action) for action in actions} >= set(get_args(Order))
    assert not any(isinstance(action, DeposeController) for action in actions)
    assert any(topic.topic == OF_SCENARIOS for plan in plans for topic in plan.topics)
    assert not any(draw(seed).led_by_leaders for seed in range(60))


def test_any_is_now_this_and_now_that() -> None:
    kinds = {draw(seed, coordination="any").led_by_leaders for seed in range(20)}
    assert kinds == {True, False}


def test_mixed_is_without_a_controller_now_and_then() -> None:
    plans = {seed: draw(seed, coordination="mixed") for seed in range(120)}
    led = [seed for seed, plan in plans.items() if plan.led_by_leaders]
    drawn, turns = range(6, 120, 24), range(10, 120, 12)
    assert led == sorted((*drawn, *turns))
    assert all(plans[seed].run_ms < 25_000 for seed in turns)
    assert not draw(6, scenario="unheard of", coordination="mixed").led_by_leaders


# --- the tree -------------------------------------------------------------------------------------


class Tree:
    """An observed tree. ``lives`` has the number of each broker's present process."""

    def __init__(self) -> None:
        self.failures: list[BaseException] = []
        self.lives = {1: 1, 2: 1}
        self.observer = ClusterObserver(
            lambda: 0.0, self.failures.append, checks_data=True, unclean=False
        )
        self.tree = LeaderCoordinatedTree(self.observer, self.lives.__getitem__)
        self.tree.changed(
            [(f"{HOME}/replicas", nodes.encode_ids([BrokerId(1), BrokerId(2)]), 0)], 1
        )

    def write(self, leader: int | None, isr: list[int], epoch: int) -> None:
        """Write both nodes in one transaction. None deletes ``leader``."""
        led = None if leader is None else nodes.encode_leader(BrokerId(leader), LeaderEpoch(epoch))
        kept = nodes.encode_isr([BrokerId(b) for b in isr], LeaderEpoch(epoch))
        self.tree.changed([(f"{HOME}/leader", led, 0), (f"{HOME}/ISR", kept, epoch)], 1)

    @property
    def leader(self) -> int:
        partition = self.observer.find(TP)
        assert partition is not None
        assert partition.state is not None
        return partition.state.leader


def test_a_move_that_is_replaced_in_one_write_is_under_way_still() -> None:
    """Test that ``replicas``, which is written again unchanged, may disappear only when the
    partition is created."""
    tree = Tree()
    moving = f"/brokers/partitions_reassigned/{TP.topic}/{TP.partition}"
    back, on = nodes.encode_ids([BrokerId(1), BrokerId(2)]), nodes.encode_ids([BrokerId(3)])
    tree.write(1, [1, 2], 0)
    tree.tree.changed([(moving, back, 0)], 2)
    tree.tree.changed([(moving, None, -1), (moving, on, 0), (f"{HOME}/replicas", back, 1)], 3)
    assert tree.observer.topics[TP.topic].replicas(TP.partition) is None
    assert not tree.failures
    tree.tree.changed([(moving, None, -1)], 4)
    (failure,) = tree.failures
    assert "Reassignment/ended-before-target" in str(failure)


def test_tree_changes_are_reported_as_partition_states() -> None:
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


def test_a_scenario_that_needs_a_controller_is_refused() -> None:
    command = ["--scenario", "left behind", "--coordination", "leader-fenced", "--seeds", "1"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "needs a controller" in result.output


def test_a_disk_that_could_not_hold_a_new_log_is_asked_again() -> None:
    """Test two brokers that must create their logs while broker 2's disk cannot be read. No later
    event of the partitions would make it try again."""
    broken = BreakDisk(target=Target(role="broker", broker=2), operation="read", for_ms=1_000)
    group = Consume(group="g", topic="t", for_ms=50, leaves=False)
    plan = SimulationPlan(
        seed=20289,
        brokers=2,
        settings=(
            ("offsets.topic.num.partitions", "3"),
            ("offsets.topic.replication.factor", "2"),
            ("group.min.session.timeout.ms", "1000"),
        ),
        producers=(False,),
        topics=(CreateTopicOrder(topic="t", replicas=((2, 1),)),),
        actions=(Timed(at_ms=1_000, action=broken), Timed(at_ms=1_100, action=group)),
        run_ms=5_000,
    )
    outcome = run(without_controller(plan, "fenced"))
    assert outcome.violation is None
    assert any("__consumer_offsets" in what for _, what in outcome.notes)
