"""What can befall links, on every backend."""

import pytest
from link_cases import CASES


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_case(place, case: str) -> None:
    place.check(case)
