"""A run is watched while it goes on, and no reader disturbs it."""

import asyncio
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer
from click.exceptions import Exit
from click.testing import CliRunner

from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.cli import cli
from ackproof.harness.commands import live
from ackproof.harness.directory import CAMPAIGN_FILE, is_running, marked_as_running
from ackproof.harness.interruption import Interruption
from ackproof.harness.report.server import application
from ackproof.harness.running import orchestrator
from ackproof.harness.running.context import Run
from ackproof.harness.running.deadline import Deadline
from ackproof.harness.running.progress import logging_to
from ackproof.harness.running.recorder import RunRecorder
from ackproof.harness.running.steps.catalogue import RunStep
from ackproof.harness.running.steps.injection import IndependentFault, strike
from ackproof.infra.machine.waiting import wait_until
from ackproof.testing.histories import sound_history
from tests.support.processes.deadlines import PATIENCE_S

Event = dict[str, Any]


@pytest.fixture
def results(campaign: Campaign, tmp_path: Path) -> Path:
    """The results of a run that is about to begin."""
    directory = tmp_path / "results" / "small"
    resolved = campaign.resolved(seed=7)
    for name in ("logs", "progress"):
        (directory / "runs" / "1" / name).mkdir(parents=True)
    (directory / CAMPAIGN_FILE).write_text(resolved.to_yaml())
    manifest_of(resolved, runs_of(resolved)).write(directory)
    return directory


class _Held(IndependentFault):
    """A fault that is held until a reader has seen it."""

    def __init__(self) -> None:
        self.seen = threading.Event()

    def hold(self, deadline: Deadline) -> None:  # noqa: ARG002
        assert self.seen.wait(PATIENCE_S)


@pytest.fixture
def going_on(run: Run, results: Path) -> Iterator[tuple[Run, _Held, threading.Thread]]:
    """A run over the cluster in memory, in a thread, whose fault is open until it was seen."""
    directory = results / "runs" / "1"
    recorder = RunRecorder(directory / "history", run.clock)
    shown = dataclasses.replace(run, directory=directory, recorder=recorder)
    held = _Held()

    def faults(run: Run, deadline: Deadline) -> None:
        strike(run, run.plan[0], deadline, held)

    def heal(run: Run, _deadline: Deadline) -> None:
        run.finding("heal", "<b>a finding</b>")

    steps = [
        RunStep(name=name, act=act, limit_s=lambda _: 1e9)
        for name, act in (("faults", faults), ("heal", heal))
    ]

    def carry_out() -> None:
        with logging_to(directory / "logs" / "harness.log", print):
            orchestrator.carry_out(shown, Interruption(), steps)

    thread = threading.Thread(target=carry_out, daemon=True)
    with marked_as_running(results):
        thread.start()
        yield shown, held, thread
        held.seen.set()
        thread.join(PATIENCE_S)


async def _event(stream: ClientResponse) -> Event:
    """Return the next event of a stream."""
    line = await asyncio.wait_for(stream.content.readuntil(b"\n\n"), PATIENCE_S)
    assert line.startswith(b"data: ")
    found: Event = json.loads(line.removeprefix(b"data: "))
    return found


async def _until(stream: ClientResponse, condition: Callable[[Event], object]) -> Event:
    while not condition(event := await _event(stream)):
        pass
    return event


def test_events_show_an_open_fault_and_a_closed_browser_does_not_disturb_the_run(
    going_on: tuple[Run, _Held, threading.Thread], results: Path
) -> None:
    run, held, thread = going_on

    async def watch() -> tuple[Event, Event, str]:
        async with TestClient(TestServer(application(results.parent, lambda *_: ""))) as browser:
            listed = await (await browser.get("/small/")).text()
            assert 'href="live"' in listed
            first = await browser.get("/small/live-events")
            assert first.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            opened = await _until(first, lambda event: event.get("open_faults"))
            second = await browser.get("/small/live-events")
            assert (await _event(second))["open_faults"]
            first.close()  # without a word, as a closed browser does
            held.seen.set()
            await asyncio.to_thread(thread.join, PATIENCE_S)
            last = await _until(second, lambda event: event["findings"])
            page = await (await browser.get("/small/live")).text()
            return opened, last, page

    opened, last, page = asyncio.run(watch())
    (fault,) = opened["open_faults"]
    assert (fault["label"], opened["step"], opened["ending"]) == ("kill#1", "faults", None)
    assert fault["target"].startswith("broker-")
    assert last["open_faults"] == []
    assert [one["text"] for one in last["findings"]] == ["heal: <b>a finding</b>"]
    assert run.ended_well == {"faults": True, "heal": False}
    assert not thread.is_alive()
    assert "<b>a finding" not in page


