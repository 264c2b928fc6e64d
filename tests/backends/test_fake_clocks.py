"""Clocks of nodes can be set, and are where a backend says that they can."""

from tests.support.backends.clock_cases import CASES
from tests.support.backends.parameters import on_every_backend


@on_every_backend(CASES, rootless=CASES[:1])
def test_case(place, case: str) -> None:
    place.check(case)
