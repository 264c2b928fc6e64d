"""Every fault on processes bites a real cluster, and heals, whatever it runs on."""

import pytest
from patience import TEST_S
from process_faults import CASES

pytestmark = pytest.mark.timeout(TEST_S)


@pytest.mark.parametrize("case", [case.__name__ for case in CASES])
@pytest.mark.parametrize(
    "place",
    [
        # Not without privileges, besides: a signal is a signal.
        pytest.param("ourselves", id="local", marks=pytest.mark.integration),
        pytest.param("docker", id="docker", marks=pytest.mark.docker),
        pytest.param("ssh", id="ssh", marks=pytest.mark.ssh),
    ],
    indirect=True,
)
def test_case(place, case: str) -> None:
    place.check(case)
