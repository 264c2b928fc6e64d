"""The served directory: index, reports and logs, read-only, and nothing outside of it."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner
from playwright.sync_api import expect

from ackproof.checkers.verdict import Verdict
from ackproof.harness.cli import cli
from ackproof.harness.commands.serve import compared
from ackproof.harness.report.server import application
from tests.support.builders.results import night, result
from tests.support.processes.browser import Eyes
from tests.support.processes.deadlines import PATIENCE_S

ROOT = Path(__file__).parents[2]
SECRET = "not to be served"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Results, with a secret beside them."""
    results = tmp_path / "results"
    run = results / "quick-20310801T021700Z"
    logs = run / "runs" / "1" / "logs"
    (logs / "broker-1").mkdir(parents=True)
    (logs / "broker-1" / "server.log").write_text("<script>alert(1)</script>\n")
    (logs / "harness.log").write_text("one line\n")
    (run / "campaign.yaml").write_text("name: quick\n")
    (run / "report.html").write_text("<h1>the report</h1>")
    (run / "other.html").write_text("<script>alert(2)</script>")
    (run / "verdict.json").write_text('{"verdict": "pass", "cells": []}')
    (run / "raw.log").write_bytes(b"\x00\x01binary")
    (results / "latest").symlink_to(run.name)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "results-beside").mkdir()
    (tmp_path / "results-beside" / "secret").write_text(SECRET)
    (run / "link").symlink_to(tmp_path / "secret")
    (run / "up").symlink_to(tmp_path)
    (run / "report.html.gz").symlink_to(tmp_path / "secret")
    return results


def answer(root: Path, path: str, method: str = "GET", **headers: str) -> tuple[int, str, str]:
    """Status, type and content of the path as it is written: nothing of it is made tidy."""

    async def ask() -> tuple[int, str, str]:
        async with TestClient(TestServer(application(root, compared))) as client:
            port = client.port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sent = {"Host": f"127.0.0.1:{port}", "Connection": "close", **headers}
            lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in sent.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode())
            content = (await reader.read()).decode(errors="replace")
            writer.close()
        head, _, body = content.partition("\r\n\r\n")
        kind = re.search(r"^Content-Type: (.*)\r?$", head, re.MULTILINE)
        return int(head.split()[1]), kind[1].strip() if kind else "", body

    return asyncio.run(ask())


def test_the_index_is_made_when_it_is_asked_for(root: Path) -> None:
    status, kind, page = answer(root, "/")
    assert (status, kind.partition(";")[0]) == (200, "text/html")
    assert 'href="quick-20310801T021700Z/report.html"' in page
    assert not (root / "index.html").exists()


@pytest.mark.parametrize("name", ["quick-20310801T021700Z", "latest"])
def test_a_directory_of_a_run_lists_its_logs_and_its_report(root: Path, name: str) -> None:
    assert answer(root, f"/{name}")[0] == 302
    _, _, page = answer(root, f"/{name}/")
    assert "Logs of run 1" in page
    for link in ("./runs/1/logs/broker-1/server.log", "./runs/1/logs/harness.log", "report.html"):
        assert f'href="{link}"' in page
        assert answer(root, f"/{name}/{link}")[0] == 200
    assert "link" not in re.findall(r'href="\./([^"]*)"', page)


def test_text_is_plain_text_whatever_its_name_says(root: Path) -> None:
    place = "/quick-20310801T021700Z"
    kinds = {
        name: answer(root, f"{place}/{name}")[1]
        for name in ("report.html", "other.html", "campaign.yaml", "verdict.json", "raw.log")
    }
    plain = "text/plain; charset=utf-8"
    assert kinds == {
        "report.html": "text/html; charset=utf-8",
        "other.html": plain,
        "campaign.yaml": plain,
        "verdict.json": plain,
        "raw.log": "application/octet-stream",
    }
    log = answer(root, f"{place}/runs/1/logs/broker-1/server.log")
    assert log == (200, plain, "<script>alert(1)</script>\n")


@pytest.mark.parametrize(
    "path",
    [
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/%2e%2e%2fsecret",
        "/latest/../../secret",
        "/latest/link",
        "/latest/up/secret",
        "/latest/up/",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/../results-beside/secret",
        "/..%5csecret",
        "/%00",
        "/latest/%ff%fe",
        "/" + "a" * 5000,
        "/nothing",
    ],
)
def test_nothing_outside_of_the_directory_is_served(root: Path, path: str) -> None:
    status, _, content = answer(root, path)
    assert status == 404
    assert SECRET not in content
    assert "root:" not in content


def test_a_compressed_neighbour_does_not_take_the_place_of_a_file(root: Path) -> None:
    told = answer(root, "/latest/report.html", **{"Accept-Encoding": "gzip"})
    assert told == (200, "text/html; charset=utf-8", "<h1>the report</h1>")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(root: Path, method: str) -> None:
    assert answer(root, "/latest/report.html", method)[0] == 405


def test_a_head_has_no_body(root: Path) -> None:
    assert answer(root, "/latest/report.html", "HEAD") == (200, "text/html; charset=utf-8", "")


@pytest.mark.parametrize(("host", "status"), [("localhost:80", 200), ("evil.example", 403)])
def test_another_name_for_our_address_is_refused(root: Path, host: str, status: int) -> None:
    assert answer(root, "/", Host=host)[0] == status


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-P", "-m", "ackproof.harness", "serve", str(directory), *options]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_tells_its_url_and_ends_well(root: Path, number: signal.Signals) -> None:
    with serving(root, "--port", "0") as (process, url):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url)
        with urlopen(url + "latest/campaign.yaml", timeout=PATIENCE_S) as told:
            assert told.read() == b"name: quick\n"
        with pytest.raises(HTTPError, match="405"):
            urlopen(Request(url, method="POST"), timeout=PATIENCE_S)
        os.kill(process.pid, number)
        said = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, said) == (0, ("", ""))


