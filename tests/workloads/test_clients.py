"""The client processes against librdkafka's own cluster: what they record is what happened."""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import closing
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from ackproof.history.payload import Identity
from ackproof.history.reader import files, read
from ackproof.history.sessions import SESSIONS_MAX, session_number
from ackproof.infra.machine.waiting import wait_until
from ackproof.workloads.librdkafka.keys import Keys
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

PRODUCE, LIST_OFFSETS, FIND_COORDINATOR = 0, 2, 10
"""API keys."""
TOPIC = "cell.one"
PARTITIONS = 3
KEY = ("cell", "producer", "sequence")


@pytest.fixture
def produce(mock_cluster, client) -> Callable:
    def start(create: int = PARTITIONS, **changed):
        mock_cluster.create(TOPIC, create)
        return client(
            "ackproof.workloads.producing.producer",
            {
                "cell": "cell.one",
                "topic": TOPIC,
                "partitions": PARTITIONS,
                "acks": "all",
                "producer": 0,
                "rate": 2000,
                "record_bytes": 100,
                "bootstrap_servers": mock_cluster.bootstrap_servers,
                **changed,
            },
        )

    return start


@pytest.fixture
def final_read(mock_cluster, client) -> Callable:
    def start(partitions: int = PARTITIONS, deadline_s: float = 100, further: list = ()):
        return client(
            "ackproof.workloads.reading_back.final_read",
            {
                "topics": [{"topic": TOPIC, "partitions": partitions}, *further],
                "bootstrap_servers": mock_cluster.bootstrap_servers,
                "deadline_s": deadline_s,
            },
        )

    return start


def wait_for(process, condition: Callable[[], bool]) -> None:
    """Wait for ``condition`` while the process lives."""

    def holds() -> bool:
        assert process.process.poll() is None, process.log()
        return condition()

    wait_until(holds, PATIENCE_S, f"a condition of {process.figures()}")


def sends(directory: Path) -> dict[tuple, list[dict]]:
    """The rows of each send, in order; each send an invoke and at most one outcome."""
    rows = defaultdict(list)
    for row in read(directory, "sends").to_pylist():
        rows[tuple(row[name] for name in KEY)].append(row)
    for events in rows.values():
        assert events[0]["type"] == "invoke"
        assert len(events) <= 2
        assert events[0]["time"] <= events[-1]["time"]
    return rows


def outcomes(directory: Path) -> Counter:
    return Counter(
        (rows[1]["type"], rows[1]["error"]) if len(rows) > 1 else None
        for rows in sends(directory).values()
    )


@pytest.mark.parametrize("acks", [pytest.param("1", marks=pytest.mark.long), "all"])
def test_every_send_is_resolved_and_every_ack_is_read_back(produce, final_read, acks) -> None:
    producer = produce(acks=acks)
    wait_for(producer, lambda: producer.figures()["acked"] >= 1000)
    assert producer.terminate() == 0, producer.log()

    recorded = sends(producer.history)
    assert outcomes(producer.history) == {("ok", None): len(recorded)}
    assert {key[2] for key in recorded} == set(range(len(recorded)))
    assert producer.figures()["acked"] == producer.figures()["sent"] == len(recorded)
    assert len(files(producer.history, "sends")) == PARTITIONS

    reader = final_read()
    assert reader.wait() == 0, reader.log()
    acked = {(r[1]["partition"], r[1]["offset"]): key for key, r in recorded.items()}
    log = read(reader.history, "log").to_pylist()
    assert {(r["partition"], r["offset"]): tuple(r[n] for n in KEY) for r in log} == acked
    assert all(row["leader_epoch"] is not None for row in log)
    assert all(abs(row["timestamp"] - time.time() * 1000) < 600_000 for row in log)
    reads = read(reader.history, "reads").to_pylist()
    assert [row["partition"] for row in reads] == list(range(PARTITIONS))
    assert all(row["complete"] and row["error"] is None for row in reads)
    assert reader.figures()["records"] == reader.figures()["records_total"] == len(log)


