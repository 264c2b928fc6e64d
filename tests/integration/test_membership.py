"""Brokers come, go, come back without their disks; ZooKeeper does the same."""

import contextlib
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from kazoo.client import KazooClient
from kio.schema.errors import ErrorCode

from tests.support.clients.admin import (
    create_assigned,
    delete_topic,
    order,
    read,
    reassign,
    reassignments,
    zookeeper,
)
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.clusters.bundled import PATIENT, Broker, Cluster, running_cluster, until

pytestmark = pytest.mark.integration


def values(prefix: str, count: int = 100) -> list[bytes]:
    return [f"{prefix}-{n}".encode() for n in range(count)]


def send(cluster: Cluster, topic: str, sent: list[bytes]) -> None:
    assert [v for v, error in produce(cluster, topic, sent).items() if error is None] == sent


def partitions_on(broker: Broker) -> set[str]:
    return {path.name for path in broker.logs.iterdir() if path.is_dir()}


# --- brokers --------------------------------------------------------------------------------


# In tests/backends, brokers that join fill an empty disk, too.
@pytest.mark.long
def test_a_broker_with_an_empty_disk_gets_everything_again(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        create_topic(cluster, "t", partitions=2, config={"min.insync.replicas": "2"})
        send(cluster, "t", values("before"))
        emptied = cluster.brokers[cluster.leader("t")]
        emptied.kill()
        shutil.rmtree(emptied.logs)
        until("another leads", lambda: cluster.leader("t") not in (-1, emptied.id))
        send(cluster, "t", values("meanwhile"))
        emptied.start()
        until("it is in sync", lambda: all(cluster.isr("t", p) == {1, 2, 3} for p in (0, 1)))
        for other in {1, 2, 3} - {emptied.id}:
            cluster.brokers[other].kill()
        until("it leads alone", lambda: cluster.leader("t") == emptied.id)
        assert read_all(cluster, "t") == values("before") + values("meanwhile")


def test_a_broker_that_returns_at_another_address_is_found_there(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        create_assigned(cluster, "t", [2, 1, 3], min_insync_replicas="3")
        send(cluster, "t", values("before"))
        moves = cluster.brokers[2]
        moves.signal(signal.SIGTERM)
        moves.wait()
        moves.move()
        moves.start()
        cluster.wait_until_complete()
        until("all are in sync", lambda: cluster.isr("t") == {1, 2, 3})
        prefer = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
        order(cluster, "/admin/preferred_replica_election", prefer)
        until("it leads", lambda: cluster.leader("t") == 2)
        send(cluster, "t", values("after"))
        assert read_all(cluster, "t") == values("before") + values("after")
        for broker in cluster.brokers.values():
            assert cluster.metadata(broker).brokers[2].port == moves.port


# The case a_broker_joins_and_leaves of tests/backends adds a broker to a cluster and moves
# partitions.
@pytest.mark.long
def test_a_broker_added_later_gets_nothing_until_it_is_asked(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=2) as cluster:
        create_topic(cluster, "old", partitions=2, replication_factor=2)
        send(cluster, "old", values("old"))
        added = cluster.add(3)
        added.start()
        cluster.wait_until_complete()
        create_assigned(cluster, "elsewhere", [1, 2])
        assert partitions_on(added) == set()
        create_topic(cluster, "new")
        until("it has its replica", lambda: partitions_on(added) == {"new-0"})
        assert reassign(cluster, "old", {0: [3, 1]}) == {0: ErrorCode.none}
        until("it has moved", lambda: cluster.isr("old") == {1, 3} and not reassignments(cluster))
        assert read_all(cluster, "old") == values("old")


# tests/controller cancel moves without a cluster; test_topics.py moves replicas of a real one.
@pytest.mark.long
def test_a_move_waits_for_its_target_and_can_be_taken_back(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=4, overrides=PATIENT) as cluster:
        # No fault moves a replica to a broker that is given up, and to stop the controller gives it
        # up: the stopped target is another one, and keeps its session.
        controller = cluster.controller()
        stopped, *others = (b.id for b in cluster.brokers.values() if b is not controller)
        home, target = [controller.id, others[0]], [others[1], stopped]
        create_assigned(cluster, "t", home)
        send(cluster, "t", values("before"))
        cluster.brokers[stopped].pause()
        assert reassign(cluster, "t", {0: target}) == {0: ErrorCode.none}
        until("the other target is in sync", lambda: others[1] in cluster.isr("t"))
        move = reassignments(cluster)["t", 0]
        assert set(move.adding_replicas) == set(target)
        assert set(move.removing_replicas) == set(home)
        assert read(cluster, "/brokers/topics/t")["adding_replicas"] == {"0": target}
        assert cluster.leader("t") in home, "without the stopped one nothing is removed"
        send(cluster, "t", values("meanwhile"))

        assert reassign(cluster, "t", {0: None}) == {0: ErrorCode.none}
        until(
            "it is as it was", lambda: cluster.isr("t") == set(home) and not reassignments(cluster)
        )
        cluster.brokers[stopped].resume()
        for broker in target:
            until(
                f"{broker} has nothing left",
                lambda broker=broker: partitions_on(cluster.brokers[broker]) == set(),
            )
        assert read_all(cluster, "t") == values("before") + values("meanwhile")


# test_failover.py has a paused leader, and the simulation paused controllers.
@pytest.mark.long
def test_a_controller_that_stands_still_is_replaced_and_finds_out(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        create_topic(cluster, "t")
        stopped = cluster.controller()
        stopped.pause()
        assert reassignments(cluster) == {}, "another one answers"
        successor = cluster.controller()
        assert successor is not stopped
        stopped.resume()
        cluster.wait_until_complete()  # it has to register again
        assert cluster.controller() is successor
        create_topic(cluster, "afterwards")


def test_a_deletion_is_finished_when_a_dead_replica_returns(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        create_topic(cluster, "t")
        dead = cluster.brokers[2]
        dead.kill()
        cluster.wait_until_complete(but=[2])
        assert delete_topic(cluster, "t") is None
        with zookeeper(cluster) as client:
            for broker in (1, 3):
                until(
                    f"{broker} has deleted it",
                    lambda broker=broker: partitions_on(cluster.brokers[broker]) == set(),
                )
            assert client.exists("/admin/delete_topics/t")
            assert client.exists("/brokers/topics/t")
            assert partitions_on(dead) == {"t-0"}
            dead.start()
            until("the topic is gone", lambda: client.exists("/brokers/topics/t") is None)
            until("so is the order", lambda: client.exists("/admin/delete_topics/t") is None)
        until("the log is gone", lambda: partitions_on(dead) == set())


def test_topics_stay_where_deletion_is_switched_off(tmp_path: Path) -> None:
    overrides = {"delete.topic.enable": "false"}
    with running_cluster(tmp_path, brokers=1, overrides=overrides) as cluster:
        create_topic(cluster, "t", replication_factor=1)
        refusals = {KafkaError.TOPIC_DELETION_DISABLED, KafkaError.INVALID_REQUEST}
        assert delete_topic(cluster, "t") in refusals
        order(cluster, "/admin/delete_topics/t")
        assert cluster.leader("t") == 1


# --- ZooKeeper ------------------------------------------------------------------------------


def test_brokers_wait_for_a_zookeeper_that_comes_later(tmp_path: Path) -> None:
    def brokers_first(cluster: Cluster) -> None:
        for broker in cluster.brokers.values():
            broker.start()
        until(
            "the brokers look for ZooKeeper",
            lambda: all(
                broker.log.exists() and "connecting to ZooKeeper" in broker.log.read_text()
                for broker in cluster.brokers.values()
            ),
        )
        cluster.zookeeper.start()
        cluster.wait_until_complete()

    overrides = {"zookeeper.connection.timeout.ms": "60000"}
    with running_cluster(
        tmp_path, 2, overrides, start=brokers_first, own_zookeeper=True
    ) as cluster:
        create_topic(cluster, "t", replication_factor=2)
        send(cluster, "t", values("late"))


@contextlib.contextmanager
def paused(*brokers: Broker) -> Iterator[None]:
    for broker in brokers:
        broker.pause()
    try:
        yield
    finally:
        for broker in brokers:
            broker.resume()


def czxids(client: KazooClient, *paths: str) -> list[int]:
    return [client.get(path)[1].czxid for path in paths]


def test_an_outage_shorter_than_the_session_timeout_changes_nothing(tmp_path: Path) -> None:
    with running_cluster(tmp_path, overrides=PATIENT, own_zookeeper=True) as cluster:
        create_topic(cluster, "t")
        nodes = ["/controller", *(f"/brokers/ids/{b}" for b in (1, 2, 3))]
        with zookeeper(cluster) as client:
            before = czxids(client, *nodes)
        cluster.zookeeper.kill()
        send(cluster, "t", values("during"))
        with paused(*cluster.brokers.values()):  # or they would connect before it serves
            cluster.zookeeper.start()
        with zookeeper(cluster) as client:
            assert czxids(client, *nodes) == before, "all sessions have survived"
        create_topic(cluster, "afterwards")
        send(cluster, "t", values("after"))
        until("all are in sync", lambda: cluster.isr("t") == {1, 2, 3})


# tests/controller/test_zk.py has a hung ZooKeeper, and test_failover.py an outage of it.
@pytest.mark.long
def test_hung_zookeeper_that_resumes_in_time_expires_no_session(tmp_path: Path) -> None:
    with running_cluster(tmp_path, overrides=PATIENT, own_zookeeper=True) as cluster:
        create_topic(cluster, "t")
        with zookeeper(cluster) as client:
            before = czxids(client, "/controller")
        cluster.zookeeper.pause()
        send(cluster, "t", values("during"))
        cluster.zookeeper.resume()
        create_topic(cluster, "afterwards")
        with zookeeper(cluster) as client:
            assert czxids(client, "/controller") == before


def test_a_broker_registers_again_before_it_contests_the_controllership(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=1) as cluster:
        create_topic(cluster, "t", replication_factor=1)
        (broker,) = cluster.brokers.values()
        with zookeeper(cluster) as client:
            ((old,),) = [czxids(client, "/controller")]
            broker.pause()
            until("its session is over", lambda: client.exists("/brokers/ids/1") is None)
            broker.resume()
            until("it is controller again", lambda: _is_newer(client, old))
            registered, elected = czxids(client, "/brokers/ids/1", "/controller")
        assert registered < elected
        until("it serves", lambda: cluster.leader("t") == 1)
        send(cluster, "t", values("after"))


def _is_newer(client: KazooClient, czxid: int) -> bool:
    stat = client.exists("/controller")
    return stat is not None and stat.czxid > czxid
