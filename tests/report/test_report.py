"""The report says what the checkers found, to people, scripts and CI servers, and escapes it."""

import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.verdict import CampaignResult, Cause, CellResult, RunResult, Verdict
from ackproof.harness import report
from ackproof.harness.cli import cli
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import axis, figures, losses
from ackproof.harness.report.terminal import cells_table, print_result
from ackproof.harness.report.timeline import fault_anchor
from ackproof.history.manifest import Manifest, PlannedRun
from ackproof.history.schema import CLUSTER, FAULTS, SENDS
from tests.support.builders.results import cell_result, guarantee
from tests.support.processes.browser import Eyes

T0 = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def cell(acks: str, isr: int, verdict: Verdict, *, lost: int = 0) -> CellResult:
    kept = guarantee(promised=acks == "all", held=lost == 0, reason="<b>because</b>")
    return cell_result(
        f"acks-{acks}.minisr-{isr}",
        verdict,
        topic="t",
        settings={"acks": acks, "min.insync.replicas": isr, "replication.factor": 3},
        guarantees=[kept],
        lost=lost,
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


def page_of(directory: Path, result: CampaignResult = RESULT) -> str:
    return report.write(directory, result).page.read_text()


def named(found: CellResult, name: str, **settings: object) -> CellResult:
    """A cell of another name, with further settings."""
    changed = {**found.settings.settings, **settings}
    return replace(found, settings=replace(found.settings, name=name, settings=changed))


def printed(directory: Path, result: CampaignResult = RESULT) -> str:
    """Return the result as a log shows it."""
    written = report.write(directory, result)
    console = Console(width=200, file=io.StringIO())
    print_result(console, result, written.cells, written.causes)
    return console.file.getvalue()


def unread(name: str) -> CampaignResult:
    """One cell with an unknown loss."""
    found = cell("all", 2, Verdict.INCONCLUSIVE)
    return replace(
        RESULT,
        verdict=Verdict.INCONCLUSIVE,
        cells=(replace(named(found, name), lost=None, duplicated=None, reordered=None),),
        anomalies={"lost": 0},
    )


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
    assert document["system"] == "bundled"
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


def without_library(page: str) -> str:
    """Return a page without the script of its time axes, whose licence has addresses."""
    return page.replace(axis.assets().script, "")


def test_page_is_self_contained_and_names_lost_records(directory: Path) -> None:
    page = without_library(page_of(directory))
    for outside in (
        "http://",
        "https://",
        "<script src",
        '<link rel="stylesheet',
        "@import",
        "url(http",
    ):
        assert outside not in page.replace("http://www.w3.org/", "")
    assert page.count("<svg") == 2
    assert "isolate#1" in page
    assert "5 to 6" in page
    assert re.findall(r"producer 0 sequence (\d+)", page) == ["5", "6", "5"]


def test_pictures_follow_the_colours_of_the_page(directory: Path) -> None:
    """Test each colour of the pictures: it is a variable of the page, which has that value on a
    light ground and another on a dark one."""
    drawn = "".join(re.findall(r"<svg.*?</svg>", without_library(page_of(directory)), re.DOTALL))
    used = dict(re.findall(r"var\(--([a-z0-9-]+), (#[0-9a-f]{6})\)", drawn))
    assert {"ink", "fail", "series-0", "fault-0"} <= used.keys()
    assert not re.search(r"(?<!, )#[0-9a-f]{6}\b", drawn)
    look = (Path(report.__file__).parent / "templates" / "look.css").read_text()
    light, dark = (
        dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", part))
        for part in look.split("prefers-color-scheme: dark", 1)
    )
    assert {name: light[name] for name in used} == used
    assert {name for name in used if dark[name] != light[name]} == used.keys()


def test_page_is_fit_to_be_seen_in_a_browser(directory: Path, eyes: Eyes) -> None:
    assert eyes.faults(report.write(directory, RESULT).page) == []


def test_page_escapes_html_in_values(directory: Path) -> None:
    page = page_of(directory)
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
    assert "not proven" in page_of(directory)


def test_a_run_without_any_ack_is_still_reported(directory: Path) -> None:
    for file in (directory / "runs" / "1" / "history").iterdir():
        file.unlink()
    assert "Nothing was acknowledged in this run" in page_of(directory)


def test_loss_is_attributed_by_the_checkers_and_not_by_time(directory: Path) -> None:
    rows = pq.read_table(directory / "anomalies.parquet").to_pylist()
    rows[0] |= {"time": T0 + 29 * SECOND // 10, "fault": None}
    write_table(directory / "anomalies.parquet", ANOMALIES, rows)
    page = page_of(directory)
    assert "lost while no fault was active" in page
    assert "no fault was active</td>" in page


def because(number: int, *, promised: int = 0, anomaly: str = "lost") -> Cause:
    place = {"run": 1, "cell": "acks-1.minisr-1", "topic": "t", "partition": 0}
    return Cause(
        anomaly=anomaly,
        **place,
        number=number,
        kind="unexplained" if promised else "deposed-leader",
        sentence=f"story {number} <script>alert(1)</script>.",
        records=9,
        promised=promised,
        first_time=T0,
        last_time=T0 + SECOND,
        faults=(f"kill#{number}",),
    )


def test_root_causes_are_escaped_and_long_lists_are_folded(
    directory: Path,
) -> None:
    told = (because(1, promised=2), *(because(number) for number in range(2, 9)))
    page = page_of(directory, replace(RESULT, causes=told))
    section = page[page.index("<h2>Root causes</h2>") :]
    assert "story 1 &lt;script&gt;" in section
    assert "<script>alert" not in page
    assert "2 promised" in section
    assert "unexplained" in section
    assert section.index("story 5") < section.index("3 further causes") < section.index("story 6")
    assert '<ul class="causes">' not in page_of(directory)


def test_each_fault_and_each_cause_has_an_id(directory: Path) -> None:
    told = tuple(because(number) for number in range(1, 9))
    page = page_of(directory, replace(RESULT, causes=told))
    assert '<tr id="fault-1">' in page
    assert re.findall(r'id="(cause-\d+)"', page) == [f"cause-{n}" for n in range(1, 9)]
    assert fault_anchor(2, 1) != fault_anchor(1, 1)


def test_causes_with_the_same_fault_and_kind_are_one_entry_with_counts(directory: Path) -> None:
    first = because(1)
    told = (first, replace(first, partition=1), replace(first, cell="acks-1.minisr-2", topic="u"))
    page = page_of(directory, replace(RESULT, causes=(*told, because(2))))
    section = page[page.index("<h2>Root causes</h2>") :]
    assert "3 partitions of 2 cells</b>, kill#1: <b>27</b> records lost" in section
    assert "2 more causes of the same kind" in section
    assert "acks=1, min ISR 1</a>, t-0</b>, kill#2: <b>9</b> records lost" in section


def test_each_cause_states_the_fate_of_its_records(directory: Path) -> None:
    differ = replace(
        because(2, promised=3, anomaly="divergent-replicas"), first_time=None, last_time=None
    )
    told = (because(1, anomaly="duplicated"), differ, because(3, anomaly="vanished-read"))
    page = page_of(directory, replace(RESULT, causes=told))
    section = page[page.index("<h2>Root causes</h2>") :]
    for words in ("records duplicated", "different among replicas", "read, now absent"):
        assert words in section
    assert section.index("acked between") < section.index("read between")
    (line,) = (
        one
        for one in printed(directory, replace(RESULT, causes=told)).splitlines()
        if "different among replicas" in one
    )
    assert "3 promised records different among replicas in acks=1, min ISR 1" in line


def test_failure_names_cell_guarantee_count_fault_and_records(directory: Path) -> None:
    sentence = "no-acked-record-lost was broken: 1 promised record lost in acks=all, min ISR 2"
    for told in (page_of(directory), printed(directory)):
        assert f"{sentence}, the first attributed to " in told
        assert "seen with own eyes" in told
        assert "isolate#1" in told
    page = page_of(directory)
    assert "producer 0 sequence 5" in page
    banner = page.partition("<h2>A guarantee was broken")[2].partition("</section>")[0]
    assert '<a href="#fault-1">isolate#1</a>' in banner


def test_reasons_shared_by_cells_are_printed_once(directory: Path) -> None:
    lacking = tuple(
        replace(
            cell(acks, isr, Verdict.INCONCLUSIVE),
            reasons=(f"acks-{acks}.minisr-{isr}: no final read", f"only {acks}"),
        )
        for acks in ("1", "all")
        for isr in (1, 2)
    )
    told = printed(directory, replace(RESULT, verdict=Verdict.INCONCLUSIVE, cells=lacking))
    assert "inconclusive  every cell: no final read\n" in told
    assert "inconclusive  acks=1, min ISR 1; acks=1, min ISR 2: only 1\n" in told


def test_failed_step_is_the_only_printed_reason(directory: Path) -> None:
    """A run that is interrupted while it is ready lacks thirty things more."""
    failed = "the step ready failed: interrupted"
    lacking = tuple(
        replace(
            cell("all", isr, Verdict.INCONCLUSIVE),
            reasons=(failed, "the step workload did not end", f"t-{isr}: no final read"),
        )
        for isr in (1, 2)
    )
    result = replace(RESULT, verdict=Verdict.INCONCLUSIVE, cells=lacking)
    told = [line for line in printed(directory, result).splitlines() if "every cell: " in line]
    assert told == [f"inconclusive  every cell: {failed}"]
    assert page_of(directory, result).count("t-2: no final read") == 1


def test_page_lists_few_records_of_a_loss_and_counts_all(directory: Path) -> None:
    (row, *_) = pq.read_table(directory / "anomalies.parquet").to_pylist()
    rows = [
        {**row, "sequence": n, "offset": 1000 - n, "partition": n % 2, "seen": n % 4 == 0}
        for n in range(2 * losses.LISTED_MAX + 6)
    ]
    write_table(directory / "anomalies.parquet", ANOMALIES, rows)
    even, odd = losses.windows(directory)
    assert (even.records, odd.records) == (losses.LISTED_MAX + 3,) * 2
    assert len(even.rows) == losses.LISTED_MAX
    assert even.offsets == (1000 - 2 * losses.LISTED_MAX - 4, 1000)
    assert (even.seen, odd.seen) == (str((losses.LISTED_MAX + 4) // 2), "0")
    page = page_of(directory)
    assert page.count("producer 0 sequence") == 2 * losses.LISTED_MAX
    assert page.count("and 3 more, which are in anomalies.parquet") == 2
    assert f"{len(rows):,} in total" in page


def ids_of(page: str) -> list[str]:
    return re.findall(r' id="([\w-]+)"', page)


def without_pictures(page: str) -> str:
    """Return the page without its pictures, whose ids are matplotlib's."""
    return re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)


def test_each_link_of_the_page_leads_to_a_part_of_it(directory: Path) -> None:
    told = (replace(because(1), faults=("isolate#1",), last_time=T0 + 9 * SECOND),)
    result = replace(RESULT, causes=told, findings=tuple(f"run 1: finding-{n}" for n in range(9)))
    page = without_pictures(page_of(directory, result))
    ids = ids_of(page)
    links = re.findall(r'href="#([\w-]+)"', page)
    assert len(set(ids)) == len(ids)
    assert set(links) <= set(ids)
    assert {"fault-1", "cause-1", "loss-1", "cell-1", "faults", "causes", "lost"} <= set(links)


def test_several_runs_have_ids_of_their_own(directory: Path) -> None:
    shutil.copytree(directory / "runs" / "1", directory / "runs" / "2")
    cells = tuple(replace(RESULT.cells[0], run=number) for number in (1, 2))
    page = without_pictures(page_of(directory, replace(RESULT, cells=cells)))
    ids = ids_of(page)
    assert len(set(ids)) == len(ids)
    assert {"fault-1", "fault-1-run-2", "cell-1", "cell-2", "time", "time-run-2"} <= set(ids)


def test_findings_of_one_kind_are_folded(directory: Path) -> None:
    found = tuple(f"run 1: broker-{n} went" for n in range(9))
    page = page_of(directory, replace(RESULT, findings=found))
    section = page.partition("<h2>Findings</h2>")[2].partition("</section>")[0]
    assert section.index("broker-0 went") < section.index("8 more of this kind")
    assert section.index("8 more of this kind") < section.index("broker-8 went")


def test_many_reasons_are_abbreviated_for_shared_cells_and_complete_in_the_report(
    directory: Path,
) -> None:
    """A producer that is stuck gives its cell a reason for each of a night's eighty faults."""
    lacking = tuple(
        replace(
            cell(acks, isr, Verdict.INCONCLUSIVE),
            reasons=("no final read", *(f"no ack during kill#{n}" for n in range(80))),
        )
        for acks in ("0", "1", "all")
        for isr in (1, 2)
    )
    lacking = (*lacking[:5], replace(lacking[5], reasons=("no final read",)))
    result = replace(RESULT, verdict=Verdict.INCONCLUSIVE, cells=lacking)
    told = [
        line.removeprefix("inconclusive  ")
        for line in printed(directory, result).splitlines()
        if line.startswith("inconclusive  ")
    ]
    five = "acks=0, min ISR 1; acks=0, min ISR 2; 3 more cells"
    assert told == [
        "every cell: no final read",
        f"{five}: no ack during kill#0 (and 79 more of this kind)",
    ]
    assert page_of(directory, result).count("no ack during kill#79") == 5


def test_unknown_is_nowhere_nought(directory: Path) -> None:
    """No final read: neither table nor matrix nor banner nor any sentence may say that nothing
    was lost."""
    write_table(directory / "anomalies.parquet", ANOMALIES, [])
    result = unread("acks-all.minisr-2")
    page, terminal = page_of(directory, result), printed(directory, result)
    cells = page.partition("<h2>Cells</h2>")[2].partition("</table>")[0]
    assert cells.count("unknown</td>") == 3
    assert "loss unknown" in page
    assert "it is unknown how many of 10 acknowledged records were lost" in page
    assert "The evidence does not show whether acknowledged records are missing" in page
    for claim in ("No acknowledged record is missing", "0 lost", "0 of 10", "0 duplicated"):
        assert claim not in page
    row = next(line for line in terminal.splitlines() if line.strip().startswith("all"))
    assert row.split()[-4:] == ["unknown", "unknown", "unknown", "inconclusive"]
    junit = (directory / "junit.xml").read_text()
    assert "lost unknown" in junit
    assert "lost 0" not in junit


def test_partly_unknown_loss_is_reported_as_a_lower_bound(directory: Path) -> None:
    known = cell("all", 2, Verdict.FAIL, lost=4)
    result = replace(RESULT, cells=(known, *unread("acks-all.minisr-2").cells))
    page = page_of(directory, result)
    assert "at least 4 lost" in page
    assert "at least 4 of 20 acknowledged records were lost" in page


def test_skipped_parts_are_shown_beside_the_verdict(directory: Path) -> None:
    skipped = ("slow-disk of one: slow-disk needs slow-disks, but the backend docker does not",)
    held = replace(
        RESULT, verdict=Verdict.PASS, cells=(cell("all", 2, Verdict.PASS),), skipped=skipped
    )
    page, terminal = page_of(directory, held), printed(directory, held)
    block = page.partition('<section class="unchecked"')[2].partition("</section>")[0]
    assert f"<b>skipped, because it was refused</b>: {skipped[0]}</li>" in block
    assert f"skipped: {skipped[0]}" in terminal
    assert "verdict: pass (the skipped parts are not covered)" in terminal
    assert json.loads((directory / "verdict.json").read_text())["skipped"] == list(skipped)
    assert 'name="skipped"' in (directory / "junit.xml").read_text()
    assert "skipped" not in page_of(directory, replace(held, skipped=()))


def test_report_names_the_plugins_that_were_used(directory: Path) -> None:
    page = page_of(directory, replace(RESULT, plugins={"own-faults": "1.2"}))
    assert "<dt>plug-in own-faults</dt><dd>1.2</dd>" in page
    assert json.loads((directory / "verdict.json").read_text())["plugins"] == {"own-faults": "1.2"}
    junit = (directory / "junit.xml").read_text()
    assert '<property name="plug-in own-faults" value="1.2"/>' in junit
    assert "plug-in" not in page_of(directory, RESULT)


def test_a_baseline_is_named_so(directory: Path) -> None:
    held = replace(
        RESULT, verdict=Verdict.PASS, cells=(cell("all", 2, Verdict.PASS),), baseline=True
    )
    assert "A baseline: no fault was ordered: pass" in page_of(directory, held)
    assert "verdict: pass (a baseline: no fault was ordered)" in printed(directory, held)
    assert 'name="baseline" value="true"' in (directory / "junit.xml").read_text()


def test_an_expected_failure_is_shown_as_such(directory: Path) -> None:
    failed = cell("all", 2, Verdict.FAIL, lost=1)
    came_true, did_not = (
        replace(failed, expected=(Verdict.FAIL,)),
        replace(failed, expected=(Verdict.PASS,)),
    )
    result = replace(RESULT, verdict=Verdict.PASS, cells=(came_true,), findings=())
    assert "The outcome was as expected: pass" in page_of(directory, result)
    assert "fail, as expected" in page_of(directory, result)
    assert "fail, as expected" in printed(directory, result)
    suite = ElementTree.parse(directory / "junit.xml").getroot()
    assert not list(suite.iter("failure"))
    surprise = replace(RESULT, cells=(did_not,))
    assert "fail, expected pass" in page_of(directory, surprise)
    suite = ElementTree.parse(directory / "junit.xml").getroot()
    cases = [
        case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None
    ]
    assert cases == ["no-acked-record-lost", "verdict"]


def test_of_several_expected_verdicts_each_is_right(directory: Path) -> None:
    either = (Verdict.FAIL, Verdict.PASS)
    for came, lost in ((Verdict.FAIL, 1), (Verdict.PASS, 0)):
        made = replace(cell("all", 2, came, lost=lost), expected=either)
        counted = {"lost": lost}
        result = replace(
            RESULT, verdict=Verdict.PASS, cells=(made,), anomalies=counted, findings=()
        )
        assert not list(result.broken)
        words = f"{came}, as expected (fail or pass)"
        assert words in page_of(directory, result)
        assert words in printed(directory, result)
        suite = ElementTree.parse(directory / "junit.xml").getroot()
        assert not list(suite.iter("failure"))
        assert any(words in out.text for out in suite.iter("system-out"))
        assert report.load(directory) == result
        written = json.loads((directory / "verdict.json").read_text())
        assert written["cells"][0]["expected"] == ["fail", "pass"]
    strange = replace(cell("all", 2, Verdict.NOT_GUARANTEED), expected=either)
    result = replace(RESULT, cells=(strange,))
    assert "not-guaranteed, expected fail or pass" in page_of(directory, result)
    suite = ElementTree.parse(directory / "junit.xml").getroot()
    assert len(list(suite.iter("failure"))) == 1


def test_ids_of_pictures_are_unique_on_a_page_and_lead_into_their_own() -> None:
    made = report.rows(RESULT)
    pictures = [figures.matrix(made, f"matrix-{number}") for number in (1, 2)]
    ids = [one for svg in pictures for one in re.findall(r'\bid="([^"]*)"', svg)]
    assert ids
    assert len(set(ids)) == len(ids)
    for svg in pictures:
        assert set(re.findall(r"url\(#([^)]*)\)", svg)) <= set(re.findall(r'\bid="([^"]*)"', svg))


def test_broken_guarantee_is_named_in_the_matrix_although_nothing_was_lost() -> None:
    broken = guarantee("commits-in-order", held=False, broken=2)
    made = replace(cell("all", 2, Verdict.FAIL), guarantees=(broken,), lost=0)
    picture = figures.matrix(report.rows(replace(RESULT, cells=(made,))))
    assert ">broken: commits-in-order<" in picture
    assert ">0 lost<" in picture


def test_long_words_stay_in_their_cell_of_the_matrix() -> None:
    either = (Verdict.NOT_GUARANTEED, Verdict.INCONCLUSIVE)
    made = replace(cell("all", 2, Verdict.NOT_GUARANTEED), expected=either)
    picture = figures.matrix(report.rows(replace(RESULT, cells=(made,))))
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    assert "not-guaranteed, as expected (not-" in lines
    assert max(map(len, lines)) <= 36


@pytest.mark.parametrize("written", [None, "fail"])
def test_single_expected_verdict_is_no_list_in_the_document(
    directory: Path, written: object
) -> None:
    expected = () if written is None else (Verdict.FAIL,)
    made = replace(cell("all", 2, Verdict.FAIL, lost=1), expected=expected)
    outcome = Verdict.FAIL if written is None else Verdict.PASS
    one = replace(RESULT, verdict=outcome, cells=(made,), anomalies={"lost": 1})
    report.write(directory, one)
    assert json.loads((directory / "verdict.json").read_text())["cells"][0]["expected"] == written
    assert report.load(directory).cells == (made,)


def test_setting_that_differs_between_cells_is_a_column(directory: Path) -> None:
    one, other = (
        named(found, found.cell, **{"topic.segment.bytes": size})
        for found, size in ((RESULT.cells[0], 1), (RESULT.cells[1], 2))
    )
    # On the terminal a name is folded at its dots.
    for told, name in ((page_of, "topic.segment.bytes"), (printed, "segment.")):
        assert name in told(directory, replace(RESULT, cells=(one, other)))
        assert name not in told(directory, replace(RESULT, cells=(one,)))
    assert "replication.factor</th>" not in page_of(directory)


def test_swept_cluster_settings_are_shown(directory: Path) -> None:
    planned = {"seed": 1, "session_timeout_ms": 1, "replica_lag_ms": 1, "recovery_ms": 1}
    empty: dict[str, object] = {"cells": (), "faults": (), "writers": ()}
    runs = [
        PlannedRun(number=number, cluster={"brokers": brokers}, **planned, **empty)
        for number, brokers in ((1, 3), (2, 5))
    ]
    Manifest(campaign="quick", seed=42, baseline=False, runs=tuple(runs)).write(directory)
    shutil.copytree(directory / "runs" / "1", directory / "runs" / "2")
    cells = tuple(replace(RESULT.cells[0], run=number) for number in (1, 2))
    page = page_of(directory, replace(RESULT, cells=cells))
    assert "brokers</th>" in page
    assert "Run 2 (brokers=5) over time" in page


@pytest.mark.parametrize(("bound_ns", "told"), [(12_000_001, 13), (5, None), (None, None)])
def test_clock_bound_is_shown_if_clocks_differ(
    directory: Path, bound_ns: int | None, told: int | None
) -> None:
    run = RunResult(number=1, clock_bound_ns=bound_ns, infrastructure_failed=False)
    page = page_of(directory, replace(RESULT, runs=(run,)))
    assert (f"within ± {told} ms" in page) is (told is not None)
    assert ("within ±" in page) is (told is not None)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
@pytest.mark.parametrize("name", ["anomalies.parquet", "verdict.json"])
def test_report_is_removed_if_its_source_is_missing_or_damaged(
    directory: Path, name: str, damage: str
) -> None:
    report.write(directory, RESULT)
    path = directory / name
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-20])
    told = CliRunner().invoke(cli, ["report", str(directory)])
    unchecked = name == "verdict.json" and damage == "missing"
    assert told.exit_code == ExitStatus.USAGE
    assert (name in told.stderr) is not unchecked
    assert "internal error" not in told.stderr
    assert not (directory / "report.html").exists()
    assert not (directory / "junit.xml").exists()


@pytest.mark.parametrize(
    "command",
    [["check"], ["report"], ["report", "--format", "markdown"], ["explain", "--record", "1"]],
    ids=" ".join,
)
def test_verdict_and_report_stay_if_the_recorded_runs_were_removed(
    directory: Path, command: list[str]
) -> None:
    report.write(directory, RESULT)
    shutil.rmtree(directory / "runs")
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    told = CliRunner().invoke(cli, [*command, str(directory)])
    assert told.exit_code == ExitStatus.USAGE
    assert "the recorded runs were removed (runs/ is missing)" in told.stderr
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before


def test_a_damaged_history_does_not_hide_a_broken_guarantee(directory: Path) -> None:
    report.write(directory, RESULT)
    damaged = directory / "runs" / "1" / "history" / "sends.t.0.p0.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    told = CliRunner().invoke(cli, ["report", str(directory)])
    assert told.exit_code == 1
    page = (directory / "report.html").read_text()
    assert "The history of this run cannot be read" in page
    assert damaged.name in page
    assert "A guarantee was broken: fail" in page


def test_report_of_an_earlier_check_is_removed(directory: Path) -> None:
    report.write(directory, RESULT)
    report.remove(directory)
    assert {path.name for path in directory.iterdir()} == {"campaign.yaml", "runs"}


def test_findings_contain_no_markup_or_escapes_on_the_terminal(directory: Path) -> None:
    evil = replace(RESULT, findings=("[red]not red[/red] \x1b]0;title\x07",))
    told = printed(directory, evil)
    assert "[red]not red[/red]" in told
    assert "\x1b" not in told
    assert "\x07" not in told


def test_everything_that_a_campaign_says_is_escaped(directory: Path) -> None:
    script = "<script>alert(2)</script>"
    (directory / "campaign.yaml").write_text(
        yaml.safe_dump(
            {
                "name": script,
                "seed": script,
                "cluster": dict.fromkeys(("system", "backend", "brokers"), script),
            }
        )
    )
    settings = {"acks": script, "min.insync.replicas": script, script: script}
    wicked = named(RESULT.cells[0], script, **settings)
    page = page_of(directory, replace(RESULT, cells=(wicked, RESULT.cells[1])))
    assert "<script" not in without_library(page).replace("<script>\n\n</script>", "")


def test_the_cells_are_whole_on_a_terminal_of_80_columns() -> None:
    """Test a sweep over two settings with the counts of a long run."""
    made = [
        replace(cell(acks, isr, verdict), sent=99_999, acked=99_999, lost=9_999)
        for acks, isr, verdict in (
            ("all", 2, Verdict.INCONCLUSIVE),
            ("1", 1, Verdict.NOT_GUARANTEED),
        )
    ]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(cells_table(report.rows(replace(RESULT, cells=tuple(made)))))
    told = console.export_text()
    assert "\N{HORIZONTAL ELLIPSIS}" not in told
    assert "not-guaranteed" in told
