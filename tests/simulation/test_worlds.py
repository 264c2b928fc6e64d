"""Whole clusters under seeded plans: invariants hold, histories repeat, faults are found.

For a longer search, run ``make simulate SECONDS=600``, or ``ACKPROOF_SIMULATION_WORLDS=2000 pytest
tests/simulation/test_worlds.py``.
"""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from kio.schema.errors import ErrorCode

from ackproof.broker.replication.leader import PendingProduces
from simulation.__main__ import main
from simulation.plans.actions import (
    CreateTopicOrder,
    LoseBrokerPower,
    LosePowerAfter,
    ProduceBatches,
    Target,
    Timed,
)
from simulation.plans.coverage import CONTROLLER_EVENT, COORDINATION_EVENT, Coverage, expected
from simulation.plans.plan import SimulationPlan, from_json, to_json
from simulation.plans.schedule import draw
from simulation.search import Shrinker, narrative
from simulation.world.world import Simulation, run
from tests.support.fakes.swapped_functions import Mutation, Swap
from tests.support.processes.process import printed

pytestmark = pytest.mark.simulation

WORLDS = int(os.environ.get("ACKPROOF_SIMULATION_WORLDS", "12"))
PLANS = Path(__file__).parent / "plans"
BLOCKS = 6
ANSWERED_AT_APPEND = Mutation(
    Swap(PendingProduces, "reached", lambda self, _high_watermark: self.drain())
)
"""A patch that answers acks=all when the leader has appended, before the in-sync replicas have."""
FAILED_ONCE = {
    1430: "of a group's offsets those were lost that were promised no longer",
    2231: "a cut that was not synced was undone by a power failure",
    3014: "a leader whose disk had refused a sync led on",
    2550: "a leader acked that did not know of the unclean election",
    30888: "a broker that started while __consumer_offsets was made, without a controller, counted "
    "one partition of three",
    31338: "one that lost power twice was taken for whole, since it lost nothing the second time: "
    "a fault of the observer",
    31940: "two brokers created a topic at once, without a controller: it had two ids",
    32237: "a partition was added, without a controller, to a topic that was being deleted",
    33634: "a log that was to begin at 12 began at 0 after a power failure",
    82415: "a replica was deleted by a move that was complete, before its leader knew of "
    "that: a fault of the observer",
}
"""Seeds that failed once, with ``--coordination any``. Plans whose drawing has changed are kept in
``plans/``."""


def plan_of(*actions: Timed, **changes: object) -> SimulationPlan:
    """Return a plan with three brokers, and one partition with replicas on all of them."""
    plan = SimulationPlan(
        seed=1,
        brokers=3,
        settings=(
            ("zookeeper.session.timeout.ms", "2000"),
            ("replica.lag.time.max.ms", "3000"),
            ("offsets.topic.replication.factor", "3"),
        ),
        producers=(False,),
        topics=(CreateTopicOrder(topic="t0", replicas=((1, 2, 3),)),),
        actions=actions,
        run_ms=10_000,
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


def produce(at_ms: int, batches: int = 3) -> Timed:
    work = ProduceBatches(
        producer=0, topic="t0", partition=0, acks=-1, batches=batches, records=2, pause_ms=0
    )
    return Timed(at_ms=at_ms, action=work)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_invariant_holds(block: int) -> None:
    for seed in range(block, WORLDS, BLOCKS):
        outcome = run(draw(seed))
        assert outcome.violation is None, f"python -m simulation --seed {seed}"


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "seed",
    # One seed takes as long as all the others.
    [pytest.param(one, marks=pytest.mark.long) if one == 31940 else one for one in FAILED_ONCE],
)
def test_formerly_failing_seed_holds(seed: int) -> None:
    kept = PLANS / f"seed-{seed}.json"
    plan = from_json(kept.read_text()) if kept.exists() else draw(seed, coordination="any")
    outcome = run(plan)
    assert outcome.violation is None, FAILED_ONCE[seed]


def test_kept_plan_belongs_to_a_formerly_failing_seed() -> None:
    assert {from_json(path.read_text()).seed for path in PLANS.iterdir()} <= FAILED_ONCE.keys()


def test_history_of_a_seed_does_not_depend_on_hashing() -> None:
    script = (
        "from simulation.plans.schedule import draw; from simulation.world.world import run\n"
        "for seed in (4, 9):\n"
        "    outcome = run(draw(seed), with_digest=True)\n"
        "    print(outcome.steps, outcome.digest, outcome.notes)"
    )
    histories = printed("-c", script)
    assert len(histories) == 1
    assert all(len(line) > 500 for line in histories.pop().splitlines())


