"""The time axis in a browser: charts that are drawn, zoomed, read out and printed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.verdict import CampaignResult, Verdict
from ackproof.harness import report
from ackproof.harness.report import axis
from tests.support.builders import failing_nightly
from tests.support.builders.checked_runs import run
from tests.support.builders.consumers import MadeConsumer, given, seen
from tests.support.builders.histories import (
    a_fault,
    at,
    cell,
    connection,
    kept,
    office,
    state,
    write_campaign,
)
from tests.support.builders.results import cell_result
from tests.support.processes.browser import A4, DESKTOP, HEIGHT, PHONE, WIDER, Eyes, Scheme

MOMENTS = (5, 5.2, 15, 25, 40, 55)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the report of two cells and a consumer, with a loss and a duplicate of the first."""
    cluster = [
        office(-5, 3),
        {**connection(-5, "broker-up"), "broker": 1},
        {**connection(11, "broker-down"), "broker": 1},
        *(state(-5, 1, 0, (1, 2, 3), topic=topic) for topic in "tu"),
        state(12, 2, 1, (2,)),
        state(30, 2, 1, (1, 2, 3)),
    ]
    reader = MadeConsumer(polls=[seen(1, 0, 1, 0, at(6))], assigned=[given(0, at(1), 0)])
    made = run(
        partitions={("t", 0): kept(*MOMENTS), ("u", 0): kept(*MOMENTS)},
        cells=(cell(), cell(name="d", topic="u")),
        faults=[*a_fault(10, 20), *a_fault(15, 35, fault_id=2, fault="pause")],
        cluster=cluster,
        consumers=[reader],
    )
    directory = write_campaign(tmp_path_factory.mktemp("axis") / "results", made)
    rows = [
        {
            "run": 1,
            "cell": "c",
            "anomaly": anomaly,
            "topic": "t",
            "partition": 0,
            "producer": 1,
            "sequence": 0,
            "time": at(seconds),
            "fault": "kill#1",
        }
        for anomaly, seconds in (("lost", 5), ("duplicated", 15))
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=ANOMALIES), directory / "anomalies.parquet")
    cells = [
        cell_result(
            one.cell.name, verdict, topic=one.cell.topic, settings=one.cell.settings, lost=lost
        )
        for one, verdict, lost in zip(made.cells, (Verdict.FAIL, Verdict.PASS), (1, 0), strict=True)
    ]
    result = CampaignResult(
        verdict=Verdict.FAIL,
        cells=(replace(cells[0], duplicated=1), cells[1]),
        anomalies={"lost": 1, "duplicated": 1},
        findings=(),
    )
    return Path(str(report.write(directory, result).page))


INK = """
canvas => {
    const shown = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let n = 0; n < shown.length; n += 4)
        if (shown[n + 3] > 200) colours.add(`${shown[n]},${shown[n + 1]},${shown[n + 2]}`);
    return [...colours];
}
"""
"""The opaque colours of a chart."""


def charts(window: Page, count: int = 6) -> Iterator[Locator]:
    """Yield the charts, once so many are drawn."""
    window.locator(".axis").scroll_into_view_if_needed()
    expect(window.locator(".axis canvas")).to_have_count(count)
    yield from window.locator(".axis canvas").all()


def shown(window: Page) -> tuple[float, float]:
    """Return the first and last second that the charts show."""
    text = window.locator(".axis-view").inner_text()
    first, last = re.findall(r"[\d.]+", text)
    return float(first), float(last)


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn_and_accessible(
    page: Path, eyes: Eyes, width: int, scheme: Scheme
) -> None:
    with eyes.page(page, width=width, scheme=scheme) as (window, said):
        for chart in charts(window):
            assert len(chart.evaluate(INK)) > 3
        assert not window.locator(".axis-static").is_visible()
        assert [one.inner_text() for one in window.locator(".axis-lanes a").all()] == [
            "kill#1",
            "pause#2",
        ]
        assert window.evaluate(WIDER) <= 0
        violations = Axe().run(window).response["violations"]
        assert [(one["id"], one["nodes"][0]["html"][:80]) for one in violations] == []
        assert said == []