def test_results_are_served_on_another_address_under_the_names_that_were_given(root: Path) -> None:
    options = ("--port", "0", "--address", "127.0.0.2", "--host", "Reports.example")
    with serving(root, *options) as (_, url):
        assert re.fullmatch(r"http://127\.0\.0\.2:\d+/", url)
        for host in ("127.0.0.2", "reports.example", "localhost"):
            with urlopen(Request(url, headers={"Host": host}), timeout=PATIENCE_S) as told:
                assert told.status == 200
        with pytest.raises(HTTPError, match="403"):
            urlopen(Request(url, headers={"Host": "evil.example"}), timeout=PATIENCE_S)


def test_single_campaign_can_be_served(root: Path) -> None:
    _, _, page = answer(root / "latest", "/")
    assert "Logs of run 1" in page
    assert 'href="../"' not in page


def test_used_port_and_missing_directory_are_reported(root: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = CliRunner().invoke(cli, ["serve", str(root), "--port", str(port)])
    assert (told.exit_code, "in use" in told.stderr) == (5, True)
    told = CliRunner().invoke(cli, ["serve", str(root / "nothing")])
    assert (told.exit_code, "nothing is not a directory" in told.stderr) == (2, True)


def test_log_named_like_a_page_is_plain_text(root: Path) -> None:
    for name in ("report.html", "index.html"):
        log = root / "quick-20310801T021700Z" / "runs" / "1" / "logs" / name
        log.write_text("<script>alert(3)</script>")
        status, kind, _ = answer(root, f"/{log.relative_to(root)}")
        assert (status, kind.partition(";")[0]) == (200, "text/plain")


def test_host_that_is_no_name_is_forbidden(root: Path) -> None:
    status, _, _ = answer(root, "/", Host="[")
    assert status == 403


def test_name_that_is_no_text_is_listed(root: Path) -> None:
    (root / "quick-20310801T021700Z" / os.fsdecode(b"odd\xff")).touch()
    status, _, page = answer(root, "/quick-20310801T021700Z/")
    assert status == 200
    assert 'href="./odd%FF"' in page


# The comparison of two results


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    """Two results, one with a strange name, and a damaged one; their reports are in place."""
    place = tmp_path / "pair"
    place.mkdir()
    night(place, "before", 1)
    night(place, "a&b=<c> #%2F", 2, result(Verdict.FAIL, lost=3))
    damaged = night(place, "damaged", 3) / "verdict.json"
    damaged.write_text(damaged.read_text().replace('"acked": 10', '"acked": 11'))
    return place


def test_two_chosen_results_are_compared(pair: Path) -> None:
    b = quote(f"{quote('a&b=<c> #%2F')}/", safe="")
    status, kind, page = answer(pair, f"/?a=before%2F&b={b}")
    assert (status, kind.partition(";")[0]) == (200, "text/html")
    assert 'href="before/report.html"' in page
    assert 'href="a%26b%3D%3Cc%3E%20%23%252F/report.html"' in page
    assert "a&amp;b=&lt;c&gt; #%2F" in page
    assert re.search(r"<b>pass</b></td><td><b>fail</b></td><td class=\"text worse\">worse", page)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("a=before", 404),
        ("a=before&b=before", 404),
        ("a=before&b=nothing", 404),
        ("a=before&b=..", 404),
        ("a=before&b=../results/latest", 404),
        ("a=before&b=%252e%252e%2Fresults%2Flatest", 404),
        ("a=before&b=", 404),
        ("a=before&b=damaged", 422),
    ],
)
def test_results_that_cannot_be_compared_are_refused(
    pair: Path, root: Path, chosen: str, expected: int
) -> None:
    assert (root / "latest").exists()
    status, kind, text = answer(pair, f"/?{chosen}")
    assert (status, kind.partition(";")[0]) == (expected, "text/plain")
    assert ("cannot be compared" if expected == 422 else "choose two different results") in text


def test_reader_chooses_two_results_in_the_browser(pair: Path, eyes: Eyes) -> None:
    with serving(pair, "--port", "0") as (_, url), eyes.browser.new_context() as context:
        window = context.new_page()
        said: list[str] = []
        window.on("console", lambda line: said.append(line.text))
        window.goto(url)
        window.get_by_label("B: before").check()
        window.get_by_label("A: a&b=").check()
        window.get_by_role("button", name="Compare A with B").click()
        expect(window.get_by_role("heading", level=1)).to_have_text("From A to B")
        expect(window.get_by_text("better")).to_be_visible()
        window.get_by_role("link", name="all results").click()
        expect(window.get_by_role("heading", level=1)).to_have_text("Results")
        assert said == []


def test_page_of_a_matrix_is_served_beside_the_results_alone(root: Path) -> None:
    for place in (root / "releases", root / "quick-20310801T021700Z" / "runs" / "1" / "logs"):
        place.mkdir(exist_ok=True)
        (place / "matrix.html").write_text("<h1>systems</h1>")
    assert 'href="releases/matrix.html"' in answer(root, "/")[2]
    assert answer(root, "/releases/matrix.html")[1].startswith("text/html")
    log = "/quick-20310801T021700Z/runs/1/logs/matrix.html"
    assert answer(root, log)[1].startswith("text/plain")
