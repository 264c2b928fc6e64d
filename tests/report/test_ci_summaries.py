"""The result as Markdown and as workflow commands of GitHub Actions."""

import re
from dataclasses import replace

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.verdict import CampaignResult, CellResult, RunResult, Verdict
from ackproof.harness.report.ci import ANNOTATIONS_MAX, FINDINGS_MAX, to_commands, to_markdown
from ackproof.harness.report.rows import rows
from tests.support.builders.results import cell_result, guarantee, threshold

ODD = "a|b <script>\nsecond_line *bold* `code` [link](x) 100%"
"""A text as it may come from a broker's log."""


def result(*cells: CellResult, findings: tuple[str, ...] = ()) -> CampaignResult:
    worst = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS)
    verdicts = {cell.verdict for cell in cells}
    return CampaignResult(
        verdict=next(one for one in worst if one in verdicts),
        cells=cells,
        anomalies=dict.fromkeys(ANOMALIES, 0),
        findings=findings,
        runs=(RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False),),
    )


LOSING = cell_result(
    "acks-all",
    Verdict.FAIL,
    settings={"acks": "all", "min.insync.replicas": 2},
    guarantees=[guarantee(held=False, broken=3)],
    lost=3,
    reasons=(ODD,),
)
SOUND = cell_result(
    "acks-1",
    settings={"acks": "1", "min.insync.replicas": 2},
    guarantees=[guarantee()],
)


def markdown(found: CampaignResult) -> str:
    return to_markdown("quick, seed 42", found, rows(found))


def commands(found: CampaignResult) -> str:
    return to_commands("quick, seed 42", found, rows(found))


def test_markdown_has_the_verdict_and_a_row_for_each_cell() -> None:
    text = markdown(result(LOSING, SOUND))
    assert text.startswith("## Ackproof: quick, seed 42: fail\n")
    assert "**A guarantee was broken.**" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1


def test_markdown_shows_a_log_line_as_text() -> None:
    text = markdown(result(LOSING, findings=(ODD,)))
    assert "<script>" not in text.replace(r"\<script\>", "")
    shown = [line for line in text.splitlines() if "second" in line]
    assert shown
    assert all(r"a\|b \<script\> second\_line \*bold\*" in line for line in shown)


def test_markdown_names_the_plugins_that_were_used() -> None:
    text = markdown(replace(result(SOUND), plugins={"own_faults": "1.2"}))
    assert "### Plug-ins\n\n- own\\_faults 1.2\n" in text
    assert "Plug-ins" not in markdown(result(SOUND))


def test_markdown_limits_long_lists_and_says_so() -> None:
    text = markdown(result(SOUND, findings=tuple(f"finding {n}" for n in range(FINDINGS_MAX + 3))))
    assert text.count("- finding") == FINDINGS_MAX
    assert "and 3 more, which are in the report" in text


def test_annotations_name_each_broken_guarantee_in_one_line() -> None:
    lines = commands(result(LOSING, SOUND)).splitlines()
    assert "::error title=Ackproof%3A quick%2C seed 42::A guarantee was broken." in lines
    (broken,) = [
        line for line in lines if "acks=all, min ISR 2 broke no-acked-record-lost 3 times" in line
    ]
    assert broken.startswith("::error title=Guarantee broken::")


def test_annotations_escape_command_characters() -> None:
    undecided = cell_result("c", Verdict.INCONCLUSIVE, reasons=("x\n::error::y 100%",))
    text = commands(result(undecided))
    assert "x%0A::error::y 100%25" in text
    assert all(line.startswith("::") for line in text.splitlines())


def test_passing_result_has_no_annotations() -> None:
    assert commands(result(SOUND)) == ""


def test_annotations_are_as_many_as_are_shown() -> None:
    many = [
        cell_result(f"c{n}", Verdict.FAIL, guarantees=[guarantee(held=False)], lost=1)
        for n in range(ANNOTATIONS_MAX + 5)
    ]
    assert len(commands(result(*many)).splitlines()) == ANNOTATIONS_MAX


SLOW = cell_result(
    "acks-all",
    settings={"acks": "all", "min.insync.replicas": 2},
    thresholds=(threshold(met=False), threshold("shown.latency.p99", met=None)),
)


def test_markdown_has_a_row_for_each_threshold() -> None:
    text = markdown(replace(result(SLOW, SOUND), verdict=Verdict.FAIL))
    assert "**An expectation was not met.**" in text
    assert "0 of 2 thresholds met, 1 not met, 1 undecided." in text
    rows_of = text.partition("### Thresholds")[2].partition("\n### ")[0].splitlines()
    assert [line for line in rows_of if line.startswith("| acks")] == [
        r"| acks=all, min ISR 2 | unavailable.longest | \<= 10 s | 28.041 s | not met |",
        r"| acks=all, min ISR 2 | shown.latency.p99 | \<= 10 s | not measured "
        "| undecided: the cell has no tail reader |",
    ]
    assert "**pass, threshold not met** acks=all, min ISR 2: threshold unavailable.longest" in text


def test_annotations_name_each_threshold_that_is_not_met() -> None:
    lines = commands(replace(result(SLOW, SOUND), verdict=Verdict.FAIL)).splitlines()
    assert (
        "::error title=Threshold not met::acks=all, min ISR 2: "
        "threshold unavailable.longest <= 10 s not met: 28.041 s" in lines
    )


def test_annotations_do_not_blame_an_expected_verdict() -> None:
    lines = commands(result(replace(LOSING, expected=(Verdict.FAIL,)), SLOW))
    assert "Guarantee broken" not in lines
    assert "Threshold not met" in lines
