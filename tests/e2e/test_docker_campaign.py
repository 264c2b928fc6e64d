"""A small campaign on containers; and what is left when it is killed in the middle."""

import json
import signal
from pathlib import Path

import psutil
import pytest

from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.containers import owned_things
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.docker


def verdict_of(directory: Path) -> dict[str, object]:
    document: dict[str, object] = json.loads((directory / "verdict.json").read_text())
    return document


def test_from_file_to_report_on_containers(ackproof) -> None:
    before = owned_things()
    result = ackproof("run", "small.yaml", "--seed", "1", "--backend", "docker", "--out", "results")
    directory = ackproof.directory / "results"
    assert result.returncode == 0, result.stdout + result.stderr
    cells = {cell["acks"]: cell for cell in verdict_of(directory)["cells"]}
    assert cells["1"]["lost"] > 0, "an isolated leader acknowledged what it then had to cut"
    assert cells["all"]["lost"] == 0
    assert cells["all"]["verdict"] == "pass"
    for broker in (1, 2, 3):
        assert list((directory / "runs/1/replicas" / f"broker-{broker}").glob("**/*.log"))
        log = directory / "runs/1/logs" / f"broker-{broker}" / f"broker-{broker}.log"
        assert log.stat().st_size > 0
    assert not (directory / "scratch").exists()
    assert owned_things() == before


def test_killed_in_the_middle_on_containers(ackproof) -> None:
    """kill -9 of the harness: what was recorded can be checked, and clean finds the rest."""
    before = owned_things(dead=True)
    harness = ackproof.start("run", "small.yaml", "--backend", "docker", "--out", "results")
    ackproof.wait_for_output("isolate#1 verified")
    child = psutil.Process(harness.pid).children()[0]
    harness.kill()
    harness.wait(PATIENCE_S)
    child.wait(PATIENCE_S)
    wait_until(
        lambda: len(owned_things(dead=True)) == len(before) + 6, PATIENCE_S, "5 nodes, a network"
    )

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert cleaned.stdout.count("container ackproof-") >= 5
    assert "network ackproof-" in cleaned.stdout
    assert owned_things(dead=True) == []
    assert not (ackproof.directory / "results" / "scratch").exists()

    checked = ackproof("check", "results")
    assert checked.returncode == 5, checked.stdout + checked.stderr
    assert all(cell["acked"] > 0 for cell in verdict_of(ackproof.directory / "results")["cells"])


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_the_inner_process_ended_on_containers(ackproof, ending: signal.Signals) -> None:
    """Whatever ends the harness's inner process, the outer one removes what it left."""
    harness = ackproof.start("run", "small.yaml", "--backend", "docker", "--out", "results")
    ackproof.wait_for_output("isolate#1 verified")
    psutil.Process(harness.pid).children()[0].send_signal(ending)
    assert harness.wait(PATIENCE_S) == (3 if ending is signal.SIGTERM else 128 + signal.SIGKILL)
    assert owned_things(dead=True) == []
    assert not (ackproof.directory / "results" / "scratch").exists()
