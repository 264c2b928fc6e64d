"""A broker that serves a batch of zeros ends librdkafka, and costs the cell of that partition its
verdict, and no other.

One line of a copy of the sources is changed for that: of one partition it serves the first batch of
what it reads of a file with zeros for its second half; everything else is what always runs.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from history.reader import read

SEGMENT = "broker/log/segment.py"
READS = "        data = self._log.read_at(min(max_bytes, self.size - position), position)\n"
DAMAGES = (
    READS
    + """\
        if "acks-1-minisr-1-1" in str(self.path):
            half = first.size // 2
            data = data[:half] + bytes(first.size - half) + data[first.size :]
"""
)
CAMPAIGN = {
    "cells": {
        "acks": [1, "all"],
        "min.insync.replicas": 1,
        "replication.factor": 1,
        "partitions": 2,
    },
    "faults": [],
    "schedule": {"tail": "5s"},
}
WORDS = "acks-1-minisr-1-1: final read incomplete (librdkafka ended its process: SIGABRT"


@pytest.mark.e2e
def test_the_cells_of_the_others_have_a_verdict(
    ackproof, patched: Callable[[str, str, str], Path]
) -> None:
    ackproof.with_sources(patched(SEGMENT, READS, DAMAGES))
    ackproof.vary(CAMPAIGN)
    result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    assert result.returncode != 0, result.stdout + result.stderr
    directory = ackproof.directory / "results"
    document = json.loads((directory / "verdict.json").read_text())
    verdicts = {cell["cell"]: cell["verdict"] for cell in document["cells"]}
    assert verdicts == {"acks-1.minisr-1": "inconclusive", "acks-all.minisr-1": "pass"}
    assert any(WORDS in finding for finding in document["findings"])
    assert "each topic is read by a process of its own" in result.stdout
    reads = read(directory / "runs" / "1" / "history", "reads").to_pylist()
    incomplete = [(row["topic"], row["partition"]) for row in reads if not row["complete"]]
    assert incomplete == [("acks-1-minisr-1", 1)]
