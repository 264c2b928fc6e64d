"""A final read whose process crashes on one partition costs that partition its reading, the cell
its verdict, and no other cell anything.

The reader, of a copy of the sources, aborts at the first record of that partition. Which batches
make librdkafka abort depends on how the records were batched, and so on the speed of the machine:
`tests/integration/test_final_read.py` has a broker serve such a batch.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.history.reader import read

READER = "workloads/reading_back/final_read.py"
TAKES = "        key = (message.topic(), message.partition())\n"
ABORTS = (
    TAKES
    + """\
        if key == ("acks-1-minisr-1", 1):
            __import__("os").abort()
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


# tests/integration/test_final_read.py has librdkafka end the process of a read and looks at what is
# recorded; tests/checkers judge such histories.
@pytest.mark.e2e
@pytest.mark.long
def test_the_cells_of_the_others_have_a_verdict(
    ackproof, patched: Callable[[str, str, str], Path]
) -> None:
    ackproof.with_sources(patched(READER, TAKES, ABORTS))
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
