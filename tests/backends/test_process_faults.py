"""Every fault on processes bites a real cluster, and heals, whatever it runs on."""

import pytest
from patience import TEST_S
from process_faults import CASES

pytestmark = pytest.mark.timeout(TEST_S)


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_case(place, case: str) -> None:
    place.check(case)
