"""Every fault on disks and logs bites a real cluster, and heals, whatever it runs on."""

from places import ON_CLUSTERS, cases
from storage_faults import (
    CASES,
    damage_in_a_closed_segment_is_found_by_who_reads_it,
    files_are_damaged_under_brokers,
)


@cases(
    CASES,
    long=[
        files_are_damaged_under_brokers,
        damage_in_a_closed_segment_is_found_by_who_reads_it,
    ],
)
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
