"""A run that lost records is shrunk to the fault that did it, interrupted in between.

As in ``test_planted_loss``, acks=all is answered when the leader has appended.
"""

from pathlib import Path

import pytest
import yaml

from tests.support.processes.deadlines import TEST_S

LEADER = "broker/replication/leader.py"
WAITS = "        if event.acks != -1:\n"
ANSWERS_EARLY = "        if event.acks is not None:\n"

CAMPAIGN = {
    "cells": {"acks": "all", "min.insync.replicas": 2, "partitions": 2},
    "schedule": {"warmup": "2s", "gap": "1s", "tail": "2s", "order": "listed"},
    "faults": [
        {"fault": "pause", "target": "zookeeper", "hold": "500ms"},
        {"fault": "isolate", "target": "leader(acks-all-minisr-2, any)", "hold": "7s"},
    ],
}


@pytest.mark.e2e
@pytest.mark.long
@pytest.mark.timeout(5 * TEST_S)
def test_shrink_keeps_the_fault_that_caused_the_failure(ackproof, patched) -> None:
    ackproof.with_sources(patched(LEADER, WAITS, ANSWERS_EARLY))
    ackproof.vary(CAMPAIGN)
    failed = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    assert failed.returncode == 1, failed.stdout + failed.stderr

    # Twice as it was recorded, once without any fault, then without the pause. What was run before
    # is remembered each time.
    for runs in range(1, 5):
        ended = shrink(ackproof, "--runs-max", "1")
        assert ended.returncode == 3, ended.stdout + ended.stderr
        assert "the limit of runs is reached; run the command again to continue" in ended.stdout
        assert f"\n{runs}: " in ended.stdout
        assert f"\n{runs + 1}: " not in ended.stdout
    (fault,) = smallest(ackproof)["faults"]
    assert fault["fault"] == "isolate"
    text = (ackproof.directory / "results/shrink/smallest.yaml").read_text(encoding="utf-8")
    assert text.startswith("# Failed 1 of 1 runs: ")
    assert "no-acked-record-lost" in text.splitlines()[0]
    assert (ackproof.directory / "results/shrink/smallest/report.html").exists()


def shrink(ackproof, *options: str):
    return ackproof("shrink", "results", "--repeats-max", "1", "--confirm", "0", *options)


def smallest(ackproof):
    path: Path = ackproof.directory / "results/shrink/smallest.yaml"
    return yaml.safe_load(path.read_text(encoding="utf-8"))
