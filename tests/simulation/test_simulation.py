"""Replication under a seeded scheduler; see the package ``simulator`` for what is modelled.

A longer search: ``ACKPROOF_SIMULATION_SEEDS=20000 pytest tests/simulation`` or
``PYTHONPATH=tests/support python -m simulator --seeds 20000``.
"""

import os
import re
from collections.abc import Callable

import pytest
from simulator.mutations import MUTATIONS, Found, search
from simulator.simulation import Simulation, SimulationFailed

from ackproof.broker.replication.config import Truncation
from ackproof.broker.replication.replica import Role

Record = Callable[[str, object], None]

pytestmark = pytest.mark.simulation

SEEDS = int(os.environ.get("ACKPROOF_SIMULATION_SEEDS", "200"))
STEPS = 1_000
BLOCKS = 4
SEEDS_FOR_A_MUTATION = range(1_000)
FIRST_SEEDS = {"requests of other epochs are served": 440}
"""Where the search for one that is found late begins, to be short."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_invariant_holds(block: int) -> None:
    for seed in range(block, SEEDS, BLOCKS):
        Simulation(seed).run(STEPS).settle()


def test_runs_are_worth_something() -> None:
    """The seeds do commit, acknowledge, elect, cut and retain; a dead simulator proves nothing."""
    seen: set[str] = set()
    lines: list[str] = []
    acked = committed = 0
    for seed in range(20):
        simulation = Simulation(seed, trace=lines.append).run(STEPS)
        acked += sum(invariants.answers[-1] for invariants in simulation.invariants)
        committed += sum(len(invariants.committed) for invariants in simulation.invariants)
        seen.update(word for line in lines for word in re.findall(r"\b[A-Z]\w+(?=\()", line))
        lines.clear()
    assert acked > 100
    assert committed > 1_000
    assert seen >= {
        *("Append", "StartEpoch", "Truncate", "TruncateFully", "AdvanceLogStart", "WriteIsr"),
        *("FetchOutOfRange", "IsrWritten", "IsrWriteFailed", "LogStartMoved", "EpochEndOffset"),
    }


def test_settling_leaves_a_whole_cluster() -> None:
    simulation = Simulation(3).run(STEPS).settle()
    for partition, replicas in enumerate(simulation.shape.assignment):
        parts = [simulation.processes[broker].replicas[partition] for broker in replicas]
        assert sum(part.role is Role.LEADER for part in parts) == 1
        assert len({part.log_end_offset for part in parts}) == 1


def test_a_seed_replays_exactly() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        Simulation(11, trace=trace.append).run(STEPS).settle()
    assert traces[0] == traces[1]
    assert len(traces[0]) > STEPS / 4


def test_a_failure_names_its_seed_and_replays_at_the_same_step() -> None:
    with MUTATIONS["acks=-1 answered before the watermark"].active():
        found = search(range(50), STEPS)
        assert found is not None
        seed, step = found.failure.seed, found.failure.step
        with pytest.raises(SimulationFailed, match=f"seed {seed}, step {step}: ") as again:
            Simulation(seed).run(STEPS).settle()
    assert f"python -m simulator --seed {seed} --steps {STEPS} --trace" in str(again.value)
    assert str(again.value) == str(found.failure)


@pytest.mark.parametrize("name", MUTATIONS)
def test_the_simulator_finds(name: str, record_property: Record) -> None:
    with MUTATIONS[name].active():
        found = search(SEEDS_FOR_A_MUTATION[FIRST_SEEDS.get(name, 0) :], STEPS)
    _record(found, record_property)


def test_the_simulator_finds_truncation_by_watermark(
    record_property: Record,
) -> None:
    found = search(SEEDS_FOR_A_MUTATION, STEPS, Truncation.HIGH_WATERMARK)
    _record(found, record_property)


def _record(found: Found | None, record_property: Record) -> None:
    assert found is not None, "not found: the simulator has a hole"
    record_property("steps", found.steps)
    record_property("failure", str(found.failure))
