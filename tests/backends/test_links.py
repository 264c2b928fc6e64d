"""Link faults on every backend."""

from tests.support.backends.link_cases import CASES, links_can_be_treated
from tests.support.backends.parameters import on_every_backend


@on_every_backend(CASES, rootless=[links_can_be_treated])
def test_case(place, case: str) -> None:
    place.check(case)
