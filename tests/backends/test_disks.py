"""Disks of nodes can fail, and do so where a backend says that they can."""

from tests.support.backends.disk_cases import CASES, disks_lose_what_was_not_synced
from tests.support.backends.parameters import on_every_backend


@on_every_backend(CASES, rootless=[disks_lose_what_was_not_synced])
def test_case(place, case: str) -> None:
    place.check(case)
