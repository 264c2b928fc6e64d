"""Every fault on disks and logs bites a real cluster, and heals, whatever it runs on."""

from tests.support.backends.parameters import ON_CLUSTERS, cases
from tests.support.faults.storage import (
    CASES,
    damage_in_a_closed_segment_is_found_by_who_reads_it,
    disks_fail_under_brokers,
    files_are_damaged_under_brokers,
)


# tests/backends/test_disks.py has disks fail, and tests/integration/test_failover.py a broker whose
# disk is full.
@cases(
    CASES,
    long=[
        disks_fail_under_brokers,
        files_are_damaged_under_brokers,
        damage_in_a_closed_segment_is_found_by_who_reads_it,
    ],
)
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
