"""A small campaign in pods; and what is left when it is killed in the middle."""

import json

import psutil
import pytest

from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.containers import dead_namespaces
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.kubernetes


def test_from_file_to_report_in_pods(ackproof) -> None:
    result = ackproof("run", "small.yaml", "--seed", "1", "--backend", "kubernetes", "--out", "r")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "r/verdict.json").read_text())
    cells = {cell["acks"]: cell for cell in document["cells"]}
    assert cells["1"]["lost"] > 0, "an isolated leader acknowledged what it then had to cut"
    assert cells["all"]["lost"] == 0
    assert cells["all"]["verdict"] == "pass"
    for broker in (1, 2, 3):
        log = ackproof.directory / f"r/runs/1/logs/broker-{broker}/broker-{broker}.log"
        assert log.stat().st_size > 0
    assert dead_namespaces() == []


def test_killed_in_the_middle_in_pods(ackproof) -> None:
    """kill -9 of the harness: what was recorded can be checked, and clean finds the rest."""
    harness = ackproof.start("run", "small.yaml", "--backend", "kubernetes", "--out", "results")
    ackproof.wait_for_output("isolate#1 verified")
    child = psutil.Process(harness.pid).children()[0]
    harness.kill()
    harness.wait(PATIENCE_S)
    child.wait(PATIENCE_S)
    wait_until(lambda: len(dead_namespaces()) == 1, PATIENCE_S, "the namespace")

    cleaned = ackproof("clean", "--backend", "kubernetes")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert "namespace ackproof-" in cleaned.stdout
    assert dead_namespaces() == []
    checked = ackproof("check", "results")
    assert checked.returncode == 5, checked.stdout + checked.stderr