def test_buttons_keys_and_drag_zoom_all_charts(page: Path, eyes: Eyes) -> None:
    with eyes.page(page) as (window, said):
        list(charts(window))
        whole = shown(window)
        window.get_by_role("button", name="Zoom in").click()
        near = shown(window)
        assert near[1] - near[0] == pytest.approx((whole[1] - whole[0]) / 2)
        window.get_by_role("button", name="Move to earlier times").click()
        assert shown(window)[0] < near[0]
        window.get_by_role("button", name="Show the whole run").click()
        assert shown(window) == whole
        plot = window.locator(".axis .u-over").nth(1)
        plot.hover()
        box = plot.bounding_box()
        assert box is not None
        window.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
        window.mouse.down()
        window.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20, steps=4)
        window.mouse.up()
        since, until = shown(window)
        assert (since / whole[1], until / whole[1]) == pytest.approx((0.25, 0.5), abs=0.02)
        plot.dblclick(position={"x": 30, "y": 20})
        assert shown(window) == whole
        window.locator(".axis").focus()
        window.keyboard.press("+")
        assert shown(window)[1] - shown(window)[0] < whole[1] - whole[0]
        window.keyboard.press("Escape")
        assert shown(window) == whole
        assert said == []


def test_moment_is_read_out_with_mouse_and_keyboard(page: Path, eyes: Eyes) -> None:
    with eyes.page(page) as (window, said):
        list(charts(window))
        told, whole = window.locator(".axis-told"), shown(window)[1]
        plot = window.locator(".axis .u-over").first
        box = plot.bounding_box()
        assert box is not None
        plot.hover(position={"x": box["width"] * 15.1 / whole, "y": box["height"] / 2})
        expect(told).to_contain_text("10 acks/s")
        for words in (
            "15 s (",
            "1 duplicated (",
            "open: kill#1, pause#2",
            "t-0: broker-2, epoch 1",
        ):
            expect(told).to_contain_text(words)
        window.locator(".axis").focus()
        window.keyboard.press("ArrowRight")
        expect(told).to_contain_text("15.2 s (")
        expect(told).to_have_attribute("aria-live", "polite")
        window.keyboard.press("ArrowDown")
        expect(told).to_contain_text("t-0: broker-2, epoch 1, ISR [2] < 2")
        window.locator(".axis select").select_option("d")
        expect(window.get_by_text("No record was lost or duplicated.")).to_be_visible()
        expect(window.get_by_text("This cell has no consumers.")).to_be_visible()
        assert said == []


def test_fault_leads_to_its_row(page: Path, eyes: Eyes) -> None:
    with eyes.page(page) as (window, _):
        list(charts(window))
        target = window.locator(".axis-lanes a").first.get_attribute("href")
        assert target == "#fault-1"
        assert window.locator(f"[id='{target[1:]}']").count() == 1


def test_charts_are_drawn_again_when_the_scheme_changes(page: Path, eyes: Eyes) -> None:
    with eyes.page(page) as (window, said):
        light = [set(one.evaluate(INK)) for one in charts(window)]
        window.emulate_media(color_scheme="dark")
        for before, chart in zip(light, charts(window), strict=True):
            assert set(chart.evaluate(INK)) - before
        assert said == []


def test_static_picture_is_printed_and_shown_without_javascript(page: Path, eyes: Eyes) -> None:
    with eyes.page(page) as (window, _):
        list(charts(window))
        window.emulate_media(media="print")
        assert window.locator(".axis-static svg").is_visible()
        assert not window.locator(".axis").is_visible()
    with eyes.page(page, javascript=False) as (window, _):
        assert window.locator(".axis-static svg").is_visible()
        assert not window.locator(".axis").is_visible()


def test_static_picture_is_shown_if_the_charts_fail(page: Path, eyes: Eyes, tmp_path: Path) -> None:
    broken = tmp_path / "report.html"
    text = page.read_text().replace('type="application/json">{', 'type="application/json">broken{')
    broken.write_text(text)
    with eyes.page(broken) as (window, said):
        expect(window.locator(".axis-static svg")).to_be_visible()
        assert not window.locator(".axis").is_visible()
        assert len(said) == 1


def test_page_contains_the_library_with_its_licence(page: Path) -> None:
    text = page.read_text()
    assert text.count(axis.assets().script) == 1
    assert text.count("<script") == 2


def test_report_of_17_cells_is_no_wider_than_screen_and_paper(tmp_path: Path, eyes: Eyes) -> None:
    written = report.write(tmp_path, failing_nightly.write(tmp_path)).page
    with eyes.page(Path(str(written)), width=PHONE) as (window, said):
        list(charts(window, 5))
        assert window.evaluate(WIDER) <= 0
        assert said == []
        window.set_viewport_size({"width": A4, "height": HEIGHT})
        window.emulate_media(media="print")
        assert window.evaluate(WIDER) <= 0
