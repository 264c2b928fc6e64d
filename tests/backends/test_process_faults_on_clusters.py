"""Every fault on processes bites a real cluster, and heals, whatever it runs on."""

from tests.support.backends.parameters import ON_CLUSTERS, cases
from tests.support.faults.processes import (
    CASES,
    replaced_machines_fetch_everything,
    servers_have_too_little,
)


# tests/integration/test_membership.py has a broker come back without its disk.
@cases(CASES, long=[servers_have_too_little, replaced_machines_fetch_everything])
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
