"""``python -m tools.mutation`` as a process, with a very small search."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from ackproof.harness.campaign import validation
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S
from tools.mutation.__main__ import _CAMPAIGN, main
from tools.mutation.sources import ROOT, SIMULATION

LOUD = "acks-all-answered-at-append"
BY_SEARCH = ("--method", "simulator")
SMALL = (*BY_SEARCH, "--seconds", "5", "--sound-steps", "1", "--results", "results")
ENDLESS = (*BY_SEARCH, "--sound-steps", "1000000000", "--jobs", "1", "--results", "results")


def environment(root: Path = ROOT) -> Mapping[str, str]:
    return {**os.environ, "PYTHONPATH": str(root)}


COMMAND = [sys.executable, "-P", "-m", "tools.mutation"]


@pytest.mark.long
@pytest.mark.simulation
def test_loud_mutant_is_found_and_its_result_kept(tmp_path: Path) -> None:
    def run() -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*COMMAND, *SMALL, LOUD, "--out", "docs/page.md"],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{LOUD}  simulator  found: " in done.stdout
    known = json.loads((tmp_path / "results" / "simulator" / f"{LOUD}.json").read_text())
    assert known["finding"]["outcome"] == "found"
    text = (tmp_path / "docs" / "page.md").read_text()
    assert "| found | 1/1 (100 %) | not run | not run | not run |" in text
    again = run()
    assert again.returncode == 0, again.stdout + again.stderr
    assert "found:" not in again.stdout, "the result is known"
    assert (tmp_path / "docs" / "page.md").read_text() == text


@pytest.fixture
def endless(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A session that searches the sound broker, and would for hours."""
    with subprocess.Popen(
        [*COMMAND, *ENDLESS, LOUD],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        wait_until(lambda: searches(process), PATIENCE_S, "a search")
        yield process
        process.kill()


def searches(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """Return the searches, without their own children: between fork and exec a child has the
    command line of its parent."""
    assert process.poll() is None, "it ended by itself"
    children = psutil.Process(process.pid).children(recursive=True)
    found = {child.pid: child for child in children if SIMULATION in child.cmdline()}
    return [child for child in found.values() if child.ppid() not in found]


# Each takes 6 s of processor time, and only concerns the measurement of the tests.
@pytest.mark.long
@pytest.mark.simulation
def test_ctrl_c_ends_the_search_and_keeps_no_partial_result(endless, tmp_path: Path) -> None:
    (search,) = searches(endless)
    endless.send_signal(signal.SIGINT)
    output, _ = endless.communicate(timeout=PATIENCE_S)
    assert endless.returncode == 3
    assert b"continues with the rest" in output
    assert not search.is_running()
    assert not list((tmp_path / "results" / "simulator").glob("*.json"))
    assert (
        "| sound broker | not run | not run |"
        in (tmp_path / "results" / "detection.md").read_text()
    )


# Each takes 6 s of processor time, and only concerns the measurement of the tests.
@pytest.mark.long
@pytest.mark.simulation
def test_searches_end_when_the_session_is_killed(endless) -> None:
    (search,) = searches(endless)
    endless.kill()
    wait_until(lambda: not search.is_running(), PATIENCE_S, "the end of the search")


def invoke(*arguments: str):
    return CliRunner().invoke(main, arguments)


def test_list_shows_the_selected_mutants() -> None:
    output = invoke("--list", "groups").output
    assert "offsets-not" in output
    assert "acks-all" not in output


def test_unknown_name_is_refused() -> None:
    result = invoke("nonsense")
    assert (result.exit_code, "'nonsense' is not a mutant" in result.output) == (2, True)


def test_campaign_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "absent.yaml"
    result = invoke("--campaigns", "--campaign", str(missing), "--results", str(tmp_path))
    assert result.exit_code == 2, result.output
    assert "absent.yaml" in result.output


def test_campaign_of_the_catalogue_is_valid() -> None:
    assert validation.load(_CAMPAIGN).name == "mutation"
