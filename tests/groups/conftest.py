"""A group's coordinator in memory."""

import pytest
from group_world import World


@pytest.fixture
def world():
    return World()
