"""The producer whose client is a program: what it records of one that does as it should, and of one
that does not."""

import base64
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import numpy as np
import psutil
import pytest

from ackproof.history.payload import Encoder, bytes_min
from ackproof.history.reader import files, read
from ackproof.infra.machine.waiting import wait_until
from ackproof.workloads.librdkafka.keys import Keys
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

TINY_PROGRAM = Path(__file__).parents[1] / "support" / "fakes" / "tiny_program.py"
PARTITIONS = 3
RATE = 2000
AFTER = 20
"""As in the program: with which record it begins to misbehave."""


@pytest.fixture
def produce(client) -> Callable:
    def start(manner: str, **changed):
        return client(
            "ackproof.workloads.foreign.producer",
            {
                "cell": "cell.one",
                "topic": "cell.one",
                "partitions": PARTITIONS,
                "acks": "all",
                "producer": 0,
                "rate": RATE,
                "record_bytes": 100,
                "bootstrap_servers": "nowhere:1",
                "library": "java",
                "program": [sys.executable, str(TINY_PROGRAM), manner],
                **changed,
            },
        )

    return start


def wait_for(process, condition: Callable[[], bool]) -> None:
    """Wait for ``condition`` while the process lives."""

    def holds() -> bool:
        assert process.process.poll() is None, process.log()
        return condition()

    wait_until(holds, PATIENCE_S, f"a condition of {process.figures()}")


def outcomes(directory: Path) -> dict[int, tuple[str, int | None, str | None]]:
    """Return the outcome of each record by number: type, offset and error. Check that each record
    has an invoke and one outcome, which is no earlier."""
    rows = defaultdict(list)
    for row in read(directory, "sends").to_pylist():
        rows[row["sequence"]].append(row)
    assert sorted(rows) == list(range(len(rows)))
    for invoke, outcome in rows.values():
        assert invoke["type"] == "invoke"
        assert invoke["time"] <= outcome["time"]
        assert invoke["partition"] == outcome["partition"]
    return {n: (told["type"], told["offset"], told["error"]) for n, (_, told) in rows.items()}


def test_reports_of_a_program_are_recorded(produce) -> None:
    producer = produce("correct")
    wait_for(producer, lambda: producer.figures()["acked"] >= 1000)
    assert producer.terminate() == 0, producer.log()
    recorded = outcomes(producer.history)
    assert {outcome[::2] for outcome in recorded.values()} == {("ok", None)}
    # The program counts the offsets of each partition.
    acks = [row for row in read(producer.history, "sends").to_pylist() if row["type"] == "ok"]
    for partition in range(PARTITIONS):
        offsets = {r["sequence"]: r["offset"] for r in acks if r["partition"] == partition}
        assert [offsets[sequence] for sequence in sorted(offsets)] == [*range(len(offsets))] != []
    assert producer.figures()["acked"] == producer.figures()["sent"] == len(recorded)
    assert len(files(producer.history, "sends")) == PARTITIONS


def test_program_receives_cluster_topic_and_properties(produce) -> None:
    producer = produce("correct", acks="1", producer_config={"linger.ms": 7, "retries": 3})
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    assert producer.terminate() == 0, producer.log()
    told = {line[6:] for line in producer.log().splitlines() if line.startswith("told: ")}
    assert told == {
        "protocol 1",
        "topic cell.one",
        "property bootstrap.servers nowhere:1",
        "property client.id producer-cell.one-0",
        "property acks 1",
        "property enable.idempotence false",
        "property linger.ms 7",
        "property delivery.timeout.ms 20000",
        "property request.timeout.ms 5000",
        "property retries 3",
    }


def sends(directory: Path) -> list[list[dict]]:
    """Return the rows of each record, in the order of their numbers."""
    rows = sorted(read(directory, "sends").to_pylist(), key=lambda row: row["sequence"])
    return [[*each] for _, each in groupby(rows, key=lambda row: row["sequence"])]


def test_program_is_given_keys_and_tombstones(produce) -> None:
    producer = produce("correct", keys=7, tombstones=0.3, seed=7)
    wait_for(producer, lambda: producer.figures()["acked"] >= 1000)
    assert producer.terminate() == 0, producer.log()
    lines = [line[6:].split() for line in producer.log().splitlines() if line[:6] == "told: "]
    assert lines[0] == ["protocol", "2"]
    told = [line for line in lines if line[0] in ("keyed", "tombstone")]
    recorded = sends(producer.history)
    drawn = (np.random.default_rng([7, 0]).random(len(recorded)) < 0.3).tolist()
    value, identity = (Encoder("cell.one", 0, size) for size in (100, bytes_min("cell.one")))
    for number, (invoke, outcome) in enumerate(recorded):
        key = number % 7
        assert (invoke["key"], invoke["tombstone"]) == (key, drawn[number])
        assert invoke["partition"] == outcome["partition"] == key % PARTITIONS
        verb, made_by = ("tombstone", identity) if drawn[number] else ("keyed", value)
        encoded = [base64.b64encode(b).decode() for b in (b"key-%d" % key, made_by.encode(number))]
        assert told[number] == [verb, str(number), str(key % PARTITIONS), *encoded]
    assert len(told) == len(recorded)