@pytest.mark.parametrize("reported", [False, True])
def test_events_end_with_the_run_and_say_whether_there_is_a_report(
    results: Path, reported: bool
) -> None:
    if reported:
        (results / "report.html").write_text("<h1>the report</h1>")
        (results / "verdict.json").write_text('{"verdict": "pass"}')

    async def last() -> tuple[Event, bytes]:
        async with TestClient(TestServer(application(results.parent, lambda *_: ""))) as browser:
            assert 'href="live"' not in await (await browser.get("/small/")).text()
            stream = await browser.get("/small/live-events")
            return await _event(stream), await asyncio.wait_for(stream.content.read(), PATIENCE_S)

    event, rest = asyncio.run(last())
    expected = ("reported", "pass") if reported else ("gone", None)
    assert (event["ending"], event["verdict"], rest) == (*expected, b"")


def test_live_page_exists_for_results_alone(results: Path) -> None:
    async def statuses() -> list[int]:
        async with TestClient(TestServer(application(results.parent, lambda *_: ""))) as browser:
            paths = ("/live", "/live-events", "/small/runs/live", "/other/live", "/small/live")
            return [(await browser.get(path)).status for path in paths]

    assert asyncio.run(statuses()) == [404, 404, 404, 404, 200]


def test_results_are_marked_as_running_until_the_run_ends(results: Path) -> None:
    assert not is_running(results)
    with marked_as_running(results):
        assert is_running(results)
    assert not is_running(results)
    assert not is_running(results / "absent")


# --- the process beside a run -----------------------------------------------------------------

_PARENT = """
import os, sys
from pathlib import Path
from ackproof.harness.commands import live
sockets = [live.listen("--x", "127.0.0.1", 0) for _ in range(2)]
live.start(Path(sys.argv[1]), *sockets)
os.execv("/bin/sleep", ["sleep", "600"])
"""


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A process with the server of a run beside it, and the ports of the page and the metrics."""
    made = sound_history()
    made.write(tmp_path / "out")
    parent = subprocess.Popen(
        [sys.executable, "-P", "-c", _PARENT, str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    page, metrics = (int(parent.stdout.readline().split(":")[3].split("/")[0]) for _ in range(2))
    yield parent, page, metrics
    parent.kill()
    parent.wait()
    parent.stdout.close()


def _refuses(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) != 0


def test_process_beside_a_killed_run_ends_after_its_last_event(
    beside: tuple[subprocess.Popen[str], int, int],
) -> None:
    parent, page, metrics = beside
    scrape = HTTPConnection("127.0.0.1", metrics, timeout=PATIENCE_S)
    scrape.request("GET", "/metrics")
    assert b'ackproof_acks_total{cell="c"} 24.0' in scrape.getresponse().read()
    scrape.close()
    watching = HTTPConnection("127.0.0.1", page, timeout=PATIENCE_S)
    watching.request("GET", "/live-events")
    stream = watching.getresponse()
    first = json.loads(stream.readline().removeprefix(b"data: "))
    assert (first["campaign"], first["ending"]) == ("made", None)
    os.kill(parent.pid, signal.SIGKILL)
    lines = [line for line in stream.read().splitlines() if line]
    assert json.loads(lines[-1].removeprefix(b"data: "))["ending"] == "gone"
    watching.close()
    for port in (page, metrics):
        wait_until(lambda port=port: _refuses(port), PATIENCE_S, "the end of the process")


# --- the options ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--watch", "quick"], "'quick' is not a port from 0 to 65535; without a port, write"),
        (["quick", "--watch", "65536"], "'65536' is not a port"),
        (["quick", "--metrics-port", "-1"], "-1 is not in the range 0<=x<=65535"),
    ],
)
def test_wrong_ports_are_bad_usage(options: list[str], message: str) -> None:
    done = CliRunner().invoke(cli, ["run", *options])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_taken_port_is_bad_usage_and_a_free_one_is_opened(capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Exit) as ended:
            live.listen("--watch", "127.0.0.1", port, within_s=0)
    assert ended.value.exit_code == 2
    said = capsys.readouterr().err
    assert f"--watch: cannot listen on 127.0.0.1:{port}: Address already in use" in said
    with live.listen("--watch", "127.0.0.1", port) as opened:
        assert opened.getsockname()[1] == port


@pytest.mark.parametrize(
    ("address", "reason"),
    [("192.0.2.1", "Cannot assign requested address"), ("no address", "")],
)
def test_address_that_is_not_of_this_machine_is_bad_usage(
    capsys, address: str, reason: str
) -> None:
    with pytest.raises(Exit) as ended:
        live.listen("--metrics-port", address, 0, within_s=0)
    assert ended.value.exit_code == 2
    said = capsys.readouterr().err
    assert f"--metrics-port: cannot listen on {address}:0: " in said
    assert reason in said


def test_nightly_passes_the_address_of_metrics_to_each_run(tmp_path: Path) -> None:
    nightly = [sys.executable, "-P", "-m", "ackproof.harness", "nightly", "quick"]
    done = subprocess.run(
        [*nightly, "--metrics-port", "9", "--metrics-address", "192.0.2.1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert "--metrics-port: cannot listen on 192.0.2.1:9: Cannot assign" in done.stderr
    assert list(tmp_path.iterdir()) == [], "nothing was started"
