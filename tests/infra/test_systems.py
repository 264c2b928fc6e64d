"""ZooKeeper and what is read from it, for real."""

import pytest

pytestmark = pytest.mark.integration

CASES = "cases_systems.py"


@pytest.mark.parametrize(
    "case",
    [
        "zookeeper_serves_and_keeps_its_data",
        "an_ensemble_survives_one_server",
        "who_leads_the_ensemble",
        "brokers_register_and_stop",
        "a_session_that_expires_is_told_from_one_that_is_closed",
        "a_broker_that_dies_is_told",
        "views",
        "views_where_leaders_coordinate",
        "views_of_a_paused_zookeeper",
        "observes",
        "observes_through_a_pause",
        "what_zookeeper_counts",
        "an_observer_that_fails_says_so",
        "an_observer_that_was_late_says_so",
        "the_bundled_broker",
    ],
)
@pytest.mark.parametrize("inside", ["ourselves"], indirect=True)
def test_inside(inside, case: str) -> None:
    inside.check(CASES, case)


@pytest.mark.parametrize("inside", ["unprivileged"], indirect=True)
def test_zookeeper_without_privileges(inside) -> None:
    inside.check(CASES, "zookeeper_serves_and_keeps_its_data")