def test_world_without_faults_commits_and_settles() -> None:
    outcome = run(plan_of(produce(100), produce(5_000)))
    assert outcome.violation is None
    met = outcome.coverage
    assert met["client", "produce, acks=-1: acked"] == 6
    assert met["replica event", "follower: Fetched"] > 6
    assert met["controller event", "Elected"] == 1
    assert met["run", "clean"] == 1
    assert not {name for room, name in met if room == "fault"}


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("coordination", "seeds", "acked", "faults"),
    [("controller", 20, 500, 8), ("leader-fenced", 12, 300, 6)],
)
def test_worlds_contain_elections_cuts_and_failures(
    coordination: str, seeds: int, acked: int, faults: int
) -> None:
    """Test that the seeds contain elections, cuts, failures and returns. A world without events
    would prove nothing."""
    met = Coverage()
    for seed in range(seeds):
        met.update(run(draw(seed, coordination=coordination)).coverage)
    assert met["client", "produce, acks=-1: acked"] > acked
    for name in ("Append", "StartEpoch", "WriteIsr", "HighWatermark", "Respond"):
        assert met["replica effect", name], name
    assert len([name for room, name in met if room == "fault"]) >= faults
    events = ("BrokersChanged", "IsrChanged", "TopicsChanged", "StatesWritten")
    if coordination == "controller":
        assert met["replica effect", "Truncate"]
        assert all(met[CONTROLLER_EVENT, name] for name in events)
    else:
        assert not any(room == CONTROLLER_EVENT for room, _ in (*met, *expected(met)))
        assert any(room == COORDINATION_EVENT for room, _ in met)


def test_broker_with_a_session_expired_at_startup_survives() -> None:
    for after_s in (0.01, 0.02, 0.03, 0.04, 0.05):
        simulation = Simulation(plan_of())
        node = simulation.nodes[1]
        node.start()
        simulation.loop.run_for(after_s)
        for session in simulation.zookeeper.sessions_of(node.host):
            simulation.zookeeper.expire(session)
        simulation.loop.run_for(10)
        assert not node.exits, after_s
        assert simulation.observer.controller == 1
        simulation.loop.close()


def test_restarted_broker_rejects_requests_for_its_former_registration() -> None:
    """Test a broker that listens before it is registered, and waits for the end of its former
    session."""
    simulation = Simulation(plan_of())
    for node in simulation.nodes.values():
        node.start()
    simulation.loop.run_for(1)
    node = simulation.nodes[1]
    assert node.app is not None
    former = node.app._fence.broker_epoch
    node.kill()
    node.start()
    simulation.loop.run_for(0.2)
    meant_for_the_former = SimpleNamespace(controller_id=2, controller_epoch=9, broker_epoch=former)
    fence = node.app._fence
    assert fence.admit(meant_for_the_former, 1) is ErrorCode.stale_broker_epoch  # type: ignore[arg-type]
    simulation.loop.run_for(10)
    assert fence.broker_epoch > former
    simulation.loop.close()


# --- faults in the broker -------------------------------------------------------------------------


@pytest.mark.timeout(0)
def test_failure_is_shrunk_and_narrated() -> None:
    with ANSWERED_AT_APPEND.active():
        failed = run(draw(0))
        assert failed.violation is not None
        invariant = failed.violation.invariant

        def fails(plan: SimulationPlan) -> float | None:
            outcome = run(plan)
            same = outcome.violation is not None and outcome.violation.invariant == invariant
            return outcome.broke_at_ms if same else None

        plan = Shrinker(fails, lambda _runs, _best: None, runs_max=60).shrink(failed.plan)
        lines = "\n".join(narrative(run(plan)))
    assert len(plan.actions) == 1, "one client that has something stored with acks=all"
    assert "Produce/acknowledged-before-commit" in lines
    assert " leads in epoch 0, the ISR is " in lines
    assert run(plan).violation is None, "without the fault there is no violation"


def test_loss_without_a_guarantee_is_no_violation() -> None:
    """Test a blackout: unsynced records may be lost without a violation."""
    everybody = [
        Timed(at_ms=3_000, action=LoseBrokerPower(target=Target(broker=broker), down_ms=500))
        for broker in (1, 2, 3)
    ]
    outcome = run(plan_of(produce(100, batches=30), *everybody))
    assert outcome.violation is None
    assert sum(what.endswith("loses power") for _, what in outcome.notes) == 3


@pytest.mark.parametrize(
    ("nth", "for_ms", "fails"), [(3, 5_000, 1), (100_000, 5_000, 0), (3, 1, 0)]
)
def test_power_fails_after_the_chosen_operation_only(nth: int, for_ms: int, fails: int) -> None:
    """Test power failures after an operation. Nothing is written in the first millisecond."""
    mid_step = LosePowerAfter(
        target=Target(broker=1), operation="write", nth=nth, for_ms=for_ms, down_ms=500
    )
    outcome = run(plan_of(Timed(at_ms=1_000, action=mid_step), produce(1_100, batches=30)))
    assert outcome.violation is None
    assert sum(what == "broker 1 loses power" for _, what in outcome.notes) == fails


# --- the command ----------------------------------------------------------------------------------


def test_command_replays_a_plan_and_prints_its_coverage(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(to_json(plan_of(produce(100))))
    result = CliRunner().invoke(main, ["--replay", str(plan)])
    assert result.exit_code == 0, result.output
    assert "All invariants held" in result.output
    assert "Coverage" in result.output
    assert "steps/s" in result.output


def test_failing_command_prints_narrative_and_replay_command(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(to_json(plan_of(produce(100))))
    command = ["--replay", str(plan), "--save", str(tmp_path), "--no-coverage"]
    with ANSWERED_AT_APPEND.active():
        result = CliRunner().invoke(main, command)
    assert result.exit_code == 1
    assert "Produce/acknowledged-before-commit: t0-0" in result.output
    saved = tmp_path / "seed-1.json"
    assert f"python -m simulation --replay {saved}" in result.output.replace("\n", "")
    assert saved.exists()
