"""``junit.xml``: one test case a cell, for CI servers.

A broken guarantee is a failure, an inconclusive cell an error. A cell to which nothing was
promised passes, its losses in its output.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from checkers.verdict import CampaignResult, CellResult, Verdict


def write(path: Path, campaign: Mapping[str, Any], result: CampaignResult) -> None:
    """Write the result as JUnit XML."""
    suite = TestSuite(str(campaign.get("name")))
    suite.add_property("seed", str(campaign.get("seed")))
    suite.add_property("verdict", result.verdict.value)
    for cell in result.cells:
        suite.add_testcase(_case(str(campaign.get("name")), cell))
    if not result.cells:
        nothing = TestCase("campaign", str(campaign.get("name")))
        nothing.result = [Error("; ".join(result.findings) or "nothing was checked")]
        suite.add_testcase(nothing)
    document = JUnitXml()
    document.add_testsuite(suite)
    document.write(str(path), pretty=True)


def _case(campaign: str, cell: CellResult) -> TestCase:
    case = TestCase(f"run {cell.run}: {cell.cell}", campaign)
    case.system_out = (
        f"sent {cell.sent}, acked {cell.acked}, failed {cell.failed}, "
        f"indeterminate {cell.indeterminate}, lost {cell.lost}, duplicated {cell.duplicated}, "
        f"reordered {cell.reordered}: {cell.verdict.value}"
    )
    reasons = "; ".join(cell.reasons)
    if cell.verdict is Verdict.FAIL:
        case.result = [Failure(reasons)]
    elif cell.verdict is Verdict.INCONCLUSIVE:
        case.result = [Error(reasons)]
    return case
