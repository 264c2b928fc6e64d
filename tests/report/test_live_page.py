"""The live page of a run in a browser. It shows what the events say, all of it as text."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from ackproof.harness.directory import LIVE_LOGS, marked_as_running
from ackproof.harness.report.server import application
from ackproof.testing.histories import BEGIN_NS, sound_history
from tests.support.processes import browser
from tests.support.processes.browser import DESKTOP, PHONE, WIDER, Eyes
from tests.support.processes.deadlines import PATIENCE_S

S = 1_000_000_000
MARKUP = "</script><b id=planted>planted</b><!--"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of a run in its faults: one fault is open, and one is healed."""
    made = sound_history(records=300)
    later = ("heal", "recover", "flush", "final-read", "collect", "teardown")
    for row in [row for row in made.rows("phases") if row["phase"] in later]:
        made.remove(row)
    failed = {"phase": "ready", "event": "failed", "time": BEGIN_NS, "detail": MARKUP}
    made.tables["phases", "harness"].append(failed)
    row = {"fault": "kill", "target": MARKUP, "facts": None}
    events = [(1, "inject", 5, None), (1, "healed", 12, True), (2, "inject", 20, None)]
    made.tables["faults", "harness"] = [
        {**row, "fault_id": number, "event": event, "time": BEGIN_NS + at_s * S, "proven": proven}
        for number, event, at_s, proven in events
    ]
    made.tables["servers", "harness"].append(
        {"time": BEGIN_NS, "server": "broker-1", "event": "ended", "exit_code": 1}
    )
    for send in made.rows("sends")[-5:]:
        if send["type"] == "ok":
            send.update(type="fail", offset=None)
    directory = tmp_path_factory.mktemp("live") / "out"
    logs = made.write(directory).parent / "logs"
    logs.mkdir()
    (logs / "harness.log").write_text(f"{MARKUP}\nthe last line\n")
    copied = logs.parent / LIVE_LOGS
    copied.mkdir()
    lines = (MARKUP, "broker-1 led t-0 [1]", "ssl.key.password=hunter2", "broker-2 led t-1 [1]")
    (copied / "broker-1.log").write_text("\n".join(lines))
    return directory


@contextmanager
def served(root: Path) -> Iterator[str]:
    """Serve a directory in a thread, and yield the address."""
    started: Future[tuple[int, Callable[[], object]]] = Future()
    app = application(root, lambda *_: "")

    async def serve() -> None:
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        started.set_result((runner.addresses[0][1], lambda: loop.call_soon_threadsafe(ended.set)))
        await ended.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    port, end = started.result(PATIENCE_S)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        end()
        thread.join(PATIENCE_S)


@contextmanager
def opened(eyes: Eyes, address: str) -> Iterator[tuple[Page, list[str]]]:
    """Open the live page, and yield it with its errors and its requests to other addresses."""
    with eyes.browser.new_context() as context:
        page, said = context.new_page(), []
        page.on("pageerror", lambda error: said.append(f"script: {error}"))
        page.on("console", lambda line: said.append(f"console: {line.text}"))
        page.on(
            "request",
            lambda one: None if one.url.startswith((address, "blob:")) else said.append(one.url),
        )
        page.goto(f"{address}/live")
        yield page, said


def test_page_shows_the_run_and_is_accessible(eyes: Eyes, results: Path) -> None:
    with (
        marked_as_running(results),
        served(results) as address,
        opened(eyes, address) as (page, said),
    ):
        expect(page.locator("#step")).to_have_text("faults")
        expect(page.locator("#faults tbody tr")).to_have_count(1)
        expect(page.locator("#faults tbody td").nth(4)).to_have_text(MARKUP)
        expect(page.locator("#findings")).to_contain_text(f"ready: {MARKUP}")
        expect(page.locator("#processes .alone")).to_have_text("ended by itself, status 1")
        expect(page.locator("#partitions tbody tr")).to_have_count(2)
        expect(page.locator("#log")).to_contain_text("the last line")
        page.get_by_text("broker-1: 4 of the newest 4 lines").click()
        log = page.get_by_role("region", name="Log of broker-1")
        expect(log).to_have_text(f"{MARKUP}\nbroker-1 led t-0 [1]\n[hidden]\nbroker-2 led t-1 [1]")
        for width, scheme in ((DESKTOP, "light"), (PHONE, "dark")):
            page.set_viewport_size({"width": width, "height": browser.HEIGHT})
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("#acks canvas")).to_have_count(1)
            assert page.evaluate(WIDER) <= 0
            assert Axe().run(page).response["violations"] == []
        page.get_by_label("Only lines with").fill("BROKER-2 LED")
        expect(log).to_have_text("broker-2 led t-1 [1]")
        expect(page.get_by_text("broker-1: 1 of the newest 4 lines")).to_be_visible()
        assert page.locator("#planted").count() == 0
        assert said == []


def test_page_ends_with_a_link_to_the_report(eyes: Eyes, results: Path) -> None:
    with (
        served(results) as address,
        marked_as_running(results),
        opened(eyes, address) as (page, said),
    ):
        expect(page.locator("#step")).to_have_text("faults")
        (results / "verdict.json").write_text('{"verdict": "fail"}')
        (results / "report.html").write_text("<title>the report</title>")
        expect(page.locator("#step")).to_have_text("ended")
        expect(page.locator("#verdict")).to_have_text("fail")
        expect(page.locator("#report")).to_have_attribute("href", re.compile("^blob:"))
        with page.expect_popup() as report:
            page.locator("#report").click()
        expect(report.value).to_have_title("the report")
        assert said == []
