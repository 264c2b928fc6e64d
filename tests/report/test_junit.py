"""``junit.xml`` is what CI servers take, says what broke with its story, and nothing is plainly
green that lost records."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree.ElementTree import Element

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xmlschema
import yaml

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.guarantees.decisions import judged
from ackproof.checkers.guarantees.facts import Facts
from ackproof.checkers.verdict import CampaignResult, CellResult, Guarantee, RunResult, Verdict
from ackproof.harness import report
from ackproof.history.cell import Cell
from ackproof.history.schema import PHASES
from tests.support.builders.results import cell_result, guarantee, threshold

SCHEMA = Path(__file__).parent / "schemas" / "junit.xsd"
T0 = 1_942_453_020_123_000_000  # 2031-07-22T02:17:00.123Z
SECOND = 1_000_000_000

KEPT = guarantee()
BROKEN = guarantee("no-acked-record-lost", held=False, reason="3 of 10 acked records lost")
UNPROMISED = guarantee(promised=False, held=False, reason="acks=1: 2 of 10 acked records lost")
UNTOLD = guarantee(held=None, reason="the evidence does not show whether it held")


@cache
def schema() -> xmlschema.XMLSchema:
    """Return the schema, which only the worker that runs these tests reads."""
    return xmlschema.XMLSchema(SCHEMA)


def cell(name: str, verdict: Verdict, *guarantees: Guarantee, **changes: object) -> CellResult:
    return cell_result(name, verdict, topic="t", guarantees=guarantees, **changes)


def result(*cells: CellResult, **changes: object) -> CampaignResult:
    runs = sorted({one.run for one in cells}) or [1]
    made = CampaignResult(
        verdict=Verdict.FAIL,
        cells=cells,
        anomalies={"lost": 3},
        findings=(),
        runs=tuple(
            RunResult(number=number, clock_bound_ns=0, infrastructure_failed=False)
            for number in runs
        ),
    )
    return replace(made, **changes)


def row(at_s: int, **changes: object) -> dict[str, object]:
    place = {"run": 1, "cell": "eager", "anomaly": "lost", "topic": "t", "partition": 2}
    named = {"producer": 0, "sequence": at_s, "offset": None, "detail": "cut", "fault": "kill#1"}
    return {**place, **named, "time": T0 + at_s * SECOND, **changes}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump({"name": "quick", "seed": 7}))
    rows = [row(9), row(5, offset=41), row(1, anomaly="phantom"), row(2, cell="other")]
    pq.write_table(pa.Table.from_pylist(rows, schema=ANOMALIES), tmp_path / "anomalies.parquet")
    for number in (1, 2):
        history = tmp_path / "runs" / str(number) / "history"
        history.mkdir(parents=True)
        steps = [
            {"phase": "deploy", "event": event, "time": T0 + at * SECOND, "detail": None}
            for event, at in (("start", 0), ("end", 20))
        ]
        pq.write_table(pa.Table.from_pylist(steps, PHASES), history / "phases.harness.parquet")
    return tmp_path


def written(directory: Path, of: CampaignResult) -> Element:
    """The root of the file, which the schema was held against."""
    report.write(directory, of)
    schema().validate(directory / "junit.xml")
    root: Element = xmlschema.XMLResource(directory / "junit.xml").root
    return root


def outcomes(root: Element) -> Iterator[tuple[str, str, str]]:
    """Class, name and outcome of every case."""
    for case in root.iter("testcase"):
        found = next((child.tag for child in case if child.tag != "system-out"), "passed")
        yield case.attrib["classname"], case.attrib["name"], found


def test_schema_rejects_files_that_ci_servers_would_reject() -> None:
    """A test of validity that cannot fail shows nothing."""
    suite = '<testsuite name="s" tests="1" failures="0" errors="0">{}</testsuite>'
    assert schema().is_valid(suite.format('<testcase name="c" classname="k" time="0.1"/>'))
    for case in ("<testcase/>", '<testcase name="c" classname="k" time="1e-05"/>', "<case/>"):
        assert not schema().is_valid(suite.format(case))


def test_a_case_a_guarantee_of_each_cell(directory: Path) -> None:
    of = result(
        cell("eager", Verdict.FAIL, BROKEN, guarantee("no-phantom")),
        cell("loose", Verdict.NOT_GUARANTEED, UNPROMISED, guarantee("no-phantom")),
        cell("thin", Verdict.INCONCLUSIVE, UNTOLD, guarantee("no-phantom")),
        cell("sound", Verdict.PASS, KEPT, guarantee("replicas-agree", held=None)),
    )
    assert list(outcomes(written(directory, of))) == [
        ("quick.eager", "no-acked-record-lost", "failure"),
        ("quick.eager", "no-phantom", "passed"),
        ("quick.loose", "no-acked-record-lost", "skipped"),
        ("quick.loose", "no-phantom", "passed"),
        ("quick.thin", "no-acked-record-lost", "error"),
        ("quick.thin", "no-phantom", "passed"),
        ("quick.sound", "no-acked-record-lost", "passed"),
        ("quick.sound", "replicas-agree", "skipped"),
    ]


def test_a_failure_tells_its_story(directory: Path) -> None:
    root = written(directory, result(cell("eager", Verdict.FAIL, BROKEN)))
    (failure,) = root.iter("failure")
    assert failure.get("message") == "3 of 10 acked records lost"
    assert (failure.text or "").splitlines() == [
        "eager: fail",
        "no-acked-record-lost: 3 of 10 acked records lost",
        "fault: kill#1",
        "first: lost in t-2, producer 0, sequence 5, offset 41, at 2031-07-22T02:17:05.123Z, cut",
        f"report: {directory / 'report.html'}",
    ]


def test_a_failure_without_a_row_has_none(directory: Path) -> None:
    stays = guarantee("servers-stay-up", held=False, anomaly=None, reason="broker-1 ended")
    (failure,) = written(directory, result(cell("eager", Verdict.FAIL, stays))).iter("failure")
    assert "first:" not in (failure.text or "")
    assert "broker-1 ended" in (failure.text or "")


def test_loss_without_a_guarantee_is_skipped_instead_of_passed(directory: Path) -> None:
    root = written(directory, result(cell("loose", Verdict.NOT_GUARANTEED, UNPROMISED)))
    (skipped,) = root.iter("skipped")
    told = "not promised, and not held: acks=1: 2 of 10 acked records lost"
    assert skipped.get("message") == told


def test_a_run_is_a_suite_with_its_date_and_its_time(directory: Path) -> None:
    cells = [cell("c", Verdict.PASS, *[KEPT] * 7, run=number) for number in (1, 2)]
    root = written(directory, result(*cells))
    suites = list(root.iter("testsuite"))
    assert [suite.get("name") for suite in suites] == ["quick run 1", "quick run 2"]
    for suite in suites:
        assert suite.get("timestamp") == "2031-07-22T02:17:00"
        assert float(suite.attrib["time"]) == pytest.approx(20, abs=0.01)
        assert suite.get("tests") == "7"
    assert {name for name, *_ in outcomes(root)} == {"quick.run-1.c", "quick.run-2.c"}


def test_expected_verdict_has_a_case_and_its_violations_are_no_failures(
    directory: Path,
) -> None:
    for verdict, words in ((Verdict.FAIL, "passed"), (Verdict.PASS, "failure")):
        of = cell("eager", Verdict.FAIL, BROKEN, expected=(verdict,))
        found = [outcome for *_, outcome in outcomes(written(directory, result(of)))]
        assert found == ["skipped" if words == "passed" else "failure", words]


def test_each_threshold_has_a_case_of_its_own(directory: Path) -> None:
    """A verdict that came as expected stays green beside a threshold that is not met."""
    limits = (threshold(), threshold(met=False), threshold("latency.p99", met=None))
    of = cell("slow", Verdict.PASS, KEPT, expected=(Verdict.PASS,), thresholds=limits)
    root = written(directory, result(of))
    assert [(name, outcome) for _, name, outcome in outcomes(root)] == [
        ("no-acked-record-lost", "passed"),
        ("verdict", "passed"),
        ("unavailable.longest <= 10 s", "passed"),
        ("unavailable.longest <= 10 s", "failure"),
        ("latency.p99 <= 10 s", "error"),
    ]
    (failure,) = root.iter("failure")
    assert failure.attrib["message"] == "threshold unavailable.longest <= 10 s not met: 28.041 s"


def test_too_little_evidence_is_an_error_also_where_no_guarantee_shows_it(directory: Path) -> None:
    root = written(directory, result(cell("thin", Verdict.INCONCLUSIVE, KEPT)))
    assert list(outcomes(root))[-1] == ("quick.thin", "verdict", "error")


def test_an_empty_campaign_is_an_error(directory: Path) -> None:
    root = written(directory, result(verdict=Verdict.INCONCLUSIVE, runs=()))
    assert list(outcomes(root)) == [("quick", "campaign", "error")]


def test_servers_words_cannot_break_the_file(directory: Path) -> None:
    wicked = guarantee(held=False, reason="\x1b[31m<b>&\x00")
    root = written(directory, result(cell("eager", Verdict.FAIL, wicked)))
    (failure,) = root.iter("failure")
    assert "<b>&" in failure.attrib["message"]
    assert "\x1b" not in failure.attrib["message"]


def test_every_guarantee_is_known_by_its_rows_or_has_none() -> None:
    guarantees, _ = judged(
        Facts(cell=Cell(name="c", topic="t", settings={"acks": "all"}), counts={})
    )
    without_rows = {one.name for one in guarantees if one.anomaly is None}
    assert without_rows == {"recovers", "servers-stay-up"}
