"""Topics come, grow, move and go, at the word of an administrator."""

import json

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic
from kio.schema.errors import ErrorCode

from tests.support.clients.admin import (
    add_partitions,
    create_assigned,
    delete_topic,
    error_of,
    order,
    read,
    reassign,
    reassignments,
    zookeeper,
)
from tests.support.clients.confluent import create_topic, produce, read_all, wait_until_led
from tests.support.clusters.bundled import PATIENT, Cluster, running_cluster, until

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three brokers in racks ``a``, ``a`` and ``b``."""
    racks = {1: {"broker.rack": "a"}, 2: {"broker.rack": "a"}, 3: {"broker.rack": "b"}}
    with running_cluster(tmp_path_factory.mktemp("topics"), 3, PATIENT, racks) as cluster:
        yield cluster


def replicas(cluster: Cluster, topic: str, partition: int = 0) -> list[int]:
    return list(cluster.topic(topic).partitions[partition].replicas)


# --- creation -------------------------------------------------------------------------------


def test_validation_only_request_creates_no_topic(cluster: Cluster) -> None:
    def validated(replication_factor: int) -> int | None:
        new = NewTopic("v", 1, replication_factor)
        return error_of(cluster, lambda admin: admin.create_topics([new], validate_only=True)["v"])

    assert validated(3) is None
    assert validated(9) == KafkaError.INVALID_REPLICATION_FACTOR
    assert cluster.topic("v") is None
    assert read(cluster, "/brokers/topics/v") is None


def test_replicas_follow_the_requested_assignment(cluster: Cluster) -> None:
    create_assigned(cluster, "told", [2, 1], [3, 2])
    assert [cluster.leader("told", p) for p in (0, 1)] == [2, 3]
    assert [replicas(cluster, "told", p) for p in (0, 1)] == [[2, 1], [3, 2]]


def test_replicas_are_spread_over_racks(cluster: Cluster) -> None:
    create_topic(cluster, "racked", partitions=6, replication_factor=2)
    racks = {1: "a", 2: "a", 3: "b"}
    for partition in range(6):
        assert {racks[b] for b in replicas(cluster, "racked", partition)} == {"a", "b"}


# --- growth ---------------------------------------------------------------------------------


def test_a_topic_gets_more_partitions(cluster: Cluster) -> None:
    create_topic(cluster, "grows", partitions=1)
    assert produce(cluster, "grows", [b"old"])[b"old"] is None
    assert add_partitions(cluster, "grows", 3, validate_only=True) is None
    assert len(cluster.topic("grows").partitions) == 1
    assert add_partitions(cluster, "grows", 3) is None
    assert add_partitions(cluster, "grows", 4, [[3, 1, 2]]) is None
    until("all are led", lambda: all(cluster.leader("grows", p) > 0 for p in range(4)))
    wait_until_led(cluster, "grows", 4)
    assert replicas(cluster, "grows", 3) == [3, 1, 2]
    assert len({replicas(cluster, "grows", p)[0] for p in range(3)}) == 3
    assert produce(cluster, "grows", [b"new"], partition=2)[b"new"] is None
    assert read_all(cluster, "grows", 0) == [b"old"]


@pytest.mark.parametrize(
    ("topic", "count", "assignment", "code"),
    [
        ("no-such", 2, None, KafkaError.UNKNOWN_TOPIC_OR_PART),
        ("stays", 2, None, KafkaError.INVALID_PARTITIONS),
        ("stays", 1, None, KafkaError.INVALID_PARTITIONS),
        ("stays", 3, [[1, 9]], KafkaError.INVALID_REPLICA_ASSIGNMENT),
        ("stays", 3, [[1]], KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_impossible_growth_is_refused(cluster: Cluster, topic, count, assignment, code) -> None:
    if cluster.topic("stays") is None:
        create_topic(cluster, "stays", partitions=2, replication_factor=2)
    assert add_partitions(cluster, topic, count, assignment) == code
    assert len(cluster.topic("stays").partitions) == 2


# --- deletion -------------------------------------------------------------------------------


def test_a_deleted_topic_leaves_nothing_behind_and_its_name_is_free(cluster: Cluster) -> None:
    create_topic(cluster, "gone", partitions=2, config={"retention.ms": "1000000"})
    produce(cluster, "gone", [b"old"])
    assert delete_topic(cluster, "gone") is None
    with zookeeper(cluster) as client:
        for path in ("/brokers/topics/gone", "/config/topics/gone", "/admin/delete_topics/gone"):
            until(f"{path} is gone", lambda path=path: client.exists(path) is None)
    for broker in cluster.brokers.values():
        assert not list(broker.logs.glob("gone-*"))
    assert delete_topic(cluster, "gone") == KafkaError.UNKNOWN_TOPIC_OR_PART
    create_topic(cluster, "gone")
    assert read_all(cluster, "gone") == []


def test_topics_are_deleted_by_a_list_in_zookeeper(cluster: Cluster) -> None:
    """Test "/admin/delete_topics" as *HA design* prints it; an unknown name is skipped."""
    for topic in ("listed-1", "listed-2"):
        create_topic(cluster, topic)
    with zookeeper(cluster) as client:
        wanted = {"version": 1, "topics": ["listed-1", "no-such", "listed-2"]}
        client.set("/admin/delete_topics", json.dumps(wanted).encode())
        until(
            "they are gone",
            lambda: not {"listed-1", "listed-2"} & set(client.get_children("/brokers/topics")),
        )
        until("nothing is ordered", lambda: client.get_children("/admin/delete_topics") == [])
        assert client.get("/admin/delete_topics")[0] == b""


# --- reassignment ---------------------------------------------------------------------------


def test_replicas_move(cluster: Cluster) -> None:
    create_assigned(cluster, "moves", [1, 2], min_insync_replicas="2")
    values = [f"{n}".encode() for n in range(300)]
    assert all(error is None for error in produce(cluster, "moves", values).values())
    assert reassign(cluster, "moves", {0: [3, 2]}) == {0: ErrorCode.none}
    until("3 leads", lambda: cluster.leader("moves") == 3)
    until("it ended", lambda: reassignments(cluster) == {})
    until("metadata shows it", lambda: replicas(cluster, "moves") == [3, 2])
    assert read(cluster, "/brokers/topics/moves")["partitions"] == {"0": [3, 2]}
    until("1 has nothing left", lambda: not list(cluster.brokers[1].logs.glob("moves-*")))
    assert read_all(cluster, "moves") == values


def test_replicas_move_by_znode(cluster: Cluster) -> None:
    create_assigned(cluster, "ordered", [1, 2])
    target = {"topic": "ordered", "partition": 0, "replicas": [2, 3]}
    order(cluster, "/admin/reassign_partitions", {"version": 1, "partitions": [target]})
    assert read(cluster, "/brokers/topics/ordered")["partitions"] == {"0": [2, 3]}
    until("it is in sync", lambda: cluster.isr("ordered") == {2, 3})


@pytest.mark.parametrize(
    ("partition", "target", "error"),
    [
        (0, [1, 9], ErrorCode.invalid_replica_assignment),
        (0, [], ErrorCode.invalid_replica_assignment),
        (7, [1], ErrorCode.unknown_topic_or_partition),
        (0, None, ErrorCode.no_reassignment_in_progress),
    ],
)
def test_impossible_moves_are_refused(cluster: Cluster, partition, target, error) -> None:
    if cluster.topic("immobile") is None:
        create_topic(cluster, "immobile", replication_factor=2)
    assert reassign(cluster, "immobile", {partition: target}) == {partition: error}
