"""Clocks of nodes can be set, and are where a backend says that they can."""

from clock_cases import CASES
from places import on_every_backend


@on_every_backend(CASES, rootless=CASES[:1])
def test_case(place, case: str) -> None:
    place.check(case)
