"""Transactions of a producer whose client is a program: what it tells of them is what is recorded,
and what it may not do ends it."""

import base64
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.checks.transaction_history import TransactionOutcome, transactions_of
from ackproof.history.payload import decode
from ackproof.history.reader import read
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parents[1] / "support" / "fakes" / "tiny_transactional_program.py"
EVERY = 3
"""As in the program: which commits of each session its manner is about."""


@pytest.fixture
def produce(client) -> Callable:
    def start(manner: str, **changed: Any):
        return client(
            "ackproof.workloads.transactions.producer",
            {
                "cell": "c",
                "topic": "t",
                "partitions": 3,
                "acks": "all",
                "producer": 0,
                "rate": 300,
                "record_bytes": 100,
                "bootstrap_servers": "nowhere:1",
                "seed": 7,
                "transaction_records": 4,
                "aborts": 0.2,
                "fences": 0.0,
                "library": "java",
                "program": [sys.executable, str(PROGRAM), manner],
                **changed,
            },
        )

    return start


def run_until(process, figure: str, many: int) -> Sequence[dict[str, Any]]:
    """Let it do so much, and end it; the rows of its transactions."""

    def done() -> bool:
        assert process.process.poll() is None, process.log()
        return process.figures()[figure] >= many

    wait_until(done, PATIENCE_S, f"{many} {figure}")
    assert process.terminate() == 0, process.log()
    return read(process.history, "transactions").to_pylist()


def told(process) -> set[str]:
    return {line[6:] for line in process.log().splitlines() if line.startswith("told: ")}


def test_reports_of_a_program_are_recorded(produce) -> None:
    producer = produce("correct")
    rows = run_until(producer, "aborted", 3)
    outcomes = Counter(one.outcome for one in transactions_of(rows))
    assert outcomes.keys() == {TransactionOutcome.COMMITTED, TransactionOutcome.NOT_COMMITTED}
    assert {row["type"] for row in rows} == {"invoke", "ok"}
    assert {row["producer"] for row in rows} == {0}
    sends = Counter(row["type"] for row in read(producer.history, "sends").to_pylist())
    assert sends.keys() == {"invoke", "ok"}
    assert sends["invoke"] == sends["ok"]


def test_program_receives_its_transactional_id(produce) -> None:
    producer = produce("correct", producer_config={"linger.ms": 7})
    run_until(producer, "committed", 1)
    assert told(producer) == {
        "protocol 1",
        "topic t",
        "property bootstrap.servers nowhere:1",
        "property client.id producer-t-0",
        "property acks all",
        "property transactional.id t-producer-t-0",
        "property transaction.timeout.ms 10000",
        "property max.block.ms 1000",
        "property enable.idempotence true",
        "property linger.ms 7",
        "property delivery.timeout.ms 10000",
        "property request.timeout.ms 5000",
    }


def test_records_with_keys_and_tombstones_are_recorded_as_they_are_sent(produce) -> None:
    producer = produce("correct", keys=6, tombstones=0.3)
    run_until(producer, "committed", 5)
    lines = [line.split() for line in told(producer) if line.startswith(("keyed", "tombstone"))]
    received = {
        int(sequence): (int(partition), base64.b64decode(key), verb == "tombstone")
        for verb, sequence, partition, key, _ in lines
    }
    invoked = [row for row in read(producer.history, "sends").to_pylist() if row["key"] is not None]
    recorded = {
        row["sequence"]: (row["partition"], b"key-%d" % row["key"], row["tombstone"])
        for row in invoked
    }
    assert received == recorded
    assert {deletes for *_, deletes in recorded.values()} == {False, True}
    identities = {int(words[1]): decode(base64.b64decode(words[4])) for words in lines}
    assert identities == {sequence: ("c", 0, sequence) for sequence in recorded}


def test_program_that_knows_no_keys_ends_the_producer(produce) -> None:
    producer = produce("unaware", keys=6, library="/own")
    assert producer.wait() == 1, producer.log()
    assert "was told protocol 2, and answered in version 1" in producer.log()
    assert "version 2 of the client protocol" in producer.log()
    assert "Traceback" not in producer.log()


