"""A group's coordinator in memory."""

import pytest

from tests.support.worlds.group_world import World


@pytest.fixture
def world():
    return World()
