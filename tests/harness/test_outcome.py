"""A broken guarantee wins over all others."""

import pytest

from checkers.verdict import CampaignResult, CellResult, Verdict
from harness.exit_status import ExitStatus, exit_status, worst
from harness.nightly import seeds_of
from history.cell import Cell


def result(*verdicts: Verdict, overall: Verdict) -> CampaignResult:
    cells = tuple(
        CellResult(
            run=1,
            settings=Cell(name=f"cell-{n}", topic="t", settings={"acks": "all"}),
            sent=1,
            acked=1,
            failed=0,
            indeterminate=0,
            lost=0,
            duplicated=0,
            reordered=0,
            guarantees=(),
            verdict=verdict,
            reasons=(),
        )
        for n, verdict in enumerate(verdicts)
    )
    return CampaignResult(verdict=overall, cells=cells, anomalies={}, findings=())


PASS, FAIL = Verdict.PASS, Verdict.FAIL
NOT_GUARANTEED, INCONCLUSIVE = Verdict.NOT_GUARANTEED, Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("found", "infrastructure_failed", "expected"),
    [
        (result(PASS, overall=PASS), False, ExitStatus.HELD),
        (result(PASS, NOT_GUARANTEED, overall=PASS), False, ExitStatus.HELD),
        (result(NOT_GUARANTEED, overall=NOT_GUARANTEED), False, ExitStatus.HELD),
        (result(PASS, INCONCLUSIVE, overall=INCONCLUSIVE), False, ExitStatus.INCONCLUSIVE),
        (result(PASS, overall=PASS), True, ExitStatus.INCONCLUSIVE),
        (result(overall=PASS), False, ExitStatus.INCONCLUSIVE),
        (None, False, ExitStatus.INCONCLUSIVE),
        (result(FAIL, INCONCLUSIVE, overall=INCONCLUSIVE), True, ExitStatus.BROKEN),
        (result(PASS, overall=FAIL), True, ExitStatus.BROKEN),
    ],
)
def test_exit_status(
    found: CampaignResult | None, infrastructure_failed: bool, expected: ExitStatus
) -> None:
    assert exit_status(found, infrastructure_failed=infrastructure_failed) is expected


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
