"""Plans in which this broker once failed: the simulator judges them again.

Each finds the broken broker that has the same fault (``tools/mutation/catalogue``).
"""

from pathlib import Path

import pytest

from simulation.plans.plan import from_json
from simulation.world.world import run

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(0)]

PLANS = Path(__file__).parent / "plans"
FAULTS = {
    2071: "A broker that halted opened and truncated a log after it had closed it.",
    34384: "A late answer of a broker's former registration kept a topic from being deleted.",
    60024: "An UpdateMetadata that had been sent again was obeyed late, on its old connection.",
    62945: "A broker that registered again told clients of a topic that was deleted meanwhile.",
    62999: "Without a controller, a leader took over another ISR and another assignment at once, "
    "and committed without a member of the ISR that was no longer assigned.",
    86298: "Without a controller, a replica that was moved back joined the ISR with the order to "
    "close it still in its queue.",
}
"""By the seed that found it."""


@pytest.mark.parametrize("seed", FAULTS)
def test_broker_passes_plan_that_found_a_fault(seed: int) -> None:
    outcome = run(from_json((PLANS / f"seed-{seed}.json").read_text(encoding="utf-8")))
    assert outcome.violation is None, FAULTS[seed]
