"""The exit status follows from the result, and is documented once. A broken guarantee wins."""

import re
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from click.testing import CliRunner

from ackproof.checkers.verdict import CampaignResult, CellResult, RunResult, Verdict
from ackproof.harness.cli import cli
from ackproof.harness.commands.nightly import seeds_of
from ackproof.harness.exit_status import ExitStatus, exit_status, worst
from tests.support.builders.results import cell_result, guarantee, threshold


def result(verdict: Verdict, *cells: CellResult, failed: bool = False) -> CampaignResult:
    run = RunResult(number=1, clock_bound_ns=None, infrastructure_failed=failed)
    return CampaignResult(verdict=verdict, cells=cells, anomalies={}, findings=(), runs=(run,))


BROKEN = cell_result(verdict=Verdict.FAIL, guarantees=[guarantee(held=False, broken=1)])
UNMET = cell_result(verdict=Verdict.NOT_GUARANTEED, expected=(Verdict.PASS,))
MET = cell_result(
    verdict=Verdict.FAIL,
    expected=(Verdict.FAIL,),
    guarantees=[guarantee(held=False, broken=1)],
)
EXCEEDED = threshold(met=False)
SLOW = cell_result(thresholds=(threshold(met=True), EXCEEDED))
UNMEASURED = cell_result(thresholds=(threshold(met=None),))


@pytest.mark.parametrize(
    ("verdict", "infrastructure_failed", "expected"),
    [
        (Verdict.PASS, False, ExitStatus.HELD),
        (Verdict.NOT_GUARANTEED, False, ExitStatus.HELD),
        (Verdict.INCONCLUSIVE, False, ExitStatus.INCONCLUSIVE),
        (Verdict.PASS, True, ExitStatus.INFRASTRUCTURE),
        (Verdict.NOT_GUARANTEED, True, ExitStatus.INFRASTRUCTURE),
        (Verdict.INCONCLUSIVE, True, ExitStatus.INFRASTRUCTURE),
    ],
)
def test_exit_status_without_a_failing_cell(
    verdict: Verdict, infrastructure_failed: bool, expected: ExitStatus
) -> None:
    assert exit_status(result(verdict, failed=infrastructure_failed)) is expected


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([BROKEN], ExitStatus.BROKEN),
        ([UNMET], ExitStatus.UNMET),
        ([UNMET, BROKEN], ExitStatus.BROKEN),
        ([MET, UNMET], ExitStatus.UNMET),
        ([SLOW], ExitStatus.UNMET),
        ([SLOW, UNMEASURED], ExitStatus.UNMET),
        ([SLOW, BROKEN], ExitStatus.BROKEN),
        ([replace(BROKEN, thresholds=(threshold(met=True),))], ExitStatus.BROKEN),
        ([replace(MET, thresholds=(EXCEEDED,))], ExitStatus.UNMET),
        ([cell_result(verdict=Verdict.INCONCLUSIVE, thresholds=(EXCEEDED,))], ExitStatus.UNMET),
    ],
)
def test_exit_status_with_a_failing_cell(
    cells: list[CellResult], expected: ExitStatus, failed: bool
) -> None:
    assert exit_status(result(Verdict.FAIL, *cells, failed=failed)) is expected


@pytest.mark.parametrize(
    ("verdict", "expected", "met", "counts_as"),
    [
        (Verdict.PASS, (), (True, True), Verdict.PASS),
        (Verdict.PASS, (), (True, False), Verdict.FAIL),
        (Verdict.PASS, (), (True, None), Verdict.INCONCLUSIVE),
        (Verdict.PASS, (), (None, False), Verdict.FAIL),
        (Verdict.NOT_GUARANTEED, (), (True,), Verdict.NOT_GUARANTEED),
        (Verdict.NOT_GUARANTEED, (Verdict.NOT_GUARANTEED,), (True,), Verdict.PASS),
        (Verdict.NOT_GUARANTEED, (Verdict.PASS,), (True,), Verdict.FAIL),
        (Verdict.FAIL, (Verdict.FAIL,), (None,), Verdict.INCONCLUSIVE),
        (Verdict.FAIL, (Verdict.FAIL,), (False,), Verdict.FAIL),
        (Verdict.FAIL, (), (None,), Verdict.FAIL),
        (Verdict.INCONCLUSIVE, (), (False,), Verdict.FAIL),
        (Verdict.INCONCLUSIVE, (Verdict.INCONCLUSIVE,), (True,), Verdict.INCONCLUSIVE),
    ],
)
def test_thresholds_decide_beside_the_verdict(
    verdict: Verdict,
    expected: tuple[Verdict, ...],
    met: tuple[bool | None, ...],
    counts_as: Verdict,
) -> None:
    cell = cell_result(
        verdict=verdict, expected=expected, thresholds=tuple(threshold(met=one) for one in met)
    )
    assert cell.counts_as is counts_as
    assert cell.is_broken == (verdict is Verdict.FAIL and not expected)


def test_worst_status_is_the_same_in_any_order() -> None:
    rising = [ExitStatus(number) for number in (0, 3, 5, 4, 2, 1)]
    assert set(rising) == set(ExitStatus)
    for count in range(1, len(rising) + 1):
        for some in permutations(rising[:count]):
            assert worst(some) is rising[count - 1]


def test_help_and_readme_document_every_status() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    said = CliRunner().invoke(cli, ["--help"]).output
    for status in ExitStatus:
        assert f"| {status.value} | {status.meaning} |" in readme
        assert re.search(rf"^.* {status.value}  {re.escape(status.meaning)}$", said, re.MULTILINE)


def test_a_night_can_be_repeated() -> None:
    assert seeds_of("2031-05-17", 3) == seeds_of("2031-05-17", 3)
    assert seeds_of("2031-05-17", 3) != seeds_of("2031-05-18", 3)
    assert len(set(seeds_of("2031-05-17", 50))) == 50
