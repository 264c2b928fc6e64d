"""A small campaign from its file to its report; and what is left when it is ended in the middle."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.oracles.forecasts import contradictions
from tests.support.processes.browser import Eyes
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.processes.process import family, gone

pytestmark = pytest.mark.e2e


def verdict_of(directory: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((directory / "verdict.json").read_text())
    return document


def page_of(directory: Path) -> str:
    return (directory / "report.html").read_text()


def test_from_file_to_report(ackproof, eyes: Eyes) -> None:
    result = ackproof("run", "small.yaml", "--seed", "1")
    directory = ackproof.directory / "results" / "latest"
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines()[-1] == str(directory.resolve() / "report.html")
    assert eyes.faults(directory / "report.html") == []

    assert contradictions(directory, complete=True) == []
    document = verdict_of(directory)
    assert document["campaign"] == "small"
    assert document["seed"] == 1
    assert document["verdict"] == "pass"
    cells = {cell["acks"]: cell for cell in document["cells"]}
    assert cells["1"]["lost"] > 0, "an isolated leader acknowledged what it then had to cut"
    assert cells["1"]["verdict"] == "not-guaranteed"
    assert cells["all"]["lost"] == 0
    assert cells["all"]["verdict"] == "pass"
    for name in (
        "junit.xml",
        "campaign.yaml",
        "manifest.json",
        "runs/1/ledger.jsonl",
        "runs/1/logs/harness.log",
    ):
        assert (directory / name).stat().st_size > 0
    for broker in (1, 2, 3):
        assert list((directory / "runs/1/replicas" / f"broker-{broker}").glob("**/*.log"))

    assert not (directory / "scratch").exists()
    assert ackproof("clean").stdout == "nothing to remove\n"

    again = ackproof("check", str(directory))
    assert again.returncode == 0, again.stdout + again.stderr
    assert verdict_of(directory) == document
    report = ackproof("report", str(directory))
    assert report.returncode == 0
    assert report.stdout.splitlines()[-1].endswith("report.html")


def test_killed_in_the_middle(ackproof) -> None:
    """kill -9 of the harness: nothing keeps running, and what was recorded can be checked."""
    harness = ackproof.start("run", "small.yaml", "--out", "results")
    ackproof.wait_for_output("isolate#1 verified")
    processes = family(harness)
    assert len(processes) > 8, "brokers, ZooKeeper and clients are among them"
    harness.kill()
    harness.wait(30)
    assert gone(processes[1:])

    checked = ackproof("check", "results")
    assert checked.returncode == 5, checked.stdout + checked.stderr
    document = verdict_of(ackproof.directory / "results")
    assert document["verdict"] == "inconclusive"
    assert all(cell["acked"] > 0 for cell in document["cells"])

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0
    assert "removed" in cleaned.stdout
    assert not (ackproof.directory / "results" / "scratch").exists()
    assert ackproof("clean").stdout == "nothing to remove\n"


# tests/harness/test_orchestrator.py stops runs at every step, and the test above ends a real one.
@pytest.mark.long
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_in_the_middle(ackproof, ending: signal.Signals) -> None:
    """Healed, flushed, torn down, checked; by SIGINT, too, which was ignored when we started."""
    harness = ackproof.start("run", "small.yaml", "--out", "results")
    ackproof.wait_for_output("isolate#1 verified")
    processes = family(harness)
    harness.send_signal(ending)
    assert harness.wait(PATIENCE_S) == 3
    assert gone(processes[1:])
    output = ackproof.output.read_text()
    assert "isolate#1 healed" in output
    assert "interrupted" in output
    assert "Traceback" not in output
    document = verdict_of(ackproof.directory / "results")
    assert all(cell["acked"] > 0 for cell in document["cells"])
    assert {cell["lost"] for cell in document["cells"]} == {None}, "the logs were not read"
    assert "No acknowledged record is missing" not in page_of(ackproof.directory / "results")
    assert ackproof("clean").stdout == "nothing to remove\n"


# tests/harness/test_orchestrator.py and test_execution.py ask twice without a cluster.
@pytest.mark.long
def test_second_interruption_ends_a_campaign_at_once(ackproof) -> None:
    """Test that a second interruption ends the harness without a heal or a wait, not even for the
    stopped ZooKeeper."""
    harness = ackproof.start("run", "small.yaml", "--out", "results")
    ackproof.wait_for_output("isolate#1 verified")
    processes = family(harness)
    harness.terminate()
    ackproof.wait_for_output("faults: interrupted")
    harness.terminate()
    assert harness.wait(PATIENCE_S) == 3
    assert gone(processes[1:])
    output = ackproof.output.read_text()
    assert "to check the recorded history" in output
    assert "Traceback" not in output
    assert not (ackproof.directory / "results" / "scratch").exists()
    assert ackproof("clean").stdout == "nothing to remove\n"


@pytest.mark.long
def test_ctrl_c_in_a_night(ackproof) -> None:
    """The campaign under way is healed, checked and cleaned up after; no other one begins."""
    seeds = ("--seed", "1", "--seed", "2")
    night = ackproof.start("nightly", "small.yaml", *seeds, "--copy-to", "copies")
    ackproof.wait_for_output("isolate#1 verified")
    os.killpg(night.pid, signal.SIGINT)
    assert night.wait(PATIENCE_S) == 3
    output = ackproof.output.read_text()
    assert "isolate#1 healed" in output
    assert "not started" in output
    assert "seed 2," not in output
    (results,) = (ackproof.directory / "results").glob("small-*")
    assert (ackproof.directory / "results" / "latest").resolve() == results
    assert (results / "report.html").exists()
    copy = ackproof.directory / "copies" / results.name
    assert (copy / "report.html").read_bytes() == (results / "report.html").read_bytes()
    assert not (results / "scratch").exists()
    assert ackproof("clean").stdout == "nothing to remove\n"


# tests/harness/test_cli.py closes the output of every command and looks at its status; a campaign
# writes its lines the same way.
@pytest.mark.long
def test_run_with_closed_output_continues(ackproof) -> None:
    """``ackproof run ... | head -1``: it is checked, reported, and ends with the status of its
    verdict."""
    ackproof.vary({"faults": []})
    command = ("run", "small.yaml", "--out", "results")
    with ackproof.piped(*command) as harness:
        assert harness.stdout.readline().startswith(b"small: seed ")
        harness.stdout.close()
        assert b"Traceback" not in harness.stderr.read()
        assert harness.wait(PATIENCE_S) == 0
    assert verdict_of(ackproof.directory / "results")["verdict"] == "pass"


# tests/harness/test_watches.py records an end that no fault accounts for, and
# tests/checkers/test_liveness.py judges it, both in milliseconds.
@pytest.mark.long
def test_a_broker_that_dies_after_the_last_fault_is_healed(ackproof) -> None:
    """Not the nemesis killed it: that a server stays up is a guarantee of its own."""
    ackproof.vary({"limits": {"recover": "8s"}})
    harness = ackproof.start("run", "small.yaml", "--out", "results")
    ackproof.wait_for_output("  recover")
    brokers = [one for one in family(harness) if one.cmdline()[2:4] == ["-m", "ackproof.broker"]]
    assert len(brokers) == 3
    brokers[0].kill()
    assert harness.wait(PATIENCE_S) == 1
    output = ackproof.output.read_text()
    assert "ended by itself, status -9" in output
    broken = {
        guarantee["name"]
        for cell in verdict_of(ackproof.directory / "results")["cells"]
        for guarantee in cell["guarantees"]
        if guarantee["held"] is False
    }
    assert "servers-stay-up" in broken
    assert "servers-stay-up" in output


def test_standing_cluster(ackproof) -> None:
    up = ackproof("cluster", "up")
    assert up.returncode == 0, up.stdout + up.stderr
    said = dict(line.split("=", 1) for line in up.stdout.splitlines() if "=" in line)
    assert len(said["bootstrap.servers"].split(",")) == 3
    assert said["zookeeper.connect"]
    assert ackproof("cluster", "status").returncode == 0
    assert ackproof("cluster", "up").returncode == 5, "there is one already"

    assert ackproof("cluster", "down").returncode == 0
    assert ackproof("cluster", "status").returncode == 5
    assert ackproof("clean").stdout == "nothing to remove\n"


def test_several_seeds_go_on_after_a_failure(ackproof) -> None:
    (ackproof.directory / "bad.yaml").write_text("name: bad\n")
    night = ackproof("nightly", "bad.yaml", "--seed", "1", "--seed", "2")
    assert night.returncode == 2
    assert "seeds: 1, 2" in night.stdout
    assert night.stderr.count("cells: is missing") == 2
