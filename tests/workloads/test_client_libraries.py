"""Every client library against a real cluster: what it acknowledged is there, by its offset, as the
very value that was drawn."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ackproof.history.cell import LIBRARIES, LIBRDKAFKA
from ackproof.history.payload import TOMBSTONE_HEADER, Encoder, tombstones_of
from ackproof.history.reader import read
from ackproof.infra.clients import builds, programs
from ackproof.infra.machine.waiting import wait_until
from ackproof.workloads.librdkafka.keys import Keys
from tests.support.clients.confluent import create_topic, read_all, read_messages
from tests.support.clients.here import here
from tests.support.clusters.bundled import Cluster, running_cluster
from tests.support.processes.deadlines import PATIENCE_S

PARTITIONS = 3
BUILT = [pytest.param(one, marks=pytest.mark.libraries) for one in ("java", "franz-go")]
pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def produce(cluster: Cluster, client) -> Callable:
    def start(library: str, topic: str, **changed):
        create_topic(cluster, topic, PARTITIONS, config={"min.insync.replicas": "2"})
        return client(
            "ackproof.workloads.foreign.producer",
            {
                "cell": topic,
                "topic": topic,
                "partitions": PARTITIONS,
                "acks": "all",
                "producer": 0,
                "rate": 300,
                "record_bytes": 100,
                "bootstrap_servers": cluster.bootstrap,
                "library": library,
                "program": programs.command(library, here()),
                **changed,
            },
        )

    return start


def wait_until_acked(producer, more: int) -> None:
    """Until so many more are acknowledged."""
    least = producer.figures()["acked"] + more

    def reached() -> bool:
        assert producer.process.poll() is None, producer.log()
        return producer.figures()["acked"] >= least

    wait_until(reached, PATIENCE_S, f"{more} more acks")


def outcomes(directory: Path, cell: str | None = None) -> dict[int, dict]:
    """Return the outcome of each record of a cell; of the only one, if it is not named."""
    rows = defaultdict(list)
    for row in read(directory, "sends").to_pylist():
        if cell in (None, row["cell"]):
            rows[row["sequence"]].append(row)
    assert all(len(events) == 2 for events in rows.values())
    return {number: outcome for number, (_, outcome) in rows.items()}


def test_there_is_one_of_each_library() -> None:
    assert {LIBRDKAFKA, "aiokafka", *(one.values[0] for one in BUILT)} == set(LIBRARIES)


@pytest.mark.parametrize("library", ["aiokafka", *BUILT])
@pytest.mark.parametrize(
    ("acks", "idempotent"),
    [
        ("0", False),
        pytest.param("1", False, marks=pytest.mark.long),
        pytest.param("all", False, marks=pytest.mark.long),
        ("all", True),
    ],
)
def test_acknowledged_records_of_a_library_are_in_the_log(
    produce, cluster: Cluster, library: str, acks: str, idempotent: bool
) -> None:
    topic = f"{library}-{acks}-{idempotent}"
    producer = produce(
        library, topic, acks=acks, producer_config={"enable.idempotence": idempotent}
    )
    wait_until_acked(producer, 300)
    assert producer.terminate() == 0, producer.log()
    recorded = outcomes(producer.history)
    assert Counter(row["type"] for row in recorded.values()).keys() == {"ok"}
    encode = Encoder(topic, 0, 100).encode
    logs = [read_all(cluster, topic, partition) for partition in range(PARTITIONS)]
    for number, row in recorded.items():
        if acks == "0":
            assert row["offset"] is None
        else:
            assert logs[row["partition"]][row["offset"]] == encode(number)
    if acks != "0":
        assert sum(map(len, logs)) == len(recorded)


@pytest.mark.parametrize("library", ["aiokafka", *BUILT])
@pytest.mark.parametrize("partitioner", [pytest.param(None, marks=pytest.mark.long), "murmur2"])
def test_library_sends_keys_and_tombstones(
    produce, cluster: Cluster, library: str, partitioner: str | None
) -> None:
    topic = f"{library}-keys-{partitioner}"
    config = {} if partitioner is None else {"partitioner": partitioner}
    producer = produce(library, topic, keys=12, tombstones=0.3, seed=7, producer_config=config)
    wait_until_acked(producer, 300)
    assert producer.terminate() == 0, producer.log()
    keys = Keys(12, PARTITIONS, partitioner)
    encode, identify = Encoder(topic, 0, 100).encode, tombstones_of(topic, 0).encode
    logs = [read_messages(cluster, topic, partition) for partition in range(PARTITIONS)]
    deletes = np.random.default_rng([7, 0]).random(sum(map(len, logs))) < 0.3
    recorded = outcomes(producer.history)
    assert len(recorded) == len(deletes)
    for number, row in recorded.items():
        assert row["type"] == "ok"
        assert row["partition"] == keys.partitions[number % 12]
        message = logs[row["partition"]][row["offset"]]
        assert message.key() == keys.text(number % 12)
        found = message.value(), message.headers()
        tombstone = None, [(TOMBSTONE_HEADER, identify(number))]
        assert found == (tombstone if deletes[number] else (encode(number), None))


@pytest.mark.parametrize("library", ["aiokafka", *BUILT])
def test_shared_producer_of_a_library_sends_to_the_topic_of_each_cell(
    produce, cluster: Cluster, library: str
) -> None:
    partitions = {f"{library}-shared": PARTITIONS, f"{library}-too": 1}
    topic, too = partitions
    create_topic(cluster, too, 1)
    producer = produce(
        library, topic, further=[{"cell": too, "topic": too, "partitions": partitions[too]}]
    )
    wait_until_acked(producer, 200)
    assert producer.terminate() == 0, producer.log()
    for cell, many in partitions.items():
        recorded = outcomes(producer.history, cell)
        encode = Encoder(cell, 0, 100).encode
        logs = [read_all(cluster, cell, partition) for partition in range(many)]
        assert sum(map(len, logs)) == len(recorded) > 0
        for number, row in recorded.items():
            assert logs[row["partition"]][row["offset"]] == encode(number)


@pytest.mark.long
@pytest.mark.libraries
@pytest.mark.parametrize("library", ["java:2.4.1", "java:3.9.1"])
def test_java_client_of_another_release_is_built_and_sends(
    produce, cluster: Cluster, library: str
) -> None:
    builds.build(library)
    topic = library.replace(":", "-")
    producer = produce("java", topic, program=programs.command(library, here()))
    wait_until_acked(producer, 100)
    assert producer.terminate() == 0, producer.log()
    there = sum(len(read_all(cluster, topic, partition)) for partition in range(PARTITIONS))
    assert there == len(outcomes(producer.history))


@pytest.mark.parametrize("library", ["aiokafka", *BUILT])
def test_a_library_goes_on_with_the_next_leader(produce, cluster: Cluster, library: str) -> None:
    """Idempotent: what is sent again, since its answer was lost with the leader, is there once."""
    topic = f"{library}-killed"
    producer = produce(library, topic, producer_config={"enable.idempotence": True})
    wait_until_acked(producer, 100)
    killed = cluster.brokers[cluster.leader(topic, 1)]
    killed.kill()
    wait_until(lambda: cluster.leader(topic, 1) not in (-1, killed.id), PATIENCE_S, "a new leader")
    wait_until_acked(producer, 600)
    killed.start()
    cluster.wait_until_complete()
    assert producer.terminate() == 0, producer.log()
    recorded = outcomes(producer.history)
    encode = Encoder(topic, 0, 100).encode
    for partition in range(PARTITIONS):
        there = Counter(read_all(cluster, topic, partition))
        assert set(there.values()) == {1}
        here = [row for row in recorded.values() if row["partition"] == partition]
        acked = {encode(row["sequence"]) for row in here if row["type"] == "ok"}
        assert acked <= there.keys() <= {encode(row["sequence"]) for row in here}
    assert {row["type"] for row in recorded.values()} <= {"ok", "info"}


@pytest.mark.parametrize("library", ["aiokafka", *BUILT])
def test_unsupported_property_is_reported_at_once(produce, library: str) -> None:
    producer = produce(library, f"{library}-strange", producer_config={"no.such.property": 1})
    assert producer.wait() == 1
    assert "cannot go on: " in producer.log()
    assert "no.such.property" in producer.log()
