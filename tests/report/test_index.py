"""The index has every campaign, the newest first, whatever became of it."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from ackproof.checkers.verdict import Verdict
from ackproof.harness.report import index, verdict
from ackproof.harness.report.leading_causes import LeadingCause
from ackproof.harness.report.trends.charts import assets
from ackproof.harness.report.trends.trend import NIGHTS_SHOWN, trends
from tests.support.builders.results import cell_result, guarantee, night, of_cells, result
from tests.support.processes.browser import Eyes


def test_the_newest_is_first_and_says_all_of_itself(tmp_path: Path) -> None:
    night(tmp_path, "b", 1)
    night(tmp_path, "a", 2, result(Verdict.FAIL, lost=3))
    first, second = index.entries(tmp_path)
    assert (first.name, second.name) == ("a", "b")
    assert (first.date, first.campaign, first.duration) == (
        "2031-07-24 02:17",
        "nightly",
        "3 min 5 s",
    )
    assert (first.lost_promised, first.lost_elsewhere, first.duplicated) == ("3", "5", "2")
    assert second.lost_promised == "0"
    page = index.render(tmp_path)
    assert page.index('href="a/report.html"') < page.index('href="b/report.html"')
    assert '<td class="n alarming">3</td>' in page


KAFKA = {"name": "nightly", "seed": 3, "cluster": {"system": "kafka:4.1.1"}}
OTHER = {"name": "soak", "seed": 4, "cluster": {"system": "bundled"}}


def results(root: Path) -> Path:
    """Write results of two campaigns and two systems, and the index of them."""
    night(root, "pass", 1)
    night(root, "fail", 2, result(Verdict.FAIL, lost=2))
    night(root, "unclear", 3, result(Verdict.INCONCLUSIVE, lost=None))
    night(root, "kafka", 4, campaign=KAFKA)
    night(root, "soak", 5, campaign=OTHER)
    (root / "nightly-20310801T021700Z").mkdir()
    (root / "nightly-20310801T021700Z" / "campaign.yaml").write_text("name: nightly")
    page = root / index.FILE
    page.write_text(index.render(root), encoding="utf-8")
    return page


def test_index_page_has_no_defects_in_a_browser(tmp_path: Path, eyes: Eyes) -> None:
    assert eyes.faults(results(tmp_path)) == []


ALL = ["nightly-20310801T021700Z", "soak", "kafka", "unclear", "fail", "pass"]


def expect_runs(window: Page, *names: str) -> None:
    """Wait until these runs are visible."""
    expect(window.locator("#runs tbody tr:visible td:last-child")).to_have_text(list(names))


def test_runs_are_filtered_and_the_fragment_has_the_filter(tmp_path: Path, eyes: Eyes) -> None:
    page = results(tmp_path)
    with eyes.page(page) as (window, said):
        expect_runs(window, *ALL)
        window.locator("select[name=verdict]").select_option("fail")
        expect_runs(window, "fail")
        expect(window.get_by_role("status")).to_have_text("1 of 6 runs")
        window.locator("select[name=system]").select_option("kafka:4.1.1, isolated-kraft")
        expect(
            window.get_by_text("No run of the chosen campaign, system and verdict")
        ).to_be_visible()
        expect(window.locator(".failure:visible")).to_have_count(0)
        expect(
            window.get_by_text("No run of the chosen campaign and system failed")
        ).to_be_visible()
        address = window.url
        window.get_by_role("button", name="Show all").click()
        expect_runs(window, *ALL)
        window.goto(address.replace("verdict=fail", "verdict=pass"))
        expect_runs(window, "kafka")
        expect(window.locator(".chart canvas").first).to_be_visible()
        window.goto("about:blank")
        window.goto(f"{page.as_uri()}#campaign=soak&system=nothing")
        expect_runs(window, "soak")
        assert said == []


def test_page_without_javascript_is_a_full_list(tmp_path: Path, eyes: Eyes) -> None:
    with eyes.page(results(tmp_path), javascript=False) as (window, said):
        expect_runs(window, *ALL)
        assert not window.locator("#filter").is_visible()
        assert not window.locator("#runs input").first.is_visible()
        expect(window.locator("#compare-command")).to_have_text(
            "ackproof compare A B --html compare.html"
        )
        assert window.locator(".chart svg").first.is_visible()
        expect(window.locator(".failure:visible")).to_have_count(1)
        assert said == []


def test_chart_reads_out_a_night_and_leads_to_its_report(tmp_path: Path, eyes: Eyes) -> None:
    with eyes.page(results(tmp_path)) as (window, said):
        chart = window.locator("#charts-1 figure").first
        chart.locator(".chart-drawn").focus()
        window.keyboard.press("ArrowLeft")
        expect(chart.locator(".chart-told")).to_contain_text("2031-08-01 02:17: not checked")
        window.keyboard.press("ArrowLeft")
        expect(chart.locator(".chart-told")).to_have_text(
            "2031-07-26 02:17, kafka:4.1.1, isolated-kraft: 0"
        )
        window.keyboard.press("ArrowLeft")
        expect(chart.locator(".chart-told")).to_contain_text("bundled, zookeeper: unknown")
        window.keyboard.press("ArrowLeft")
        expect(chart.locator(".chart-told")).to_contain_text(": 2")
        with window.expect_navigation():
            window.keyboard.press("Enter")
        assert window.url.endswith("/fail/report.html")
        assert [one for one in said if "report.html" not in one] == []


def test_static_page_names_the_command_that_compares_the_chosen_runs(
    tmp_path: Path, eyes: Eyes
) -> None:
    with eyes.page(results(tmp_path)) as (window, said):
        command = window.locator("#compare-command")
        expect(command).to_have_text("ackproof compare ./kafka ./soak --html compare.html")
        window.get_by_label("A: pass").check()
        expect(command).to_have_text("ackproof compare ./pass ./soak --html compare.html")
        assert said == []


# The newest failure


def test_newest_failure_of_each_campaign_and_system_has_its_sentence(tmp_path: Path) -> None:
    night(tmp_path, "old", 1, result(Verdict.FAIL, lost=2))
    cause = LeadingCause(
        kind=Verdict.FAIL,
        words="fail",
        sentence="broker-4 was elected outside the ISR [5]",
        run=1,
        cells=((1, "all"),),
    )
    night(tmp_path, "new", 2, result(Verdict.FAIL, lost=3), leading=[cause])
    night(tmp_path, "unclear", 3, result(Verdict.INCONCLUSIVE, lost=None))
    night(tmp_path, "kafka", 1, result(Verdict.FAIL, lost=1), KAFKA)
    night(tmp_path, "after", 4)
    found = index.newest_failures(index.entries(tmp_path))
    assert [(one.entry.name, one.entry.sentence, one.since) for one in found] == [
        (
            "new",
            "broker-4 was elected outside the ISR [5]",
            "Newer runs of this campaign on this system: 1 inconclusive, 1 pass.",
        ),
        ("kafka", "all: so", "Newer runs of this campaign on this system: none."),
    ]
    text = index.render(tmp_path)
    assert text.index("elected outside the ISR") < text.index("<h2>Trends")


def test_runs_without_a_verdict_are_no_good_news(tmp_path: Path) -> None:
    night(tmp_path, "unclear", 1, result(Verdict.INCONCLUSIVE, lost=None))
    (tmp_path / "quick-20310801T021700Z").mkdir()
    (tmp_path / "quick-20310801T021700Z" / "campaign.yaml").write_text("name: quick")
    text = index.render(tmp_path)
    assert "No run failed. Runs by verdict: 1 inconclusive, 1 no verdict." in text
    assert "banner" not in text.partition("<body>")[2]


def test_unknown_loss_is_not_shown_as_0(tmp_path: Path) -> None:
    night(tmp_path, "a", 1, result(Verdict.INCONCLUSIVE, lost=None))
    (entry,) = index.entries(tmp_path)
    assert entry.lost_promised == "unknown"


def test_a_campaign_and_each_of_its_cells_have_their_nights(tmp_path: Path) -> None:
    night(tmp_path, "a", 1)
    night(tmp_path, "b", 2, result(Verdict.FAIL, lost=3))
    alone = replace(result(), verdict=Verdict.NOT_GUARANTEED, cells=result().cells[1:])
    night(tmp_path, "c", 3, alone)
    (trend,) = trends(one.occasion for one in index.entries(tmp_path))
    assert "".join(one.letter for one in trend.squares) == "NFP"
    nights = {cell.name: [one.kind for one in cell.squares] for cell in trend.cells}
    assert nights == {"all": ["none", "fail", "pass"], "one": ["not-guaranteed"] * 3}
    assert trend.cells[0].squares[1].told == "2031-07-24 02:17: fail, 3 lost"


def test_of_many_nights_the_latest_are_shown_and_all_are_listed(tmp_path: Path) -> None:
    many = NIGHTS_SHOWN + 2
    for day in range(many):
        night(tmp_path, f"n{day}", day)
    (trend,) = trends(one.occasion for one in index.entries(tmp_path))
    assert (len(trend.squares), trend.left_out) == (NIGHTS_SHOWN, 2)
    assert trend.squares[0].link == f"n{many - 1}/report.html"
    assert index.render(tmp_path).count('<td class="t">') == many


DAMAGES = {
    "": "not checked",
    "{": "verdict.json: ",
    "[]": "verdict.json: ",
    "null": "verdict.json: ",
    '{"verdict": "pass"}': "cells",
    '{"version": 99, "verdict": "pass", "cells": []}': "its version is 99",
    "[" * 100_000: "verdict.json: ",
}


@pytest.mark.parametrize("written", DAMAGES, ids=range(len(DAMAGES)))
def test_unreadable_result_is_reported_in_its_row(tmp_path: Path, written: str) -> None:
    night(tmp_path, "whole", 1)
    broken = night(tmp_path, "quick-20310801T021700Z", 2)
    if written:
        (broken / "verdict.json").write_text(written)
    else:
        (broken / "verdict.json").unlink()
        (broken / "campaign.yaml").write_text("name: x")
    first, second = index.entries(tmp_path)
    assert (first.date, first.campaign) == ("2031-08-01 02:17", "quick")
    assert DAMAGES[written] in first.trouble
    assert second.trouble == ""
    assert "no verdict" in index.render(tmp_path)


def test_strange_things_beside_the_results_are_no_results(tmp_path: Path) -> None:
    real = night(tmp_path, "a", 1)
    (tmp_path / "latest").symlink_to("a")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "mutation").mkdir()
    (tmp_path / "README.md").write_text("a page")
    strange = night(tmp_path, "b", 2)
    (strange / "verdict.json").unlink()
    (strange / "verdict.json").mkdir()
    (real / "report.html").unlink()
    found = {entry.name: entry for entry in index.entries(tmp_path)}
    assert found.keys() == {"a", "b"}
    assert found["b"].trouble.startswith("verdict.json: ")
    assert found["a"].page == ""
    index.render(tmp_path)


HOSTILE = "</script><script>alert(1)</script>\"'&<!--"


def hostile(root: Path, name: str, day: int, outcome: Verdict) -> None:
    """Write a result whose every name and text is hostile."""
    evil = cell_result(
        HOSTILE,
        outcome,
        settings={"client": HOSTILE},
        guarantees=[guarantee(held=outcome is Verdict.PASS)],
        lost=int(outcome is Verdict.FAIL),
        reasons=(HOSTILE,),
    )
    named = {"name": HOSTILE, "seed": 1, "cluster": {"system": HOSTILE}}
    night(root, name, day, of_cells(outcome, evil), named)


@pytest.mark.parametrize("served", [False, True])
def test_everything_is_escaped_and_nothing_is_loaded(
    tmp_path: Path, served: bool, eyes: Eyes
) -> None:
    hostile(tmp_path, "javascript:alert(2)", 1, Verdict.PASS)
    hostile(tmp_path, "<img src=x onerror=alert(3)>'\"", 2, Verdict.FAIL)
    (tmp_path / "<b>").mkdir()
    (tmp_path / "<b>" / "matrix.html").touch()
    text = index.render(tmp_path, served=served)
    text_alone = text.replace(assets()["script"], "")  # uPlot names its home
    for raw in (
        "<script>alert",
        'href="javascript:',
        "<img",
        "<b>/",
        "https://",
        "@import",
        "url(",
    ):
        assert raw not in text_alone
    page = tmp_path / index.FILE
    page.write_text(text, encoding="utf-8")
    with eyes.page(page) as (window, said):
        expect(window.locator(".failure p").first).to_have_text(f"{HOSTILE}: {HOSTILE}")
        expect(window.locator(".chart canvas")).not_to_have_count(0)
        window.locator("select[name=campaign]").select_option(HOSTILE)
        expect(window.locator("#runs tbody tr:visible")).to_have_count(2)
        assert said == []


def test_a_verdict_of_former_days_has_its_row(tmp_path: Path) -> None:
    old = night(tmp_path, "quick-20310801T021700Z-2", 1)
    document = json.loads((old / "verdict.json").read_text())
    kept = ("campaign", "seed", "verdict", "cells", "anomalies", "findings", "runs")
    (old / "verdict.json").write_text(json.dumps({name: document[name] for name in kept}))
    (entry,) = index.entries(tmp_path)
    assert (entry.trouble, entry.date, entry.duration) == ("", "2031-08-01 02:17", "")


def test_an_empty_directory_has_a_page(tmp_path: Path) -> None:
    index.write(tmp_path)
    assert "No campaign has been run yet" in (tmp_path / "index.html").read_text()


def _run(root: Path, name: str, day: int) -> None:
    night(root, name, day)
    index.write(root)


def test_of_several_that_write_at_once_none_is_left_out(tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        for written in [pool.submit(_run, tmp_path, f"n{day}", day) for day in range(6)]:
            written.result()
    page = (tmp_path / "index.html").read_text()
    assert all(f'href="n{day}/report.html"' in page for day in range(6))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".index.html")]


def test_an_index_is_left_among_results_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert not index.wanted(tmp_path)
    assert index.wanted(tmp_path / "results")
    (tmp_path / "latest").symlink_to("somewhere")
    assert index.wanted(tmp_path)


# Many results


def test_known_entry_is_read_again_after_any_change(tmp_path: Path) -> None:
    known = index.KnownEntries(settled_s=-60)
    results = night(tmp_path, "a", 1)
    (first,) = index.entries(tmp_path, known)
    assert index.entries(tmp_path, known)[0] is first
    (results / "report.html").unlink()
    (second,) = index.entries(tmp_path, known)
    assert (first.page, second.page) == ("a/report.html", "")
    written = (results / "campaign.yaml").read_text()
    (results / "campaign.yaml").write_text("name: other")
    (third,) = index.entries(tmp_path, known)
    assert "campaign.yaml was changed after the check" in third.trouble
    (results / "campaign.yaml").write_text(written)
    assert index.entries(tmp_path, known)[0].trouble == ""
    night(tmp_path, "a", 1, result(Verdict.FAIL, lost=3))
    assert index.entries(tmp_path, known)[0].kind == "fail"


def test_recently_changed_entry_is_not_remembered(tmp_path: Path) -> None:
    known = index.KnownEntries()
    night(tmp_path, "a", 1)
    (first,) = index.entries(tmp_path, known)
    assert index.entries(tmp_path, known)[0] is not first


def test_exposure_accumulates_by_campaign_and_system(tmp_path: Path) -> None:
    for number, faults in ((1, 20), (2, 10)):
        _exposed(tmp_path, f"n{number}", number, faults, KAFKA)
    _exposed(tmp_path, "soak", 3, 4, OTHER)
    night(tmp_path, "older", 4, campaign=KAFKA)
    edited = tmp_path / "older" / "verdict.json"
    verdict.write(tmp_path / "older", {**json.loads(edited.read_text()), "exposure": None})
    of_kafka, of_soak = sorted(
        index.accumulated_exposure(index.entries(tmp_path)), key=lambda one: one.campaign
    )
    assert (of_kafka.nights, of_kafka.left_out, of_soak.nights) == (2, 1, 1)
    total = of_kafka.summary.total
    # 269 more of 15 a night
    assert total is not None
    assert (total.faults, total.lossy, total.more_nights) == (30, 0, 18)
    page = index.render(tmp_path)
    assert "Exposure over all nights" in page
    assert "1 more do not say" in page


def _exposed(root: Path, name: str, day: int, faults: int, campaign: dict[str, object]) -> None:
    night(root, name, day, campaign=campaign)
    document = json.loads((root / name / "verdict.json").read_text())
    cell = next(one for one in document["cells"] if one["guarantees"])
    exposure = [
        {"run": cell["run"], "cell": cell["cell"], "kind": "leader changes", "fault": f"kill#{n}"}
        | {"events": 3, "lost": 0}
        for n in range(1, faults + 1)
    ]
    verdict.write(root / name, {**document, "exposure": exposure})
