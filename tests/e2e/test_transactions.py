"""Transactions on Apache Kafka, from the campaign's file to its report: what was committed stands,
what was not does not, and who does not ask for what is committed alone is shown more than that."""

import json
import sys
from pathlib import Path

import pytest

from ackproof.history import manifest, reader
from ackproof.infra.systems import prepare
from ackproof.infra.systems.kafka import releases

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]

SYSTEM = f"kafka:{releases.VERSIONS[-1]}"
TOPIC = "acks-all-minisr-2-isolation-read-committed"
LEAKING = Path(__file__).parents[1] / "support" / "fakes" / "leaking_transformer.py"
CAMPAIGN = {
    "cluster": {
        "system": SYSTEM,
        "properties": {
            "broker.session.timeout.ms": 2000,
            "replica.lag.time.max.ms": 2000,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "group.initial.rebalance.delay.ms": 500,
        },
    },
    "cells": {
        "acks": "all",
        "enable.idempotence": True,
        "min.insync.replicas": 2,
        "partitions": 2,
        "isolation.level": ["read_committed", "read_uncommitted"],
    },
    "workload": {
        "kind": "transactions",
        "rate": 40,
        "readers": 1,
        "transactions": {"records": 5, "aborts": 0.3, "fences": 0.1, "transformers": 1},
    },
    "evidence": {"acked.min": 100},
    "schedule": {"warmup": "3s", "gap": "2s", "settle": "15s", "tail": "5s"},
    "faults": [
        {"fault": "kill", "target": "leader(__transaction_state, 0)", "hold": "4s"},
    ],
}


def test_a_coordinator_is_killed_and_transactions_keep_their_word(ackproof) -> None:
    prepare(SYSTEM, sys.stdout.write)
    ackproof.vary(CAMPAIGN)
    result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    directory = ackproof.directory / "results"
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((directory / "verdict.json").read_text())
    assert document["verdict"] == "pass"
    committed, uncommitted = document["cells"]
    for cell in (committed, uncommitted):
        told = cell["transactions"]
        assert min(told["committed"], told["not_committed"]) > 5
        assert not any(
            many
            for name, many in told["found"].items()
            if name not in ("G0", "aborted-read", "transformed-twice")
        )
    assert committed["transactions"]["found"]["aborted-read"] == 0
    assert uncommitted["transactions"]["found"]["aborted-read"] > 0
    by_name = {one["name"]: one for one in uncommitted["guarantees"]}
    assert by_name["no-aborted-read"]["promised"] is False

    history = directory / "runs/1/history"
    assert manifest.read(directory).runs[0].cells[0].transactional
    made = [row["sequence"] for row in reader.read(history, "inputs").to_pylist()]
    assert any(sequence is not None for sequence in made)
    positions = [
        row
        for row in reader.read(history, "transaction_offsets").to_pylist()
        if row["client"] == "final-read" and row["topic"] == TOPIC
    ]
    assert {row["partition"] for row in positions} == {0, 1}
    assert "<h2>Transactions</h2>" in (directory / "report.html").read_text()


@pytest.mark.parametrize("manner", ["correct", "leaks"])
def test_offsets_of_a_program_that_commits_them_beside_its_transactions_are_found(
    ackproof, manner: str
) -> None:
    prepare(SYSTEM, sys.stdout.write)
    program = ackproof.directory / "own"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {LEAKING} {manner}\n")
    program.chmod(0o755)
    cells = {**CAMPAIGN["cells"], "isolation.level": "read_committed", "client": "./own"}
    changes = {"cells": cells, "schedule": {"warmup": "10s", "tail": "3s"}, "faults": []}
    ackproof.vary({**CAMPAIGN, **changes})
    result = ackproof("run", "small.yaml", "--program", "./own", "--seed", "1", "--out", "results")
    (cell,) = json.loads((ackproof.directory / "results/verdict.json").read_text())["cells"]
    found = cell["transactions"]["found"]
    assert min(cell["transactions"]["committed"], cell["transactions"]["not_committed"]) > 5
    assert (found["offsets-without-records"] > 0) == (manner == "leaks"), found
    assert found["transformed-twice"] == found["records-without-offsets"] == 0
    verdict, status = ("fail", 1) if manner == "leaks" else ("pass", 0)
    assert cell["verdict"] == verdict
    assert result.returncode == status, result.stdout + result.stderr
