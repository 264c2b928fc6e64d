"""A broken guarantee wins over all others."""

import pytest

from checkers.verdict import CampaignResult, RunResult, Verdict
from harness.exit_status import ExitStatus, exit_status, worst
from harness.nightly import seeds_of


def result(verdict: Verdict, *, failed: bool = False) -> CampaignResult:
    run = RunResult(number=1, clock_bound_ns=None, infrastructure_failed=failed)
    return CampaignResult(verdict=verdict, cells=(), anomalies={}, findings=(), runs=(run,))


@pytest.mark.parametrize(
    ("verdict", "infrastructure_failed", "expected"),
    [
        (Verdict.PASS, False, ExitStatus.HELD),
        (Verdict.NOT_GUARANTEED, False, ExitStatus.HELD),
        (Verdict.INCONCLUSIVE, False, ExitStatus.INCONCLUSIVE),
        (Verdict.PASS, True, ExitStatus.INCONCLUSIVE),
        (Verdict.NOT_GUARANTEED, True, ExitStatus.INCONCLUSIVE),
        (Verdict.FAIL, False, ExitStatus.BROKEN),
        (Verdict.FAIL, True, ExitStatus.BROKEN),
    ],
)
def test_exit_status(verdict: Verdict, infrastructure_failed: bool, expected: ExitStatus) -> None:
    assert exit_status(result(verdict, failed=infrastructure_failed)) is expected


def test_the_worst_of_several() -> None:
    held, broken, usage, inconclusive = (ExitStatus(n) for n in range(4))
    assert worst([held, inconclusive, broken, usage]) is broken
    assert worst([held, inconclusive, usage]) is usage
    assert worst([held, inconclusive]) is inconclusive
    assert worst([held]) is held


def test_a_night_can_be_repeated() -> None:
    assert seeds_of("2031-05-17", 3) == seeds_of("2031-05-17", 3)
    assert seeds_of("2031-05-17", 3) != seeds_of("2031-05-18", 3)
    assert len(set(seeds_of("2031-05-17", 50))) == 50
