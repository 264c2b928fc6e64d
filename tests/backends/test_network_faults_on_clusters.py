"""Every fault on the network bites a real cluster, and heals, whatever it runs on."""

from network_faults import CASES, links_are_cut_in_every_shape
from places import ON_CLUSTERS, cases


@cases(CASES, long=[links_are_cut_in_every_shape])
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
