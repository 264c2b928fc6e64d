"""Every fault on processes bites a real cluster, and heals, whatever it runs on."""

from places import ON_CLUSTERS, cases
from process_faults import CASES, servers_have_too_little


@cases(CASES, long=[servers_have_too_little])
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