def test_partition_that_the_library_chose_is_compared_with_its_partitioners(produce) -> None:
    """Test a library that chooses partition 0 for each key."""
    config = {"partitioner": "fnv1a"}
    producer = produce("correct", library="/own", keys=7, producer_config=config)
    wait_for(producer, lambda: producer.figures()["acked"] >= 1000)
    assert producer.terminate() == 0, producer.log()
    assert "told: property partitioner fnv1a" in producer.log()
    stated = Keys(7, PARTITIONS, "fnv1a").partitions.tolist()
    for number, (invoke, outcome) in enumerate(sends(producer.history)):
        assert invoke["partition"] == stated[number % 7]
        assert (outcome["type"], outcome["offset"] is None) == ("ok", stated[number % 7] != 0)
    misplaced = next(number for number in range(7) if stated[number])
    assert f"record {misplaced} was sent to partition {stated[misplaced]}, and" in producer.log()


@pytest.mark.parametrize(
    ("manner", "reason"),
    [
        ("outdated", "cannot go on: no version 2 here; records with keys or tombstones need"),
        ("unaware", "was told protocol 2, and answered in version 1; records with keys or"),
        ("choosing", "an ack of record 0 without the partition that its library chose"),
    ],
)
def test_program_without_version_2_is_refused_for_keys(produce, manner: str, reason: str) -> None:
    config = {"partitioner": "murmur2"}
    producer = produce(manner, library="/own", keys=7, producer_config=config)
    assert producer.wait() == 1
    assert reason in producer.log()
    assert {outcome[0] for outcome in outcomes(producer.history).values()} <= {"info"}


def test_producer_that_cells_share_records_each_of_them(produce) -> None:
    further = [
        {"cell": "cell.two", "topic": "cell.two", "partitions": 1},
        {"cell": "cell.three", "topic": "cell.three", "partitions": 2},
    ]
    producer = produce("correct", further=further)
    wait_for(producer, lambda: producer.figures()["acked"] >= 1000)
    assert producer.terminate() == 0, producer.log()
    rows = read(producer.history, "sends").to_pylist()
    acks = [row for row in rows if row["type"] == "ok"]
    assert len(acks) == producer.figures()["acked"] == producer.figures()["sent"]
    for cell, partitions in (("cell.one", PARTITIONS), ("cell.two", 1), ("cell.three", 2)):
        own = [row for row in acks if row["cell"] == cell]
        assert sorted(row["sequence"] for row in own) == [*range(len(own))] != []
        for partition in range(partitions):
            # The program counts the offsets of each partition of each topic.
            offsets = {r["sequence"]: r["offset"] for r in own if r["partition"] == partition}
            assert [offsets[sequence] for sequence in sorted(offsets)] == [*range(len(offsets))]
        assert {row["partition"] for row in own} == set(range(partitions))
    assert len(files(producer.history, "sends")) == PARTITIONS + 1 + 2
    told = [line for line in producer.log().splitlines() if line.startswith("told: topic")]
    assert told == [f"told: topic cell.{name}" for name in ("one", "two", "three")]


def test_without_acks_the_clients_word_has_no_offset(produce) -> None:
    producer = produce("correct", acks="0")
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    assert producer.terminate() == 0, producer.log()
    assert set(outcomes(producer.history).values()) == {("ok", None, None)}


@pytest.mark.parametrize(("library", "certain"), [("java", "fail"), ("/own/program", "info")])
def test_only_a_known_refusal_is_a_certain_failure(produce, library: str, certain: str) -> None:
    producer = produce("refuses", library=library)
    wait_for(producer, lambda: producer.figures()["indeterminate"] > 100)
    assert producer.terminate() == 0, producer.log()
    expected = [
        ("ok", None),
        (certain, "TimeoutException"),
        ("info", "IllegalStateException"),
        ("info", "TimeoutException"),
    ]
    for number, outcome in outcomes(producer.history).items():
        assert outcome[::2] == expected[number % 4]


