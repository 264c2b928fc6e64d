"""Every order of an administrator is carried out by a real cluster, and taken back, wherever it
runs."""

from admin_faults import CASES, orders_without_a_controller
from places import ON_CLUSTERS, cases


@cases(CASES, long=[orders_without_a_controller])
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
