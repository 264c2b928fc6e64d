"""Disks that are slow for a while: the background work of a broker takes longer."""

from typing import Any

import pytest

from simulation.loop import EXECUTOR_S_MAX, SimulatedProcess
from simulation.world.injection import SlowDisks

pytestmark = pytest.mark.simulation

HOST = "broker-1"


def takes(world: Any, host: str) -> float:
    """Return the longest of many delays."""
    process = SimulatedProcess(host)

    async def longest() -> float:
        took = []
        for _ in range(50):
            began = world.loop.time()
            await world.loop.run_in_executor(None, lambda: None)
            took.append(world.loop.time() - began)
        return max(took)

    task = world.loop.create_task(longest(), context=process.context.copy())
    return float(world.loop.run_until_complete(task))


def test_slow_disk_affects_its_own_broker_until_its_last_end(world: Any) -> None:
    disks = SlowDisks(world.loop)
    disks.slow(HOST, 200, 60_000)
    disks.slow(HOST, 100, 1_000)
    assert 0.05 < takes(world, HOST) <= 0.1
    assert takes(world, "broker-2") <= EXECUTOR_S_MAX
    world.loop.run_for(60)
    assert takes(world, HOST) <= EXECUTOR_S_MAX


def test_healing_makes_a_slow_disk_fast(world: Any) -> None:
    disks = SlowDisks(world.loop)
    disks.slow(HOST, 100, 60_000)
    disks.heal()
    assert takes(world, HOST) <= EXECUTOR_S_MAX
