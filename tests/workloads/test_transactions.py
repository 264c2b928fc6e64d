"""Transactional producers against librdkafka's own cluster, which plays the coordinator and fences:
what they record is what they did. The markers that it appends are damaged (librdkafka 2.16 leaves
out their CRC), so that no client can read behind them: what reads is tried on Apache Kafka
(``tests/e2e/test_transactions.py``)."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ackproof.checkers.arrays import NONE
from ackproof.checkers.checks.transaction_history import (
    Membership,
    TransactionOutcome,
    transactions_of,
)
from ackproof.history.reader import read
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

TOPIC, PARTITIONS = "t", 3


def specification(mock_cluster, **further: Any) -> dict[str, Any]:
    return {
        "cell": "c",
        "topic": TOPIC,
        "partitions": PARTITIONS,
        "acks": "all",
        "producer": 0,
        "rate": 300,
        "record_bytes": 100,
        "bootstrap_servers": mock_cluster.bootstrap_servers,
        "seed": 7,
        "transaction_records": 4,
        "aborts": 0.2,
        "fences": 0.0,
        **further,
    }


def run_until(process, figure: str, many: int) -> None:
    """Let it do so much, and end it."""

    def done() -> bool:
        assert process.process.poll() is None, process.log()
        return process.figures()[figure] >= many

    wait_until(done, PATIENCE_S, f"{many} {figure}")
    assert process.terminate() == 0, process.log()


def sends(history: Path) -> list[dict[str, Any]]:
    return read(history, "sends").to_pylist()


def test_every_record_is_of_a_transaction_that_ended_as_drawn(mock_cluster, client) -> None:
    mock_cluster.create(TOPIC, PARTITIONS)
    producer = client("ackproof.workloads.transactions.producer", specification(mock_cluster))
    run_until(producer, "aborted", 3)
    transactions = transactions_of(read(producer.history, "transactions").to_pylist())
    outcomes = Counter(one.outcome for one in transactions)
    assert outcomes[TransactionOutcome.COMMITTED] > 3
    assert outcomes[TransactionOutcome.NOT_COMMITTED] >= 3
    assert outcomes[TransactionOutcome.UNKNOWN] == 0

    rows = sends(producer.history)
    invoked = [row for row in rows if row["type"] == "invoke"]
    mine = Membership(transactions).of(
        *(np.array([row[name] for row in invoked]) for name in ("producer", "sequence"))
    )
    assert NONE not in mine
    assert {row["partition"] for row in invoked} == set(range(PARTITIONS))
    acked = {row["sequence"] for row in rows if row["type"] == "ok"}
    for row, at in zip(invoked, mine, strict=True):
        committed = transactions[at].outcome is TransactionOutcome.COMMITTED
        assert not committed or row["sequence"] in acked, "a commit waits for every record"


def test_keys_decide_partitions_and_tombstones_are_acknowledged(mock_cluster, client) -> None:
    mock_cluster.create(TOPIC, PARTITIONS)
    drawn = {"keys": 7, "tombstones": 0.3}
    producer = client(
        "ackproof.workloads.transactions.producer", specification(mock_cluster, **drawn)
    )
    run_until(producer, "committed", 5)
    rows = sends(producer.history)
    invoked = {row["sequence"]: row for row in rows if row["type"] == "invoke"}
    assert all(row["partition"] == row["key"] % PARTITIONS for row in invoked.values())
    acked = [invoked[row["sequence"]] for row in rows if row["type"] == "ok"]
    assert {row["key"] for row in acked} == set(range(7))
    assert {row["tombstone"] for row in acked} == {False, True}


def test_fenced_producer_does_not_commit(mock_cluster, client) -> None:
    mock_cluster.create(TOPIC, PARTITIONS)
    producer = client(
        "ackproof.workloads.transactions.producer", specification(mock_cluster, fences=0.5)
    )
    run_until(producer, "committed", 5)
    rows = read(producer.history, "transactions").to_pylist()
    transactions = transactions_of(rows)
    zombies = [one for one in transactions if one.fenced and one.asked and one.asked > one.fenced]
    assert zombies
    assert {one.outcome for one in zombies} == {TransactionOutcome.NOT_COMMITTED}
    committed = {
        one.producer for one in transactions if one.outcome is TransactionOutcome.COMMITTED
    }
    assert max(committed) > min(one.producer for one in zombies), "the successor goes on"
    assert len({row["transactional_id"] for row in rows}) == 1
    late = [
        row
        for row in sends(producer.history)
        for one in zombies
        if row["producer"] == one.producer and row["type"] == "invoke" and row["time"] > one.fenced
    ]
    assert len(late) == len(zombies), "each sends one more record"
