"""ZooKeeper and what is read from it, for real."""

import pytest

pytestmark = pytest.mark.integration

CASES = "cases_systems.py"


@pytest.mark.parametrize(
    "case",
    [
        "what_is_seen_of_a_zookeeper",
        # The suite of all backends has an ensemble that loses its leader, and "views" a server that
        # leads alone: three servers take as long to start as all else here.
        pytest.param("an_ensemble_survives_one_server", marks=pytest.mark.long),
        pytest.param("who_leads_the_ensemble", marks=pytest.mark.long),
        "brokers_register_and_stop",
        "a_session_that_expires_is_told_from_one_that_is_closed",
        "a_broker_that_dies_is_told",
        "views_of_a_paused_zookeeper",
        "observes_through_a_pause",
    ],
)
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_inside(inside, case: str) -> None:
    inside.check(CASES, case)


@pytest.mark.parametrize("inside", ["unprivileged"], indirect=True)
def test_zookeeper_without_privileges(inside) -> None:
    inside.check(CASES, "zookeeper_serves_and_keeps_its_data")
