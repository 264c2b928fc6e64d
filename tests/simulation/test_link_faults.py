"""Links that are cut or slow for a while. The end of an earlier fault does not end a later one."""

from typing import Any

import pytest

from simulation.model.observer import ClusterObserver
from simulation.network import BASE_S
from simulation.world.injection import LinkFaults

pytestmark = pytest.mark.simulation

LINK = ("server", "client-1")


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
