"""One suite for all backends: whatever runs on one, runs on the others."""

from ackproof.infra.machine.waiting import wait_until
from tests.support.backends import capability_cases, conformance_cases, ensemble_cases
from tests.support.backends.conformance_cases import control_groups
from tests.support.backends.disk_cases import images_in_use
from tests.support.backends.parameters import on_every_backend
from tests.support.processes.deadlines import PATIENCE_S

CASES = (*capability_cases.CASES, *conformance_cases.CASES, *ensemble_cases.CASES)

ROOTLESS = (
    capability_cases.it_can_do_what_the_catalogue_says,
    conformance_cases.many_links_are_cut_at_once,
    conformance_cases.too_little_memory,
    conformance_cases.a_node_is_removed_with_all_that_is_on_it,
    conformance_cases.its_software_is_there,
)


@on_every_backend(CASES, rootless=ROOTLESS)
def test_case(place, case: str) -> None:
    place.check(case)


def test_clean_removes_the_leftovers_of_a_killed_harness(place) -> None:
    harness = place.start("is_busy_until_killed")
    wait_until((place.scratch / "ready").exists, PATIENCE_S, "the harness to be busy")
    assert len(place.processes()) >= 4
    groups = (place.scratch / "ready").read_text().split()
    harness.kill()
    harness.wait(PATIENCE_S)
    assert control_groups(place.mark) == groups
    assert place.left()
    assert place.clean()
    assert place.left() == []
    wait_until(lambda: images_in_use(place.mark) == [], PATIENCE_S, "the disks to be gone")
    wait_until(lambda: place.processes() == [], PATIENCE_S, "every process to end")
    assert control_groups(place.mark) == []
