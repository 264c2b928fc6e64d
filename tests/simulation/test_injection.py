"""Links and disks that are cut or slow for a while. A fault does not end with an earlier one."""

from typing import Any

import pytest

from simulation.loop import EXECUTOR_S_MAX, SimulatedProcess
from simulation.model.observer import ClusterObserver
from simulation.network import BASE_S
from simulation.world.injection import LinkFaults, SlowDisks

pytestmark = pytest.mark.simulation

LINK = ("server", "client-1")
HOST = "broker-1"


@pytest.fixture
def links(world: Any) -> LinkFaults:
    observer = ClusterObserver(world.loop.time, world.loop.fail, checks_data=True, unclean=False)
    return LinkFaults(world.loop, world.network, observer)


def test_link_is_healed_when_its_last_cut_ends(world: Any, links: LinkFaults) -> None:
    links.cut([LINK], 1_000)
    links.cut([LINK], 3_000)
    world.loop.run_for(2)
    assert world.network.link(*LINK).cut
    assert not world.network.link(*reversed(LINK)).cut
    world.loop.run_for(2)
    assert not world.network.link(*LINK).cut


def test_link_has_its_last_delay(world: Any, links: LinkFaults) -> None:
    links.slow([LINK], 500, 1_000)
    links.slow([LINK], 700, 3_000)
    world.loop.run_for(2)
    assert world.network.link(*LINK).base_s == 0.7
    assert world.network.link(*reversed(LINK)).base_s == BASE_S
    world.loop.run_for(2)
    assert world.network.link(*LINK).base_s == BASE_S


def test_healing_ends_cuts_and_delays(world: Any, links: LinkFaults) -> None:
    links.cut([LINK], 1_000)
    links.slow([LINK], 700, 1_000)
    links.heal()
    assert not world.network.link(*LINK).cut
    assert world.network.link(*LINK).base_s == BASE_S
    links.cut([LINK], 5_000)
    world.loop.run_for(2)
    assert world.network.link(*LINK).cut, "the end of what was healed is no end of this"


def test_slow_link_delays_only_bytes_sent_meanwhile(world: Any, links: LinkFaults) -> None:
    early, late = world.connection(), world.connection()
    world.ask(early)
    world.loop.run_for(1)
    links.slow([LINK], 2_000, 100)
    waiting = world.ask(early)
    world.loop.run_for(0.2)
    quick = world.ask(late)
    world.loop.run_for(0.2)
    assert quick.done()
    assert not waiting.done()
    world.loop.run_for(2)
    assert waiting.done()


# --- slow disks: the background work of a broker takes longer -------------------------------------


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
