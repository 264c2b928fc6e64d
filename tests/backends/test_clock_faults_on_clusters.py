"""Every fault on clocks bites a real cluster, and heals, whatever it runs on."""

from tests.support.backends.parameters import ON_CLUSTERS, cases
from tests.support.faults.clocks import CASES


@cases(CASES)
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
