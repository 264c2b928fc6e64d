"""Every fault on processes bites a real cluster, and heals, whatever it runs on."""

import pytest
from patience import TEST_S
from places import ON_CLUSTERS, cases
from process_faults import CASES

pytestmark = pytest.mark.timeout(TEST_S)


@cases(CASES)
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
