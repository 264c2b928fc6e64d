"""Named scenarios: data that is the same for a seed, and that a sound broker passes."""

import pytest

from simulation.plans.actions import CommitMany
from simulation.plans.plan import from_json, to_json
from simulation.plans.scenarios import NEED_CONTROLLER, SCENARIOS
from simulation.plans.schedule import draw
from simulation.world.world import run

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_is_data_and_the_same_for_a_seed(scenario: str) -> None:
    for seed in range(20):
        plan = draw(seed, scenario)
        assert from_json(to_json(plan)) == plan == draw(seed, scenario)
        assert all(timed.at_ms <= plan.run_ms for timed in plan.actions)
        assert plan != draw(seed, next(other for other in SCENARIOS if other != scenario))


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("scenario", "coordination"),
    [
        *((scenario, "controller") for scenario in SCENARIOS),
        *((scenario, "leader-fenced") for scenario in sorted(SCENARIOS.keys() - NEED_CONTROLLER)),
    ],
)
def test_sound_broker_passes_scenario(scenario: str, coordination: str) -> None:
    lots = any(isinstance(timed.action, CommitMany) for timed in draw(0, scenario).actions)
    for seed in [1] if coordination != "controller" else range(1 if lots else 3):
        outcome = run(draw(seed, scenario, coordination))
        assert outcome.violation is None, f"{seed}: {outcome.violation}"


@pytest.mark.timeout(0)
def test_leader_with_a_lagging_zookeeper_server_eventually_writes_its_isr() -> None:
    """Test a leader whose ZooKeeper server lags behind the controller's.

    The controller informed it of a state that its own server did not have yet. It took that for a
    conflict, and waited for the controller for ever. It did not find the new topic's settings there
    either, and answered acks=all by the default of ``min.insync.replicas``.
    """
    outcome = run(draw(4, "moved and extended"))
    assert outcome.plan.zookeeper_lag_ms > 0
    assert outcome.violation is None