@pytest.mark.parametrize(
    ("manner", "status", "reason"),
    [
        ("malformed", 1, "said what is no line: 'acked one 1'"),
        ("rude", 1, r"said what is no line: '\\xff\\xfe what?'"),
        ("twice", 1, "reported record 0, which has no pending outcome"),
        ("strange", 1, "reported record 999999, which has no pending outcome"),
        ("answers", 1, "answered without a question"),
        ("status", 7, "ended with status 7"),
        ("quits", 1, "ended with status 0"),
        ("signal", 128 + signal.SIGSEGV, "was ended by SIGSEGV"),
        # It waits ten seconds for what may still come.
        pytest.param("deaf", 1, "closed its output", marks=pytest.mark.long),
        ("fatal", 1, "cannot go on: the library has failed for good"),
    ],
)
def test_misbehaving_program_ends_the_producer(
    produce, manner: str, status: int, reason: str
) -> None:
    producer = produce(manner)
    assert producer.wait() == status, producer.log()
    assert reason in producer.log()
    assert "Traceback" not in producer.log()
    recorded = outcomes(producer.history)
    told = {n: outcome for n, outcome in recorded.items() if n <= AFTER}
    assert told == {n: ("ok", n // PARTITIONS, None) for n in range(AFTER + 1)}
    of_the_others = {outcome for n, outcome in recorded.items() if n > AFTER}
    assert of_the_others <= {("info", None, "_PROGRAM_ENDED")}
    assert not list(producer.history.glob("*.part-*"))


def test_unreported_record_of_a_silent_program_is_indeterminate(produce) -> None:
    producer = produce("silent", producer_config={"delivery.timeout.ms": 1000})
    wait_for(producer, lambda: producer.figures()["sent"] > 1000)
    assert producer.terminate() == 0, producer.log()
    kinds = Counter(outcome[::2] for outcome in outcomes(producer.history).values())
    assert kinds.pop(("ok", None)) == AFTER
    assert kinds.keys() == {("info", "_TIMED_OUT")}


def test_flush_without_all_reports_is_an_error(produce) -> None:
    producer = produce("forgets")
    wait_for(producer, lambda: producer.figures()["sent"] > 1000)
    assert producer.terminate() == 1
    assert "has flushed without a report of" in producer.log()
    kinds = Counter(outcome[::2] for outcome in outcomes(producer.history).values())
    assert kinds.pop(("ok", None)) == AFTER
    assert kinds.keys() == {("info", "_PROGRAM_ENDED")}


@pytest.mark.long  # waits ten seconds for the program to end
def test_a_program_that_takes_nothing_more_is_handed_nothing_more(produce) -> None:
    """Test that no more records are handed over, and so possibly sent, than the pipe holds."""
    producer = produce("stuck", rate=20_000, producer_config={"delivery.timeout.ms": 1000})
    wait_for(producer, lambda: producer.figures()["sent"] > AFTER + 1)
    sent = {0: 0}

    def settled() -> bool:
        figures = producer.figures()
        sent[figures["time"]] = figures["sent"]
        return len(sent) > 2 and len({*[*sent.values()][-2:]}) == 1

    wait_for(producer, settled)
    assert producer.terminate() == 1
    assert "did not end within" in producer.log()
    kinds = Counter(outcome[::2] for outcome in outcomes(producer.history).values())
    assert kinds.pop(("ok", None)) == AFTER + 1
    assert kinds.keys() == {("info", "_TIMED_OUT")}
    assert kinds.total() < 20_000


def test_a_program_that_is_never_ready_is_sent_nothing(produce) -> None:
    producer = produce("never-ready")
    wait_for(producer, lambda: "told: property" in producer.log())
    assert producer.terminate() == 0, producer.log()
    assert outcomes(producer.history) == {}


def test_exit_status_of_a_stopped_program_counts(produce) -> None:
    producer = produce("sorry")
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    assert producer.terminate() == 5
    assert "ended with status 5" in producer.log()
    assert {outcome[0] for outcome in outcomes(producer.history).values()} == {"ok"}


@pytest.mark.parametrize("program", ["/no/such/program", "/etc/passwd"])
def test_a_program_that_cannot_be_started_is_named(produce, program: str) -> None:
    producer = produce("", program=[program])
    assert producer.wait() == 1
    assert f"cannot start {program}: " in producer.log()
    assert "Traceback" not in producer.log()


def test_a_program_without_its_interpreter_says_so(produce, tmp_path: Path) -> None:
    """Test a node without the interpreter of this machine; Linux reports a missing file."""
    program = tmp_path / "mine"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    producer = produce("", program=[str(program)])
    assert producer.wait() == 1
    assert f"cannot start {program}: what runs it is not here" in producer.log()


def test_a_program_ends_with_a_producer_that_was_killed(produce) -> None:
    producer = produce("stuck")
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    (program,) = psutil.Process(producer.process.pid).children()
    os.kill(producer.process.pid, signal.SIGKILL)
    producer.wait()
    wait_until(lambda: not program.is_running(), PATIENCE_S, "the program ends, too")
