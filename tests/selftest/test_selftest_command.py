"""``ackproof selftest`` for real, with a very small search: a loud bug, a sound broker, and one
that is taken for sound and is not."""

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
from patience import PATIENCE_S

from ackproof.harness.cli import cli
from ackproof.harness.selftest.catalogue import catalogue
from ackproof.harness.selftest.sources import SIMULATION, copy_broken, copy_sound
from ackproof.infra.waiting import wait_until

LOUD, QUIET = "acks-all-answered-at-append", "first-commit-kept"
SMALL = ("--without", "campaign", "--simulation", "5", "--results", "results")
ENDLESS = ("--without", "campaign", "--simulation", "100000", "--results", "results")


def environment(sources: Path | None = None) -> dict[str, str]:
    return {**os.environ, **({"PYTHONPATH": str(sources)} if sources else {})}


def selftest(
    directory: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "ackproof.harness", "selftest", *arguments],
        cwd=directory,
        env=environ or environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.long
@pytest.mark.simulation
def test_a_loud_bug_is_found_and_the_sound_broker_is_not_blamed(tmp_path: Path) -> None:
    done = selftest(tmp_path, *SMALL, "--bugs", LOUD, "--out", "docs/page.md")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{LOUD}  simulator  found: AckedIsCommitted, seed " in done.stdout
    known = json.loads((tmp_path / "results" / "simulator" / f"{LOUD}.json").read_text())
    assert known["finding"]["by"] == "AckedIsCommitted"
    page = (tmp_path / "docs" / "page.md").read_text()
    assert "- simulator: everything held" in page
    assert "The simulator found 1 of 1 broken brokers, half of these within " in page

    again = selftest(tmp_path, *SMALL, "--bugs", LOUD, "--out", "docs/page.md")
    assert again.returncode == 0, again.stdout + again.stderr
    assert "found:" not in again.stdout, "it is known already"
    assert (tmp_path / "docs" / "page.md").read_text() == page


@pytest.mark.simulation
def test_what_is_found_in_the_sound_broker_makes_every_find_worthless(tmp_path: Path) -> None:
    sound, broken = tmp_path / "sound", tmp_path / "broken"
    copy_sound(sound)
    copy_broken(sound, catalogue()[LOUD], broken)
    done = selftest(tmp_path, *SMALL, "--bugs", QUIET, environ=environment(broken))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the simulator finds a fault in the sound broker (AckedIsCommitted" in done.stdout
    assert not (tmp_path / "results" / "simulator" / f"{QUIET}.json").exists()
    assert "**AckedIsCommitted broken**" in (tmp_path / "results" / "detection.md").read_text()


@pytest.fixture
def endless(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A selftest that searches the sound broker, and would for a day."""
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "ackproof.harness", "selftest", *ENDLESS],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        wait_until(lambda: searching(process), PATIENCE_S, "a search")
        yield process
        process.kill()


def searching(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """The searches, but for what they start: between fork and exec it has their command line."""
    assert process.poll() is None, "it ended by itself"
    children = psutil.Process(process.pid).children(recursive=True)
    found = {child.pid: child for child in children if SIMULATION in child.cmdline()}
    return [child for child in found.values() if child.ppid() not in found]


@pytest.mark.simulation
def test_ctrl_c_ends_the_search_and_keeps_no_half_result(endless, tmp_path: Path) -> None:
    (search,) = searching(endless)
    endless.send_signal(signal.SIGINT)
    said, _ = endless.communicate(timeout=PATIENCE_S)
    assert endless.returncode == 3
    assert b"goes on with the rest" in said
    assert not search.is_running()
    assert not list((tmp_path / "results").rglob("*.json"))
    assert "- simulator: not run" in (tmp_path / "results" / "detection.md").read_text()


@pytest.mark.simulation
def test_nothing_is_left_of_a_selftest_that_was_killed(endless) -> None:
    (search,) = searching(endless)
    endless.kill()
    wait_until(lambda: not search.is_running(), PATIENCE_S, "the end of the search")


def test_where_there_is_no_simulator_it_says_so(tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    copy_sound(installed)
    for path in sorted((installed / SIMULATION).rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    done = selftest(tmp_path, *SMALL, environ=environment(installed))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "no simulator here" in done.stdout
    assert "nothing is left to look with" in done.stderr


def invoke(*arguments: str):
    return CliRunner().invoke(cli, ("selftest", *arguments))


def test_the_catalogue_is_listed() -> None:
    told = invoke("--list", "--bugs", "groups").output
    assert "offsets-not-loaded" in told
    assert LOUD not in told


def test_a_wrong_name_or_campaign_is_refused(tmp_path: Path) -> None:
    unknown = invoke("--bugs", "nonsense")
    assert (unknown.exit_code, "'nonsense' is neither a bug" in unknown.output) == (2, True)
    results = ("--without", "simulator", "--results", str(tmp_path))
    missing = invoke(*results, "--campaign", str(tmp_path / "absent.yaml"))
    assert missing.exit_code == 2
    assert "absent.yaml" in missing.output
