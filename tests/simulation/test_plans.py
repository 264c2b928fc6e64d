"""Plans: pure functions of a seed, data that can be saved, and input of the shrinker."""

from dataclasses import replace

import pytest

from simulation.plans.actions import (
    CreateTopicOrder,
    KillBroker,
    PauseBroker,
    ProduceBatches,
    Target,
    Timed,
)
from simulation.plans.plan import SimulationPlan, from_json, to_json
from simulation.plans.schedule import draw
from simulation.search import Shrinker

WHO = Target(broker=1)


def kill(at_ms: int, down_ms: int = 700) -> Timed:
    return Timed(at_ms=at_ms, action=KillBroker(target=WHO, down_ms=down_ms))


def pause(at_ms: int) -> Timed:
    return Timed(at_ms=at_ms, action=PauseBroker(target=Target(broker=3), for_ms=100))


def produce(at_ms: int) -> Timed:
    work = ProduceBatches(
        producer=0, topic="t0", partition=0, acks=-1, batches=9, records=4, pause_ms=50
    )
    return Timed(at_ms=at_ms, action=work)


def plan_of(*actions: Timed) -> SimulationPlan:
    topic = CreateTopicOrder(
        topic="t0", replicas=((1, 2, 3), (2, 3)), config=(("flush.messages", "1"),)
    )
    return SimulationPlan(
        seed=1,
        brokers=3,
        settings=(("offsets.topic.replication.factor", "3"),),
        producers=(True, False),
        topics=(topic, replace(topic, topic="t1")),
        actions=actions,
        run_ms=20_000,
    )


def shrunk(plan: SimulationPlan, fails, runs_max: int = 400) -> SimulationPlan:
    return Shrinker(fails, lambda _runs, _best: None, runs_max).shrink(plan)


@pytest.mark.parametrize("seed", range(50))
def test_saved_plan_is_read_back(seed: int) -> None:
    plan = draw(seed)
    assert from_json(to_json(plan)) == plan
    assert list(plan.actions) == sorted(plan.actions, key=lambda timed: timed.at_ms)


def test_seeds_omit_different_kinds_of_actions() -> None:
    kinds = [frozenset(timed.action.kind for timed in draw(seed).actions) for seed in range(300)]
    met = frozenset().union(*kinds)
    assert len(met) == 29, "every kind of action is planned by some seed"
    assert all(any(kind not in of_seed for of_seed in kinds) for kind in met - {"produce"})


def test_shrinking_keeps_the_necessary_actions() -> None:
    noise = [produce(at) for at in range(0, 6_000, 300)]
    plan = plan_of(*noise[:9], kill(2_600), *noise[9:], pause(9_000))

    def fails(plan: SimulationPlan) -> float | None:
        kinds = {timed.action.kind for timed in plan.actions}
        return 9_500 if kinds >= {"kill", "pause"} else None

    left = shrunk(plan, fails)
    assert [timed.action.kind for timed in left.actions] == ["kill", "pause"]
    assert left.brokers == 3, "3 is paused"
    assert len(left.topics) == len(left.topics[0].replicas) == 1
    assert left.topics[0].config == ()
    assert left.producers == (False, False)


def test_shrinking_reduces_the_remaining_actions() -> None:
    def fails(plan: SimulationPlan) -> float | None:
        return 9_000 if any(isinstance(t.action, ProduceBatches) for t in plan.actions) else None

    left = shrunk(plan_of(kill(50), produce(100), kill(200)), fails)
    (timed,) = left.actions
    assert isinstance(timed.action, ProduceBatches)
    assert (timed.action.batches, timed.action.records, timed.action.pause_ms) == (1, 1, 0)
    assert left.brokers == 1
    assert left.settings == (("offsets.topic.replication.factor", "1"),)


def test_actions_after_the_failure_are_removed_at_once() -> None:
    runs = []

    def fails(plan: SimulationPlan) -> float | None:
        runs.append(len(plan.actions))
        return 1_000.0 if any(timed.at_ms == 500 for timed in plan.actions) else None

    left = shrunk(plan_of(kill(500, down_ms=50), *(pause(at) for at in range(2_000, 9_000))), fails)
    assert [timed.at_ms for timed in left.actions] == [500]
    assert len(runs) < 20


def test_shrinking_ends_at_its_limit_of_runs() -> None:
    runs = []

    def fails(plan: SimulationPlan) -> float | None:
        runs.append(plan)
        return 20_000

    shrunk(plan_of(*(kill(at) for at in range(64))), fails, runs_max=5)
    assert len(runs) == 5


def test_plan_that_no_longer_fails_is_not_shrunk() -> None:
    plan = plan_of(kill(1))
    assert shrunk(plan, lambda _plan: None) is plan
