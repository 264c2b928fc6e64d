"""Transactional clients against librdkafka's own cluster, which plays the coordinator, fences, and
shows every record whether it is committed or not: what they record is what they did."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from patience import PATIENCE_S

from checkers.indexes import NONE
from checkers.transactions.outcomes import Membership, Outcome, transactions_of
from history.reader import read
from history.transactional import TRANSFORMERS
from infra.waiting import wait_until

pytestmark = pytest.mark.integration

TOPIC, PARTITIONS, GROUP = "t", 3, "t-transformers"


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
        "records": 4,
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
    producer = client("workloads.transactions.producer", specification(mock_cluster))
    run_until(producer, "aborted", 3)
    transactions = transactions_of(read(producer.history, "transactions").to_pylist())
    outcomes = Counter(one.outcome for one in transactions)
    assert outcomes[Outcome.COMMITTED] > 3
    assert outcomes[Outcome.NOT_COMMITTED] >= 3
    assert outcomes[Outcome.UNKNOWN] == 0

    rows = sends(producer.history)
    invoked = [row for row in rows if row["type"] == "invoke"]
    mine = Membership(transactions).of(
        *(np.array([row[name] for row in invoked]) for name in ("producer", "sequence"))
    )
    assert NONE not in mine
    assert {row["partition"] for row in invoked} == set(range(PARTITIONS))
    acked = {row["sequence"] for row in rows if row["type"] == "ok"}
    for row, at in zip(invoked, mine, strict=True):
        committed = transactions[at].outcome is Outcome.COMMITTED
        assert not committed or row["sequence"] in acked, "a commit waits for every record"


def test_whoever_is_fenced_does_not_commit(mock_cluster, client) -> None:
    mock_cluster.create(TOPIC, PARTITIONS)
    producer = client("workloads.transactions.producer", specification(mock_cluster, fences=0.5))
    run_until(producer, "committed", 5)
    rows = read(producer.history, "transactions").to_pylist()
    transactions = transactions_of(rows)
    zombies = [one for one in transactions if one.fenced and one.asked and one.asked > one.fenced]
    assert zombies
    assert {one.outcome for one in zombies} == {Outcome.NOT_COMMITTED}
    assert len({one.producer for one in transactions}) > len({one.producer for one in zombies})
    assert len({row["transactional_id"] for row in rows}) == 1
    late = [
        row
        for row in sends(producer.history)
        for one in zombies
        if row["producer"] == one.producer and row["type"] == "invoke" and row["time"] > one.fenced
    ]
    assert len(late) == len(zombies), "each sends one more record"


def test_a_transformer_commits_what_it_made_with_the_offsets_of_it(mock_cluster, client) -> None:
    mock_cluster.create(TOPIC, PARTITIONS)
    producer = client("workloads.transactions.producer", specification(mock_cluster, aborts=0.0))
    run_until(producer, "committed", 5)
    given = specification(mock_cluster, aborts=0.0)
    reader = {name: given[name] for name in ("topic", "partitions", "bootstrap_servers")} | {
        "client": "transformer-t-0",
        "isolation": "read_committed",
        "history": ".",
        "progress": ".",
    }
    transformer = client(
        "workloads.transactions.transformer", {**given, "group": GROUP, "reader": reader}
    )
    acked = sum(row["type"] == "ok" for row in sends(producer.history))
    run_until(transformer, "acked", acked)

    inputs = read(transformer.history, "inputs").to_pylist()
    committed = {
        one.number
        for one in transactions_of(read(transformer.history, "transactions").to_pylist())
        if one.outcome is Outcome.COMMITTED
    }
    made = [row for row in inputs if row["sequence"] is not None]
    assert all(row["read_producer"] < TRANSFORMERS for row in made)
    done = [row for row in made if row["transaction"] in committed]
    assert len({(row["partition"], row["offset"]) for row in done}) == len(done) == acked
    offsets = read(transformer.history, "transaction_offsets").to_pylist()
    assert {row["type"] for row in offsets} == {"invoke", "ok"}
    assert {row["group"] for row in offsets} == {GROUP}


def test_the_final_read_reads_twice_and_fetches_the_group_s_offsets(mock_cluster, client) -> None:
    mock_cluster.create(TOPIC, PARTITIONS)
    producer = client("workloads.transactions.producer", specification(mock_cluster))
    run_until(producer, "committed", 3)
    reader = client(
        "workloads.transactions.final_read",
        {
            "topics": [{"topic": TOPIC, "partitions": PARTITIONS}],
            "bootstrap_servers": mock_cluster.bootstrap_servers,
            "deadline_s": 100,
            "groups": {TOPIC: GROUP},
        },
    )
    assert reader.wait() == 0, reader.log()
    places = {
        table: [
            (row["partition"], row["offset"]) for row in read(reader.history, table).to_pylist()
        ]
        for table in ("log", "committed", "transaction_offsets")
    }
    assert places["log"] == places["committed"] != []
    assert sorted(places["transaction_offsets"]) == [(n, -1) for n in range(PARTITIONS)]
    for table in ("reads", "committed_reads"):
        assert all(row["complete"] for row in read(reader.history, table).to_pylist())
