"""Every order of an administrator is carried out by a real cluster, and taken back, wherever it
runs."""

from tests.support.backends.parameters import ON_CLUSTERS, cases
from tests.support.faults.admin import (
    CASES,
    a_broker_joins_and_leaves_without_a_controller,
    orders_are_carried_out_and_taken_back,
    orders_without_a_controller,
)


# What is left in each run of the tests adds and removes a broker, the order with most parts.
@cases(
    CASES,
    long=[
        orders_without_a_controller,
        orders_are_carried_out_and_taken_back,
        a_broker_joins_and_leaves_without_a_controller,
    ],
)
@ON_CLUSTERS
def test_case(place, case: str) -> None:
    place.check(case)
