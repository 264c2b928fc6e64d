"""Every fault on the network bites a real cluster, and heals, whatever it runs on."""

import pytest
from network_faults import CASES
from patience import TEST_S

pytestmark = pytest.mark.timeout(TEST_S)


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
def test_case(place, case: str) -> None:
    place.check(case)
