"""ZooKeeper's servers and sessions, seen and ended from outside, for real."""

import pytest


# The faults expire-session and conflicted-node do the same to a whole cluster (tests/backends).
@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_inside(inside) -> None:
    inside.check("cases_ensemble.py", "ensemble_from_outside")
