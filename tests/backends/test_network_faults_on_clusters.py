"""Every fault on the network bites a real cluster, and heals, whatever it runs on."""

import pytest
from network_faults import CASES
from patience import TEST_S
from places import ON_CLUSTERS, cases

pytestmark = pytest.mark.timeout(TEST_S)


@cases(CASES)
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