def test_producer_that_cells_share_sends_to_the_topic_of_each(
    produce, final_read, mock_cluster
) -> None:
    mock_cluster.create("another", 1)
    producer = produce(further=[{"cell": "cell.two", "topic": "another", "partitions": 1}])
    wait_for(producer, lambda: producer.figures()["acked"] >= 1000)
    assert producer.terminate() == 0, producer.log()
    recorded = sends(producer.history)
    assert outcomes(producer.history) == {("ok", None): len(recorded)}
    assert producer.figures()["acked"] == producer.figures()["sent"] == len(recorded)
    reader = final_read(further=[{"topic": "another", "partitions": 1}])
    assert reader.wait() == 0, reader.log()
    topics = {"cell.one": TOPIC, "cell.two": "another"}
    acked = {
        (topics[key[0]], r[1]["partition"], r[1]["offset"]): key for key, r in recorded.items()
    }
    log = read(reader.history, "log").to_pylist()
    assert {
        (r["topic"], r["partition"], r["offset"]): tuple(r[n] for n in KEY) for r in log
    } == acked
    for cell in topics:
        numbers = [key[2] for key in recorded if key[0] == cell]
        assert sorted(numbers) == [*range(len(numbers))] != []


def test_flat_out_ends_at_its_records_and_has_no_schedule(produce) -> None:
    producer = produce(rate=None, records=30_000, record_bytes_max=300)
    wait_for(producer, lambda: producer.figures()["acked"] == 30_000)
    assert producer.terminate() == 0, producer.log()
    recorded = sends(producer.history)
    assert outcomes(producer.history) == {("ok", None): 30_000}
    assert {row["due"] for rows in recorded.values() for row in rows} == {None}


def test_sync_has_one_record_under_way(produce) -> None:
    producer = produce(rate=None, sync=True, producer_config={"linger.ms": 0})
    wait_for(producer, lambda: producer.figures()["acked"] >= 100)
    assert producer.terminate() == 0, producer.log()
    recorded = sends(producer.history)
    in_order = [recorded["cell.one", 0, number] for number in range(len(recorded))]
    assert all(len(events) == 2 for events in in_order)
    assert all(one[1]["time"] <= next_[0]["time"] for one, next_ in pairwise(in_order))
    assert [events[0]["partition"] for events in in_order[:4]] == [0, 1, 2, 0]


def test_due_times_are_recorded_at_a_fixed_rate(produce) -> None:
    producer = produce(rate=500)
    wait_for(producer, lambda: producer.figures()["acked"] >= 500)
    assert producer.terminate() == 0, producer.log()
    recorded = sends(producer.history)
    invokes = [recorded["cell.one", 0, number][0] for number in range(len(recorded))]
    assert all(row["due"] <= row["time"] for row in invokes)
    apart_ms = [(b["due"] - a["due"]) / 1e6 for a, b in pairwise(invokes)]
    # Two clocks tell them, which a busy machine reads a moment apart; some may have been let go.
    assert median(apart_ms) == pytest.approx(2, abs=0.5)


def test_records_have_the_keys_of_their_partitions(produce, mock_cluster) -> None:
    producer = produce(rate=None, records=90, keys=6)
    wait_for(producer, lambda: producer.figures()["acked"] == 90)
    assert producer.terminate() == 0, producer.log()
    config = {"bootstrap.servers": mock_cluster.bootstrap_servers, "group.id": "keys"}
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
        found = [message for _ in range(90) if (message := consumer.poll(PATIENCE_S))]
    keys = {(message.partition(), message.key()) for message in found}
    assert keys == {(number % PARTITIONS, b"key-%d" % number) for number in range(6)}


