"""Every fault on the network bites a real cluster, and heals, whatever it runs on."""

from tests.support.backends.parameters import ON_CLUSTERS, cases
from tests.support.faults.network import (
    CASES,
    links_are_cut_in_every_shape,
    one_client_is_cut_off,
    several_hold_one_link,
)


# tests/backends/test_links.py has several impairments of one link, and tests/nemesis what is cut.
@cases(CASES, long=[links_are_cut_in_every_shape, several_hold_one_link, one_client_is_cut_off])
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
