"""Fixtures of simulated machines: hosts on a network, and a disk for logs."""

from collections.abc import Iterator

import pytest

from simulation.machines.disk import SimulatedDisk
from tests.support.fakes.log_disk import log_disk
from tests.support.worlds.echo_world import EchoWorld


@pytest.fixture
def world() -> Iterator[EchoWorld]:
    """Return a world with a listening server."""
    world = EchoWorld()
    world.serve()
    yield world
    world.loop.close()
    assert not world.loop.unhandled_errors


@pytest.fixture
def disk() -> SimulatedDisk:
    """Return a disk for the logs of a broker."""
    return log_disk()
