"""Disks of nodes can fail, and do so where a backend says that they can."""

import pytest
from disk_cases import CASES


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_case(place, case: str) -> None:
    place.check(case)
