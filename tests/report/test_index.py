"""The index has every campaign, the newest first, whatever became of it."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from ackproof.checkers.verdict import Verdict
from ackproof.harness.report import index
from ackproof.harness.report.trends.trend import NIGHTS_SHOWN, trends
from tests.support.builders.results import cell_result, guarantee, night, result
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


def test_index_page_has_no_defects_in_a_browser(tmp_path: Path, eyes: Eyes) -> None:
    for day, verdict_then in enumerate((Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE)):
        night(tmp_path, f"night-{day}", day, result(verdict_then, lost=day))
    page = tmp_path / index.FILE
    page.write_text(index.render(tmp_path), encoding="utf-8")
    assert eyes.faults(page) == []


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
    nights = {name: [one.kind for one in squares] for name, squares in trend.cells}
    assert nights == {"all": ["none", "fail", "pass"], "one": ["not-guaranteed"] * 3}
    assert dict(trend.cells)["all"][1].told == "2031-07-24 02:17: fail, 3 lost"


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


def test_everything_is_escaped_and_nothing_is_loaded(tmp_path: Path) -> None:
    script = "<script>alert(1)</script>"
    wicked = result()
    evil = cell_result(script, guarantees=[guarantee()])
    named = {"name": script, "seed": 1, "cluster": {"system": script}}
    night(tmp_path, "javascript:alert(2)", 1, replace(wicked, cells=(evil,)), named)
    page = index.render(tmp_path)
    for raw in ("<script", 'href="javascript:', "http://", "https://", "@import", "url("):
        assert raw not in page


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
