"""Clocks of nodes can be set, and are where a backend says that they can."""

import pytest
from clock_cases import CASES
from patience import TEST_S

pytestmark = pytest.mark.timeout(TEST_S)


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_case(place, case: str) -> None:
    place.check(case)