def test_tombstones_are_the_seeds_and_consumers_know_them_by_their_headers(
    produce, final_read, client, mock_cluster
) -> None:
    """Test the calls for few records and for many."""
    producer = produce(rate=None, records=3_000, keys=6, tombstones=0.3, seed=7)
    wait_for(producer, lambda: producer.figures()["acked"] == 3_000)
    assert producer.terminate() == 0, producer.log()
    recorded = sends(producer.history)
    assert outcomes(producer.history) == {("ok", None): 3_000}
    invoked = [recorded["cell.one", 0, number][0] for number in range(3_000)]
    drawn = (np.random.default_rng([7, 0]).random(3_000) < 0.3).tolist()
    assert [row["tombstone"] for row in invoked] == drawn
    acked = {(r[1]["partition"], r[1]["offset"]): key for key, r in recorded.items()}

    final = final_read()
    tail = client(
        "ackproof.workloads.consuming.tail_reader",
        {
            "client": "reader-0",
            "topic": TOPIC,
            "partitions": PARTITIONS,
            "bootstrap_servers": mock_cluster.bootstrap_servers,
        },
    )
    assert final.wait() == 0, final.log()
    wait_for(tail, lambda: tail.figures()["shown"] == 3_000)
    assert tail.terminate() == 0, tail.log()
    for reader, table in ((final, "log"), (tail, "polls")):
        rows = read(reader.history, table).to_pylist()
        assert {(r["partition"], r["offset"]): tuple(r[n] for n in KEY) for r in rows} == acked

    config = {"bootstrap.servers": mock_cluster.bootstrap_servers, "group.id": "keys"}
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
        found = [message for _ in range(3_000) if (message := consumer.poll(PATIENCE_S))]
    for message in found:
        _, _, number = acked[message.partition(), message.offset()]
        assert message.key() == b"key-%d" % invoked[number]["key"]
        assert (message.value() is None) == drawn[number] == bool(message.headers())


def test_client_picks_the_partition_of_each_key_among_those_that_the_cluster_names(
    produce,
) -> None:
    """Test fewer partitions than the history expects: some records go elsewhere."""
    config = {"partitioner": "murmur2"}
    producer = produce(create=2, rate=None, records=90, keys=20, producer_config=config)
    wait_for(producer, lambda: producer.figures()["acked"] == 90)
    assert producer.terminate() == 0, producer.log()
    stated, picked = (Keys(20, many, "murmur2").partitions.tolist() for many in (PARTITIONS, 2))
    recorded = sends(producer.history)
    in_order = [recorded["cell.one", 0, number] for number in range(90)]
    assert [rows[0]["partition"] for rows in in_order] == [stated[n % 20] for n in range(90)]
    elsewhere = [stated[n % 20] != picked[n % 20] for n in range(90)]
    assert [rows[1]["offset"] is None for rows in in_order] == elsewhere
    assert any(elsewhere)
    assert not all(elsewhere)
    assert "were acknowledged in another partition than they were sent to" in producer.log()


def test_without_acks_the_clients_word_has_no_offset(produce) -> None:
    producer = produce(acks="0")
    wait_for(producer, lambda: producer.figures()["acked"] >= 100)
    assert producer.terminate() == 0, producer.log()
    ok = [rows[1] for rows in sends(producer.history).values()]
    assert {(row["type"], row["offset"]) for row in ok} == {("ok", None)}


def test_leaderless_partition_does_not_stop_the_others(produce, mock_cluster) -> None:
    share = 50
    config = {"queue.buffering.max.messages": share * PARTITIONS, "message.timeout.ms": 3000}
    producer = produce(rate=500, producer_config=config)
    mock_cluster.lead(TOPIC, 1, -1)
    # Partitions take turns: of so many, each of the two others has its part.
    wait_for(producer, lambda: producer.figures()["acked"] > 18 * share)
    wait_for(producer, lambda: producer.figures()["indeterminate"] >= share)
    assert producer.terminate() == 0, producer.log()
    by_partition = defaultdict(Counter)
    waited: list[tuple[int, int]] = []
    for rows in sends(producer.history).values():
        by_partition[rows[1]["partition"]][rows[1]["type"], rows[1]["error"]] += 1
        if rows[1]["partition"] == 1:
            waited += [(rows[0]["time"], 1), (rows[1]["time"], -1)]
    assert by_partition[0]["ok", None] > 4 * share
    assert by_partition[2]["ok", None] > 4 * share
    stuck = by_partition[1]
    assert stuck["info", "_MSG_TIMED_OUT"] >= share
    assert not any(kind == "fail" for kind, _ in stuck)
    assert max(accumulate(change for _, change in sorted(waited))) <= share


def test_unresolved_sends_are_indeterminate_at_the_end(produce, mock_cluster) -> None:
    producer = produce(rate=100, producer_config={"message.timeout.ms": 2000})
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    for broker in (1, 2, 3):
        mock_cluster.down(broker)
    sent = producer.figures()["sent"]
    wait_for(producer, lambda: producer.figures()["sent"] > sent)
    assert producer.terminate() == 0, producer.log()
    kinds = {outcome and outcome[0] for outcome in outcomes(producer.history)}
    assert kinds == {"ok", "info"}


