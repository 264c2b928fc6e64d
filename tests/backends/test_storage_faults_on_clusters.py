"""Every fault on disks and logs bites a real cluster, and heals, whatever it runs on."""

from places import ON_CLUSTERS, cases
from storage_faults import CASES, files_are_damaged_under_brokers


@cases(CASES, long=[files_are_damaged_under_brokers])
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
