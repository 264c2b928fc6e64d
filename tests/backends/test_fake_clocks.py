"""Clocks of nodes can be set, and are where a backend says that they can."""

import pytest
from clock_cases import CASES


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_case(place, case: str) -> None:
    place.check(case)
