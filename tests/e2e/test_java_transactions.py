"""Java's client in transactions, on Apache Kafka: each transaction has an epoch of its own
(KIP-890) where both sides speak that protocol, and a session one where the brokers do not."""

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from ackproof.checkers.index.raw_logs import RawLog
from ackproof.history import reader
from ackproof.infra.systems import prepare

pytestmark = [pytest.mark.libraries, pytest.mark.e2e]

TOPIC = "acks-all-minisr-2"
CELLS: Mapping[str, object] = {
    "acks": "all",
    "enable.idempotence": True,
    "min.insync.replicas": 2,
    "isolation.level": "read_committed",
    "client": "java",
}
CAMPAIGN: Mapping[str, object] = {
    "cells": CELLS,
    "workload": {
        "kind": "transactions",
        "rate": 40,
        "readers": 1,
        "transactions": {"records": 4, "aborts": 0.3, "fences": 0, "transformers": 0},
    },
    "evidence": {"acked.min": 50},
    "schedule": {"warmup": "5s", "tail": "3s"},
    "faults": [],
}
PROPERTIES = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}


@pytest.mark.parametrize(
    ("system", "an_epoch_each"), [("kafka:3.9.1", False), ("kafka:4.1.1", True)]
)
def test_each_transaction_has_an_epoch_where_both_sides_know_it(
    ackproof, system: str, an_epoch_each: bool
) -> None:
    prepare(system, sys.stdout.write)
    ackproof.vary({**CAMPAIGN, "cluster": {"system": system, "properties": PROPERTIES}})
    result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    directory = ackproof.directory / "results"
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((directory / "verdict.json").read_text())
    assert document["verdict"] == "pass"
    (cell,) = document["cells"]
    assert min(cell["transactions"]["committed"], cell["transactions"]["not_committed"]) > 3
    epochs = epochs_of(directory / "runs/1/replicas/broker-1")
    assert (epochs > 5) if an_epoch_each else (epochs == 1)


def test_java_transformers_process_each_record_once_over_kills(ackproof) -> None:
    """The coordinator of transactions is killed. One of two transformers is paused until the other
    has its partitions, and killed when it has joined again. Last, the groups' coordinator is
    killed."""
    system = "kafka:4.4.0"
    prepare(system, sys.stdout.write)
    quick = {
        **PROPERTIES,
        "broker.session.timeout.ms": 3000,
        "replica.lag.time.max.ms": 4000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        "group.initial.rebalance.delay.ms": 500,
    }
    of_client_2 = {"target": "client-2", "parameters": {"role": "producer"}}
    transactions = {"records": 5, "aborts": 0.2, "fences": 0, "transformers": 2}
    ackproof.vary(
        {
            **CAMPAIGN,
            "cells": {**CELLS, "partitions": 2},
            "cluster": {"system": system, "properties": quick, "clients": 2},
            "workload": {**CAMPAIGN["workload"], "transactions": transactions},
            "schedule": {"warmup": "8s", "gap": "4s", "settle": "20s", "tail": "5s"},
            "faults": [
                {"fault": "kill", "target": "leader(__transaction_state, 0)", "hold": "5s"},
                # The transformer that is there; the producer and the other one are on client-1.
                {"fault": "pause-client", **of_client_2, "hold": "14s"},
                {"fault": "crash-client", **of_client_2, "hold": "8s"},
                {"fault": "kill", "target": "leader(__consumer_offsets, 0)", "hold": "5s"},
            ],
        }
    )
    result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    directory = ackproof.directory / "results"
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((directory / "verdict.json").read_text())
    assert [fault["proven"] for fault in document["faults"]] == [True] * 4
    (cell,) = document["cells"]
    assert cell["verdict"] == "pass"
    found = cell["transactions"]["found"]
    assert not any(many for name, many in found.items() if name != "G0"), found
    inputs = reader.read(directory / "runs/1/history", "inputs").to_pylist()
    of_client = Counter(row["client"] for row in inputs if row["sequence"] is not None)
    assert of_client.keys() == {f"transformer-{TOPIC}-{number}" for number in range(2)}
    last = max(row["time"] for row in inputs if row["client"].endswith("-1"))
    later = {row["partition"] for row in inputs if row["time"] > last}
    assert later == {0, 1}, "the other goes on with all partitions"


def epochs_of(replica: Path) -> int:
    """Return the number of epochs of the one producer on one partition."""
    log = RawLog(replica / f"{TOPIC}-0")
    batches = [batch for batch in log.batches(0, 2**62) if batch.producer_id >= 0]
    assert batches
    assert len({batch.producer_id for batch in batches}) == 1
    return len({batch.producer_epoch for batch in batches})