def test_retries_hide_broker_errors_and_lose_nothing(produce, mock_cluster) -> None:
    producer = produce(rate=300)
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    mock_cluster.fail(PRODUCE, KafkaError.NOT_ENOUGH_REPLICAS, 3)
    mock_cluster.fail(PRODUCE, KafkaError.REQUEST_TIMED_OUT, 3)
    acked = producer.figures()["acked"]
    wait_for(producer, lambda: producer.figures()["acked"] > acked + 300)
    assert producer.terminate() == 0, producer.log()
    assert {outcome[0] for outcome in outcomes(producer.history)} == {"ok"}


def test_a_broker_error_on_the_last_attempt_is_unknown(produce, mock_cluster) -> None:
    config = {"retries": 0}
    producer = produce(rate=300, producer_config=config)
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    mock_cluster.fail(PRODUCE, KafkaError.NOT_ENOUGH_REPLICAS, 3)
    wait_for(producer, lambda: producer.figures()["indeterminate"] > 0)
    assert producer.terminate() == 0, producer.log()
    assert outcomes(producer.history)["info", "NOT_ENOUGH_REPLICAS"] > 0


def test_a_record_that_the_client_refuses_has_certainly_failed(produce, final_read) -> None:
    producer = produce(rate=200, record_bytes=2000, producer_config={"message.max.bytes": 1000})
    wait_for(producer, lambda: producer.figures()["failed"] >= 20)
    assert producer.terminate() == 0, producer.log()
    assert set(outcomes(producer.history)) == {("fail", "MSG_SIZE_TOO_LARGE")}
    reader = final_read()
    assert reader.wait() == 0, reader.log()
    assert read(reader.history, "log").num_rows == 0
    assert all(row["complete"] for row in read(reader.history, "reads").to_pylist())


def test_a_full_queue_is_a_certain_failure(produce, mock_cluster) -> None:
    config = {"queue.buffering.max.kbytes": 1, "message.timeout.ms": 2000}
    producer = produce(rate=200, record_bytes=500, producer_config=config)
    for partition in range(PARTITIONS):
        mock_cluster.lead(TOPIC, partition, -1)
    wait_for(producer, lambda: producer.figures()["failed"] > 0)
    assert producer.terminate() == 0, producer.log()
    assert outcomes(producer.history)["fail", "_QUEUE_FULL"] > 0


def sessions(directory: Path) -> list[list[int]]:
    """The sequence numbers of each session, in the order of the sessions."""
    numbers = defaultdict(list)
    for _, producer, sequence in sends(directory):
        numbers[producer].append(sequence)
    return [sorted(numbers[number]) for number in sorted(numbers)]


def test_after_a_fatal_error_the_producer_goes_on_in_another_session(
    produce, mock_cluster, final_read
) -> None:
    config = {"enable.idempotence": True, "enable.gapless.guarantee": True}
    producer = produce(producer_config=config, rate=200)
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    mock_cluster.fail(PRODUCE, KafkaError.INVALID_PRODUCER_ID_MAPPING, 1)
    wait_for(producer, lambda: producer.figures()["sessions_ended"] == 1)
    acked = producer.figures()["acked"]
    wait_for(producer, lambda: producer.figures()["acked"] > acked + 100)
    assert producer.terminate() == 0, producer.log()
    assert "gap-less" in json.loads(producer.progress.read_text())["fatal"]
    told = outcomes(producer.history)
    # What was handed over before anybody had noticed was refused, and is certainly nowhere.
    assert {outcome for outcome in told if outcome[0] == "fail"} <= {("fail", "_FATAL")}
    assert {"ok", "info"} <= {outcome[0] for outcome in told}
    before, after = sessions(producer.history)
    assert before[-1] < after[0]
    assert {key[1] for key in sends(producer.history)} == {0, session_number(0, 1)}
    reader = final_read()
    assert reader.wait() == 0, reader.log()
    logged = {tuple(row[n] for n in KEY) for row in read(reader.history, "log").to_pylist()}
    acks = {key for key, rows in sends(producer.history).items() if rows[-1]["type"] == "ok"}
    assert acks <= logged <= sends(producer.history).keys()


