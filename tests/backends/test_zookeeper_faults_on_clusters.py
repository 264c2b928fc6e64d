"""Every fault on ZooKeeper and on sessions bites a real cluster, and heals, whatever it runs on."""

from tests.support.backends.parameters import ON_CLUSTERS, cases
from tests.support.faults.zookeeper import CASES, the_ensemble_loses_servers


@cases(CASES, long=[the_ensemble_loses_servers])
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
