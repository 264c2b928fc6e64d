"""Every fault on clocks bites a real cluster, and heals, whatever it runs on."""

from clock_faults import CASES
from places import ON_CLUSTERS, cases


@cases(CASES)
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
