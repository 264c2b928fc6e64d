"""A group's coordinator in memory."""

import pytest
from group_steps import looked_at
from group_world import World


@pytest.fixture
def world():
    return World()


@pytest.fixture(autouse=True)
def every_step_is_looked_at():
    """Whatever a test is about, no step of a group does what its members may not expect."""
    with looked_at():
        yield
