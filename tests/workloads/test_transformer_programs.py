"""A transformer whose client is a program: what it records of its input, and of the offsets that it
sends with its output."""

import base64
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.checks.transaction_history import TransactionOutcome, transactions_of
from ackproof.history.payload import Encoder
from ackproof.history.reader import read
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parents[1] / "support" / "fakes" / "tiny_transformer.py"
RECORDS = 30


@pytest.fixture
def transform(client, tmp_path: Path) -> Callable:
    def start(manner: str, **changed: Any):
        values = map(Encoder("c", 0, 100).encode, range(RECORDS))
        lines = (base64.b64encode(one).decode() for one in values)
        (tmp_path / "values").write_text("\n".join(lines))
        files = (str(tmp_path / "values"), str(tmp_path / "committed"))
        name = {"client": "transformer-t-0", "topic": "t", "partitions": 1}
        reader = {**name, "bootstrap_servers": "nowhere:1", "history": "x", "progress": "x"}
        return client(
            "ackproof.workloads.transactions.transformer",
            {
                "cell": "c",
                "topic": "t",
                "partitions": 1,
                "acks": "all",
                "producer": 0,
                "rate": 300,
                "record_bytes": 100,
                "bootstrap_servers": "nowhere:1",
                "seed": 7,
                "transaction_records": 4,
                "aborts": 0.3,
                "fences": 0.0,
                "library": "java",
                "program": [sys.executable, str(PROGRAM), manner, *files],
                "group": "t-transformers",
                "reader": {**reader, "isolation": "read_committed"},
                **changed,
            },
        )

    return start


@pytest.fixture
def committed(tmp_path: Path) -> Callable[[], int]:
    """Return the offset that the group has committed."""
    file = tmp_path / "committed"
    return lambda: int(file.read_text() or 0) if file.exists() else 0


def finish(process, committed: Callable[[], int]) -> None:
    """Let it transform everything, and end it."""

    def done() -> bool:
        assert process.process.poll() is None, process.log()
        return committed() == RECORDS

    wait_until(done, PATIENCE_S, "all of the input")
    assert process.terminate() == 0, process.log()


def rows(process, table: str) -> list[dict[str, Any]]:
    return read(process.history, table).to_pylist()


def processed(process) -> Counter[int]:
    """Return how many committed transactions processed each offset."""
    outcomes = {
        (one.producer, one.number): one.outcome
        for one in transactions_of(rows(process, "transactions"))
    }
    return Counter(
        row["offset"]
        for row in rows(process, "inputs")
        if outcomes[row["producer"], row["transaction"]] is TransactionOutcome.COMMITTED
    )


@pytest.mark.parametrize("manner", ["correct", "rebalances", "fenced"])
def test_each_input_of_a_program_is_processed_by_one_committed_transaction(
    transform, committed, manner: str
) -> None:
    transformer = transform(manner)
    finish(transformer, committed)
    assert processed(transformer) == dict.fromkeys(range(RECORDS), 1)
    inputs = rows(transformer, "inputs")
    assert {(row["read_cell"], row["read_producer"]) for row in inputs} == {("c", 0)}
    assert all(row["read_sequence"] == row["offset"] for row in inputs)
    sessions = {row["producer"] for row in rows(transformer, "transactions")}
    assert len(sessions) == (2 if manner == "fenced" else 1)
    assert transformer.log().count("told: close") == len(sessions), "each leaves its group"


def test_tombstones_are_processed_and_outputs_have_keys(transform, committed) -> None:
    transformer = transform("tombstones", keys=4, tombstones=0.5)
    finish(transformer, committed)
    assert processed(transformer) == dict.fromkeys(range(RECORDS), 1)
    inputs = rows(transformer, "inputs")
    assert all(row["read_sequence"] == row["offset"] for row in inputs)
    sent = [row for row in rows(transformer, "sends") if row["type"] == "invoke"]
    assert {row["key"] for row in sent} == set(range(4))
    assert {row["tombstone"] for row in sent} == {False, True}


def test_offsets_of_each_transaction_are_recorded(transform, committed) -> None:
    transformer = transform("correct")
    finish(transformer, committed)
    ends: dict[int, int] = {}
    for row in rows(transformer, "inputs"):
        ends[row["transaction"]] = row["offset"] + 1
    offsets = rows(transformer, "transaction_offsets")
    for kind in ("invoke", "ok"):
        sent = {row["transaction"]: row["offset"] for row in offsets if row["type"] == kind}
        assert sent == ends
    aborted = {
        one.number
        for one in transactions_of(rows(transformer, "transactions"))
        if one.outcome is TransactionOutcome.NOT_COMMITTED
    }
    fetched = {row["transaction"] for row in offsets if row["type"] == "fetched"}
    assert aborted
    assert aborted <= fetched, "after an abort, reading goes on where the group has committed"
    assert {row["group"] for row in offsets} == {"t-transformers"}


def test_program_receives_the_properties_of_its_consumer(transform, committed) -> None:
    transformer = transform("correct")
    finish(transformer, committed)
    told = {line[6:] for line in transformer.log().splitlines() if line.startswith("told: ")}
    assert {line for line in told if line.startswith("consumer ")} == {
        "consumer auto.offset.reset earliest",
        "consumer bootstrap.servers nowhere:1",
        "consumer client.id transformer-t-0",
        "consumer enable.auto.commit false",
        "consumer group.id t-transformers",
        "consumer isolation.level read_committed",
        "consumer max.poll.records 40",
        "consumer session.timeout.ms 10000",
    }
    assert "property transactional.id t-transformer-t-0" in told


def test_commit_that_is_answered_by_another_word_ends_the_transformer(transform) -> None:
    transformer = transform("confuses")
    assert transformer.wait() == 1, transformer.log()
    assert "the program answered Commit by another word" in transformer.log()
    assert "Traceback" not in transformer.log()
    outcomes = {one.outcome for one in transactions_of(rows(transformer, "transactions"))}
    assert TransactionOutcome.UNKNOWN in outcomes
