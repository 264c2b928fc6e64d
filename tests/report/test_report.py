"""The report says what the checkers found, to people, scripts and CI servers, and escapes it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from checkers.verdict import ANOMALIES, CampaignResult, CellResult, Guarantee, Verdict
from harness import report
from history.cell import Cell
from history.schema import CLUSTER, FAULTS, SENDS

T0 = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def cell(acks: str, isr: int, verdict: Verdict, *, lost: int = 0) -> CellResult:
    return CellResult(
        run=1,
        settings=Cell(
            name=f"acks-{acks}.minisr-{isr}",
            topic="t",
            settings={"acks": acks, "min.insync.replicas": isr},
        ),
        sent=12,
        acked=10,
        failed=1,
        indeterminate=1,
        lost=lost,
        duplicated=0,
        reordered=0,
        guarantees=(
            Guarantee(
                name="no-acked-record-lost",
                promise="no acked record is lost",
                promised=acks == "all",
                held=lost == 0,
                reason="<b>because</b>",
            ),
        ),
        verdict=verdict,
        reasons=("seen with own eyes",),
    )


RESULT = CampaignResult(
    verdict=Verdict.FAIL,
    cells=(
        cell("1", 1, Verdict.NOT_GUARANTEED, lost=2),
        cell("all", 1, Verdict.INCONCLUSIVE),
        cell("all", 2, Verdict.FAIL, lost=1),
    ),
    anomalies={"lost": 3, "duplicated": 0},
    findings=("a fault did not bite <script>alert(1)</script>",),
)


def write_table(file: Path, schema: pa.Schema, rows: list[dict[str, object]]) -> None:
    filled = [{name: row.get(name) for name in schema.names} for row in rows]
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(filled, schema=schema), file)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    campaign = {
        "name": "quick",
        "seed": 42,
        "cluster": {"system": "bundled", "backend": "local", "brokers": 3},
    }
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump(campaign))
    history = tmp_path / "runs" / "1" / "history"
    sends = [
        {
            "cell": c.cell,
            "topic": "t",
            "partition": 0,
            "producer": 0,
            "sequence": sequence,
            "type": kind,
            "time": T0 + sequence * SECOND,
            "offset": sequence if kind == "ok" else None,
        }
        for c in RESULT.cells
        for sequence in range(10)
        for kind in ("invoke", "ok")
    ]
    write_table(history / "sends.t.0.p0.parquet", SENDS, sends)
    fault = {
        "fault_id": 1,
        "fault": "isolate",
        "target": "leader(t, 0)",
        "servers": ["broker-2"],
    }
    events = [
        ("inject", 2, None),
        ("injected", 3, None),
        ("verified", 4, True),
        ("heal", 6, None),
        ("healed", 7, True),
    ]
    write_table(
        history / "faults.nemesis.parquet",
        FAULTS,
        [
            {
                **fault,
                "event": event,
                "time": T0 + at * SECOND,
                "proven": proven,
                "evidence": json.dumps({"links": {"a->b": False}}),
            }
            for event, at, proven in events
        ],
    )
    write_table(
        history / "cluster.observer.parquet",
        CLUSTER,
        [
            {
                "time": T0 + at * SECOND,
                "kind": "partition",
                "topic": "t",
                "partition": 0,
                "leader": leader,
                "leader_epoch": at,
            }
            for at, leader in ((0, 2), (4, 3), (5, 3))
        ],
    )
    lost = [
        {
            "run": 1,
            "cell": name,
            "anomaly": "lost",
            "topic": "t",
            "partition": 0,
            "offset": 5 + n,
            "producer": 0,
            "sequence": 5 + n,
            "time": T0 + (5 + n) * SECOND,
            "fault": "isolate#1",
            "detail": "<i>cut</i>",
        }
        for name, count in (("acks-1.minisr-1", 2), ("acks-all.minisr-2", 1))
        for n in range(count)
    ]
    write_table(tmp_path / "anomalies.parquet", ANOMALIES, lost)
    return tmp_path


def test_verdict_json_keeps_the_contract_and_comes_back_whole(directory: Path) -> None:
    report.write(directory, RESULT)
    document = json.loads((directory / "verdict.json").read_text())
    assert (document["campaign"], document["seed"], document["verdict"]) == ("quick", 42, "fail")
    assert set(document["cells"][0]) >= {
        "run",
        "acks",
        "min.insync.replicas",
        "replication.factor",
        "sent",
        "acked",
        "failed",
        "indeterminate",
        "lost",
        "duplicated",
        "reordered",
        "guarantees",
        "verdict",
    }
    assert report.load(directory) == RESULT


def test_nothing_was_checked_yet(tmp_path: Path) -> None:
    assert report.load(tmp_path) is None


def test_junit_tells_broken_from_inconclusive(directory: Path) -> None:
    report.write(directory, RESULT)
    suite = ElementTree.parse(directory / "junit.xml").getroot()
    cases = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert "failure" in cases["run 1: acks-all.minisr-2"]
    assert "error" in cases["run 1: acks-all.minisr-1"]
    assert cases["run 1: acks-1.minisr-1"] == ["system-out"]


def test_junit_of_an_empty_campaign_is_an_error(directory: Path) -> None:
    report.write(directory, replace(RESULT, cells=(), verdict=Verdict.INCONCLUSIVE))
    suite = ElementTree.parse(directory / "junit.xml").getroot()
    assert [child.tag for case in suite.iter("testcase") for child in case] == ["error"]


def test_page_stands_alone_and_names_what_was_lost(directory: Path) -> None:
    page = report.write(directory, RESULT).read_text()
    for outside in ("http://", "https://", "<script", "@import", "url(http"):
        assert outside not in page.replace("http://www.w3.org/", "")
    assert page.count("<svg") == 2
    assert "isolate#1" in page
    assert "5 to 6" in page
    assert re.findall(r"producer 0 sequence (\d+)", page) == ["5", "6", "5"]


def test_page_escapes_what_it_shows(directory: Path) -> None:
    page = report.write(directory, RESULT).read_text()
    for raw in ("<script>alert", "<b>because</b>", "<i>cut</i>"):
        assert raw not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_an_unproven_fault_is_shown_as_such(directory: Path) -> None:
    history = directory / "runs" / "1" / "history"
    rows = pq.read_table(history / "faults.nemesis.parquet").to_pylist()
    write_table(
        history / "faults.nemesis.parquet",
        FAULTS,
        [row for row in rows if row["event"] != "verified"],
    )
    assert "not proven" in report.write(directory, RESULT).read_text()


def test_a_run_without_any_ack_is_still_reported(directory: Path) -> None:
    for file in (directory / "runs" / "1" / "history").iterdir():
        file.unlink()
    assert "Nothing was acknowledged in this run" in report.write(directory, RESULT).read_text()


def test_a_record_acked_beside_a_fault_is_told_with_that_fault(directory: Path) -> None:
    rows = pq.read_table(directory / "anomalies.parquet").to_pylist()
    rows[0] |= {"time": T0 + 29 * SECOND // 10, "fault": None}
    write_table(directory / "anomalies.parquet", ANOMALIES, rows)
    page = report.write(directory, RESULT).read_text()
    assert "(1 acked just before or after it)" in page
    assert "no fault" not in page
