"""``junit.xml``: one test case a cell, for CI servers.

A broken guarantee is a failure, an inconclusive cell an error. A cell to which nothing was
promised passes, its losses in its output, and so does one that came out as expected.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from junitparser import Error, Failure, JUnitXml, TestCase, TestSuite

from checkers.verdict import CampaignResult, Verdict
from harness.report.rows import COUNTS, CellRow, number


def write(
    path: Path, campaign: Mapping[str, Any], result: CampaignResult, cells: Sequence[CellRow]
) -> None:
    """Write the result as JUnit XML."""
    name = str(campaign.get("name"))
    suite = TestSuite(name)
    suite.add_property("seed", str(campaign.get("seed")))
    suite.add_property("verdict", result.verdict.value)
    suite.add_property("baseline", str(result.baseline).lower())
    for cell in cells:
        suite.add_testcase(_case(name, cell))
    if not cells or (result.infrastructure_failed and result.verdict is not Verdict.FAIL):
        nothing = TestCase("campaign", name)
        nothing.result = [Error("; ".join(result.findings) or "nothing was checked")]
        suite.add_testcase(nothing)
    document = JUnitXml()
    document.add_testsuite(suite)
    document.write(str(path), pretty=True)


def _case(campaign: str, cell: CellRow) -> TestCase:
    case = TestCase(f"run {cell.run}: {cell.cell}", campaign)
    counts = ", ".join(f"{name} {number(cell.counts[name])}" for name in COUNTS)
    case.system_out = f"{counts}: {cell.words}"
    reasons = "; ".join(cell.reasons)
    if cell.counts_as is Verdict.FAIL:
        case.result = [Failure(f"{cell.words}: {reasons}")]
    elif cell.counts_as is Verdict.INCONCLUSIVE:
        case.result = [Error(f"{cell.words}: {reasons}")]
    return case