@pytest.mark.long
def test_producer_ends_after_fatal_errors_in_every_session(produce, mock_cluster) -> None:
    config = {"enable.idempotence": True, "enable.gapless.guarantee": True}
    producer = produce(producer_config=config, rate=200)
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    mock_cluster.fail(PRODUCE, KafkaError.INVALID_PRODUCER_ID_MAPPING, 100_000)
    assert producer.wait() == 1, producer.log()
    assert "failed for good" in producer.log()
    assert len(sessions(producer.history)) == SESSIONS_MAX
    assert None not in outcomes(producer.history)
    assert not list(producer.history.glob("*.part-*"))


def test_a_killed_producer_leaves_its_history_readable(produce) -> None:
    rate = 1000
    producer = produce(rate=rate)
    wait_for(producer, lambda: producer.figures()["acked"] >= 3 * rate)
    figures = producer.figures()
    producer.process.kill()
    producer.wait()
    recorded = sends(producer.history)
    # What was flushed is a second old at most, and a second's worth may be caught up in it.
    assert len(recorded) >= figures["sent"] - 2 * rate
    assert {outcome and outcome[0] for outcome in outcomes(producer.history)} <= {"ok", None}


def test_the_final_read_needs_no_coordinator(produce, final_read, mock_cluster) -> None:
    producer = produce(rate=100)
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    assert producer.terminate() == 0
    mock_cluster.fail(FIND_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, 10_000)
    reader = final_read()
    assert reader.wait() == 0, reader.log()
    assert all(row["complete"] for row in read(reader.history, "reads").to_pylist())


def test_a_partition_that_cannot_be_read_is_incomplete_and_the_others_are_not(
    produce, final_read, mock_cluster
) -> None:
    producer = produce(rate=300)
    wait_for(producer, lambda: producer.figures()["acked"] > 100)
    assert producer.terminate() == 0
    mock_cluster.lead(TOPIC, 1, -1)
    reader = final_read(deadline_s=6)
    assert reader.wait() == 0, reader.log()
    reads = {row["partition"]: row for row in read(reader.history, "reads").to_pylist()}
    assert [reads[p]["complete"] for p in range(PARTITIONS)] == [True, False, True]
    assert "6 s had passed" in reads[1]["error"]
    assert reads[1]["log_end_offset"] is None
    assert reads[0]["records"] > 0


def test_bounds_are_asked_again_until_they_come(produce, final_read, mock_cluster) -> None:
    producer = produce(rate=300)
    wait_for(producer, lambda: producer.figures()["acked"] > 100)
    assert producer.terminate() == 0
    mock_cluster.fail(LIST_OFFSETS, KafkaError.UNKNOWN, 6)
    reader = final_read()
    assert reader.wait() == 0, reader.log()
    assert all(row["complete"] for row in read(reader.history, "reads").to_pylist())


def test_records_of_others_have_no_identity(mock_cluster, final_read) -> None:
    mock_cluster.create(TOPIC, PARTITIONS)
    other = Producer({"bootstrap.servers": mock_cluster.bootstrap_servers})
    other.produce(TOPIC, b"none of yours", partition=0)
    assert other.flush(60) == 0
    reader = final_read()
    assert reader.wait() == 0, reader.log()
    (row,) = read(reader.history, "log").to_pylist()
    assert tuple(row[name] for name in Identity._fields) == (None, None, None)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"acks": "3"}, "acks"),
        ({"record_bytes": 3}, "needs"),
        ({"producer_config": {"no.such.property": "hunter2"}}, "no.such.property"),
        ({"producer_config": {"sasl.password": "hunter2", "batch.size": "x"}}, "batch.size"),
    ],
)
def test_client_with_a_wrong_specification_ends_at_once(produce, changed, problem) -> None:
    producer = produce(**changed)
    assert producer.wait() == 2
    assert problem in producer.log()
    assert "hunter2" not in producer.log()
    assert "Traceback" not in producer.log()


def test_passwords_are_nowhere_but_in_the_specification(produce) -> None:
    config = {"sasl.username": "u", "sasl.password": "hunter2", "sasl.mechanisms": "PLAIN"}
    producer = produce(producer_config=config)
    wait_for(producer, lambda: producer.figures()["acked"] > 0)
    assert producer.terminate() == 0
    directory = producer.history.parent
    holding = [p.name for p in directory.rglob("*") if p.is_file() and b"hunter2" in p.read_bytes()]
    assert holding == ["producer.json"]