def test_timed_out_call_is_repeated_as_one_event(produce) -> None:
    rows = run_until(produce("timed-out", aborts=0.0), "committed", 3 * EVERY)
    assert Counter(row["type"] for row in rows if row["event"] == "commit").keys() == {
        "invoke",
        "ok",
    }
    assert {one.outcome for one in transactions_of(rows)} == {TransactionOutcome.COMMITTED}


def test_abortable_transaction_is_aborted_and_its_session_continues(produce) -> None:
    rows = run_until(produce("abortable", aborts=0.0), "aborted", 2)
    failed = {row["transaction"] for row in rows if row["error"] == "KafkaException"}
    aborted = {row["transaction"] for row in rows if (row["event"], row["type"]) == ("abort", "ok")}
    assert failed == aborted
    assert {row["type"] for row in rows if row["error"]} == {"info"}
    assert {row["producer"] for row in rows} == {0}
    by_number = {one.number: one.outcome for one in transactions_of(rows)}
    assert {by_number[number] for number in aborted} == {TransactionOutcome.NOT_COMMITTED}


def test_a_fatal_error_ends_a_session_and_the_next_has_a_program_of_its_own(produce) -> None:
    rows = run_until(produce("fenced", aborts=0.0), "undecided", 2)
    fatal = [row for row in rows if row["error"]]
    assert {(row["event"], row["type"], row["error"]) for row in fatal} == {
        ("commit", "info", "ProducerFencedException")
    }
    sessions = [row["producer"] for row in fatal]
    assert sessions == sorted(set(sessions)) == [*range(len(sessions))]
    unknown = [one for one in transactions_of(rows) if one.outcome is TransactionOutcome.UNKNOWN]
    assert {(one.producer, one.number) for one in unknown} == {
        (row["producer"], row["transaction"]) for row in fatal
    }


def test_a_zombie_asks_for_its_commit_when_another_has_begun(produce) -> None:
    """This program commits it all the same: the history says that it was fenced by then."""
    rows = run_until(produce("correct", fences=0.5), "committed", 5)
    transactions = transactions_of(rows)
    zombies = [one for one in transactions if one.fenced and one.asked and one.asked > one.fenced]
    assert zombies
    assert {one.outcome for one in zombies} == {TransactionOutcome.NOT_COMMITTED}


@pytest.mark.parametrize(
    ("manner", "status", "reason"),
    [
        ("babbles", 1, "answered without a question"),
        ("flushes", 1, "has flushed without an order"),
        ("strange", 1, "reported record 999999, which has no pending outcome"),
        ("fatal", 1, "cannot go on: the library has failed for good"),
        ("quits", 7, "ended with status 7"),
    ],
)
def test_misbehaving_program_ends_the_producer(
    produce, manner: str, status: int, reason: str
) -> None:
    """Test that the last call has an unknown outcome, as of a killed client."""
    producer = produce(manner, aborts=0.0)
    assert producer.wait() == status, producer.log()
    assert reason in producer.log()
    assert "Traceback" not in producer.log()
    transactions = transactions_of(read(producer.history, "transactions").to_pylist())
    outcomes = [one.outcome for one in transactions if one.asked]
    assert outcomes == [
        TransactionOutcome.COMMITTED,
        TransactionOutcome.COMMITTED,
        TransactionOutcome.UNKNOWN,
    ]


def test_program_without_an_accepted_session_begins_no_transaction(produce) -> None:
    producer = produce("never-begins")

    def tried() -> bool:
        assert producer.process.poll() is None, producer.log()
        return producer.figures()["sent"] == 0 and producer.log().count("told: topic") >= 2

    wait_until(tried, PATIENCE_S, "a second session")
    assert producer.terminate() == 0, producer.log()
    rows = read(producer.history, "transactions").to_pylist()
    assert {(row["event"], row["type"]) for row in rows} == {("init", "invoke"), ("init", "info")}
    assert transactions_of(rows) == []
