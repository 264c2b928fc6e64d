"""A cluster without a controller: each partition's leader coordinates it (seed 001)."""

import json
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError
from kio.schema.create_topics.v4.request import CreatableTopic, CreateTopicsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest

from tests.support.clients.admin import (
    add_partitions,
    call,
    create_assigned,
    delete_topic,
    elect,
    reassign,
    reassignments,
    zookeeper,
)
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.clients.consumer_groups import Member, committed, members, poll_until
from tests.support.clients.metrics_page import scrape
from tests.support.clusters.bundled import PATIENT, Broker, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

LEADER = {"ackproof.coordination": "leader"}
# The simulation runs both variants; of real clusters one is enough to see that the sockets are the
# same.
VARIANTS = ("fenced", pytest.param("printed", marks=pytest.mark.long))
FENCED = pytest.mark.parametrize("shared", ["fenced"], indirect=True)
"""Where several write about a partition. As printed they undo each other's work, now and then for
good (docs/coordination.md, tests/coordination/test_printed_variant_defects.py)."""
QUIET = {"auto.leader.rebalance.enable": "false"}


def mode(variant: str) -> dict[str, str]:
    return {**LEADER, "ackproof.coordination.variant": variant}


@pytest.fixture(scope="module", params=VARIANTS)
def shared(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Cluster]:
    """For tests that leave the cluster as they found it.

    As printed, of two brokers that create a topic at once the one removes what the other has begun
    (docs/coordination.md), and clients ask several brokers for their coordinator: who asks one of
    them alone has ``__consumer_offsets`` made once.
    """
    overrides = {
        **PATIENT,
        **mode(request.param),
        "metrics.listener": "http://127.0.0.1:0",
        "group.initial.rebalance.delay.ms": "300",
    }
    with running_cluster(tmp_path_factory.mktemp("led"), overrides=overrides) as cluster:
        until("groups have a coordinator", lambda: _coordinated(cluster.brokers[1]))
        yield cluster


def _coordinated(broker: Broker) -> bool:
    answer = call(broker, FindCoordinatorRequest(key="any", key_type=0))
    return bool(answer.error_code is ErrorCode.none)


def acked(cluster: Cluster, topic: str, prefix: str, count: int = 300) -> set[bytes]:
    values = [f"{prefix}-{n}".encode() for n in range(count)]
    return {value for value, error in produce(cluster, topic, values).items() if error is None}


# --- leaders that fail --------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_killed_leader_is_replaced_and_comes_back(tmp_path: Path, variant: str) -> None:
    with running_cluster(tmp_path, overrides={**mode(variant), **QUIET}) as cluster:
        create_topic(cluster, "t", config={"min.insync.replicas": "2"})
        before = acked(cluster, "t", "before")
        killed = cluster.leader("t")
        cluster.brokers[killed].kill()
        until("another broker leads", lambda: cluster.leader("t") not in (-1, killed))
        until("the dead one left the ISR", lambda: killed not in cluster.isr("t"))
        after = acked(cluster, "t", "after")
        assert len(before) == len(after) == 300

        cluster.brokers[killed].start()
        until("it is back in the ISR", lambda: cluster.isr("t") == {1, 2, 3})
        for other in {1, 2, 3} - {killed}:
            cluster.brokers[other].kill()
        until("it leads alone", lambda: cluster.leader("t") == killed)
        assert before | after <= set(read_all(cluster, "t"))


# test_failover.py pauses a leader until its session ends; the simulation does so without a
# controller.
@pytest.mark.long
def test_leader_with_an_expired_session_continues_as_a_follower(tmp_path: Path) -> None:
    with running_cluster(tmp_path, overrides={**LEADER, **QUIET}) as cluster:
        create_topic(cluster, "t", config={"min.insync.replicas": "2"})
        before = acked(cluster, "t", "before")
        paused = cluster.leader("t")
        cluster.brokers[paused].pause()
        until("another broker leads", lambda: cluster.leader("t") not in (-1, paused))
        after = acked(cluster, "t", "after")
        cluster.brokers[paused].resume()
        until("it is back in the ISR", lambda: cluster.isr("t") == {1, 2, 3})
        cluster.wait_until_complete()
        assert len(before) == len(after) == 300
        assert before | after <= set(read_all(cluster, "t"))


def test_stopping_broker_gives_up_its_leaderships_first(tmp_path: Path) -> None:
    with running_cluster(tmp_path, overrides={**PATIENT, **LEADER, **QUIET}) as cluster:
        create_topic(cluster, "t", partitions=3)
        stopping = cluster.leader("t")
        broker = cluster.brokers[stopping]
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0
        assert "Still leading" not in broker.log.read_text()
        until(
            "others lead, long before the session would have ended",
            lambda: all(cluster.leader("t", p) not in (-1, stopping) for p in range(3)),
        )


def test_broker_outside_the_isr_leads_only_after_an_order(tmp_path: Path) -> None:
    with running_cluster(tmp_path, overrides={**LEADER, **QUIET}) as cluster:
        create_assigned(cluster, "t", [1, 2])
        cluster.brokers[2].kill()
        assert acked(cluster, "t", "alone", 1), "once 2 is given up: no leader checks before"
        until("1 is alone", lambda: cluster.isr("t") == {1})
        cluster.brokers[1].kill()
        until("no broker leads", lambda: cluster.leader("t") == -1)
        cluster.brokers[2].start()
        cluster.wait_until_complete(but=[1])
        assert cluster.leader("t") == -1, "2 is not in the ISR"
        assert elect(cluster, ElectionType.UNCLEAN, ("t", 0))["t", 0] is None
        until("2 leads", lambda: cluster.leader("t") == 2)
        assert read_all(cluster, "t") == [], "what only 1 had is lost, as was chosen"
        cluster.brokers[1].start()
        until("1 follows", lambda: cluster.isr("t") == {1, 2})


# tests/coordination elect preferred leaders without a cluster; a client asks for one in the faults
# of an administrator (tests/backends).
@pytest.mark.long
def test_preferred_leaders_by_request(tmp_path: Path) -> None:
    with running_cluster(tmp_path, overrides={**LEADER, **QUIET}) as cluster:
        create_assigned(cluster, "t", [1, 2])
        cluster.brokers[1].kill()
        until("2 leads", lambda: cluster.leader("t") == 2)
        unavailable = KafkaError.PREFERRED_LEADER_NOT_AVAILABLE
        assert elect(cluster, ElectionType.PREFERRED, ("t", 0))["t", 0] == unavailable
        cluster.brokers[1].start()
        until("1 is in sync", lambda: cluster.isr("t") == {1, 2})
        assert cluster.leader("t") == 2
        assert elect(cluster, ElectionType.PREFERRED, ("t", 0))["t", 0] is None
        until("1 leads", lambda: cluster.leader("t") == 1)
        assert (
            elect(cluster, ElectionType.PREFERRED, ("t", 0))["t", 0]
            == KafkaError.ELECTION_NOT_NEEDED
        )


# --- what administrators and groups do ------------------------------------------------------------


@FENCED
def test_a_topic_grows_moves_and_goes(shared: Cluster) -> None:
    create_assigned(shared, "t", [1, 2])
    sent = acked(shared, "t", "first")
    assert add_partitions(shared, "t", 2, [[2, 3]]) is None
    until("both are led", lambda: shared.leader("t", 0) > 0 and shared.leader("t", 1) == 2)

    assert reassign(shared, "t", {0: [3, 2]}) == {0: ErrorCode.none}
    until("metadata shows it", lambda: _replicas(shared, "t") == [3, 2])
    until("it ended", lambda: reassignments(shared) == {})
    until("3 leads", lambda: shared.leader("t") == 3)
    assert reassign(shared, "t", {0: [3, 2]}) == {0: ErrorCode.none}, "it is there already"
    assert reassignments(shared) == {}
    until("1 has nothing left", lambda: not list(shared.brokers[1].logs.glob("t-*")))
    assert sent <= set(read_all(shared, "t"))

    assert delete_topic(shared, "t") is None
    assert delete_topic(shared, "t") == KafkaError.UNKNOWN_TOPIC_OR_PART
    with zookeeper(shared) as client:
        for path in ("/brokers/topics/t", "/config/topics/t", "/brokers/partitions_reassigned/t"):
            until(f"{path} is gone", lambda path=path: client.exists(path) is None)
    for broker in shared.brokers.values():
        until("no log is left", lambda broker=broker: not list(broker.logs.glob("t-*")))
    create_topic(shared, "t")
    assert read_all(shared, "t") == []
    assert delete_topic(shared, "t") is None


def _replicas(cluster: Cluster, topic: str) -> list[int] | None:
    shown = cluster.topic(topic)
    return shown and shown.partitions[0].replicas


@FENCED
def test_of_brokers_that_are_asked_at_once_one_creates_a_topic(shared: Cluster) -> None:
    """A broker does not know another's creation from one that has failed, and would undo it."""
    topic = CreatableTopic(
        name="once", num_partitions=8, replication_factor=3, assignments=(), configs=()
    )
    request = CreateTopicsRequest(topics=(topic,))
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda broker: call(broker, request), shared.brokers.values()))
    errors = [answer.topics[0].error_code for answer in answers]
    assert ErrorCode.none in errors, errors
    until("it is led", lambda: all(shared.leader("once", p) > 0 for p in range(8)))
    assert len(acked(shared, "once", "v", 10)) == 10


def test_a_group_reads_and_commits(shared: Cluster) -> None:
    create_topic(shared, "read", partitions=2)
    sent = acked(shared, "read", "v", 20)
    with members(Member(shared, "readers", "read")) as (member,):
        poll_until("all is read", lambda: set(member.values) == sent, member)
        member.consumer.commit(asynchronous=False)
    assert committed(shared, "readers", "read") == 20


def test_lifecycle_of_a_state_change_request_can_be_followed(shared: Cluster) -> None:
    """The lifecycle of "explicit monitoring", in the document's words; and nothing is left."""
    create_assigned(shared, "followed", [2, 3])
    words = r"(\w+), broker id (\S+), (\w+) start-replica for topic followed partition 0"
    to_be_said = {
        ("leader", -1, "requested"),  # by an administrator
        *(("follower", b, s) for b in (2, 3) for s in ("received", "completed")),
    }

    def said() -> set[tuple[str, int, str]]:
        return {
            (role, int(broker), stage)
            for one in shared.brokers.values()
            for role, broker, stage in re.findall(words, one.log.read_text())
        }

    until("all stages are told of", lambda: to_be_said <= said())
    for broker in shared.brokers.values():
        until(
            "the queues are seen to be empty",
            lambda broker=broker: (
                not scrape(broker, absent=1)("kafka_server_statechangequeue_size")
            ),
        )


# --- the tree -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ours", "theirs"), [("leader", "controller"), ("controller", "leader")])
def test_the_other_kinds_tree_is_refused(tmp_path: Path, ours: str, theirs: str) -> None:
    with running_cluster(tmp_path, 1, {"ackproof.coordination": ours}) as cluster:
        stranger = cluster.add(2, {"ackproof.coordination": theirs})
        stranger.start()
        assert stranger.wait() == 1
        said = stranger.log.read_text()
        assert f"is a cluster's of ackproof.coordination={ours}" in said
        assert "Traceback" not in said


def asked(cluster: Cluster, word: bytes) -> str:
    with socket.create_connection(("127.0.0.1", cluster.zookeeper.port)) as connection:
        connection.sendall(word)
        return b"".join(iter(lambda: connection.recv(4096), b"")).decode()


def watched_below_topics(cluster: Cluster) -> int:
    """Return the number of data watches of all sessions, from ZooKeeper's own list. A list of
    children has at most one watch a broker, however many there are. A broker that waits for the
    assignment of a new partition keeps a watch on it until it changes."""
    by_path = re.findall(
        r"^(/brokers/topics/.*)\n((?:\t.*\n)+)", asked(cluster, b"wchp"), re.MULTILINE
    )
    return sum(held.count("\n") for path, held in by_path if not path.endswith("/replicas"))


def watches(cluster: Cluster) -> int:
    """All that ZooKeeper holds, of all sessions, by its own count."""
    return int(re.findall(r"zk_watch_count\t(\d+)", asked(cluster, b"mntr"))[0])


@pytest.mark.long  # figures of the design, which a change of it alone changes
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("coordination", ["controller", "leader"])
def test_watches_by_topic(tmp_path: Path, coordination: str, replicas: int) -> None:
    """Seed 001 counts 3,000 watches for 1,000 topics of 3 partitions on 3 brokers, where the design
    before it had 15,000. Here it is one on the leader of each partition, by each broker that has
    a replica: 3 a topic with one replica each, which is the document's figure, and 9 with three.
    A controller has one for each topic, however many partitions and replicas it has. What does not
    grow with topics is a handful for each broker: who carries out an order watches all queues, each
    until it changes next."""
    partitions = 3
    overrides = {**PATIENT, "ackproof.coordination": coordination}
    with running_cluster(tmp_path, overrides=overrides, own_zookeeper=True) as cluster:
        by_topic = 1 if coordination == "controller" else partitions * replicas
        for topics in range(1, 6):
            create_topic(cluster, f"t{topics}", partitions, replicas)
            until(
                f"{topics} topics are watched",
                lambda topics=topics: watched_below_topics(cluster) == topics * by_topic,
            )
        brokers = len(cluster.brokers)
        rest = watches(cluster) - topics * by_topic
        assert brokers <= rest <= brokers * (6 + brokers), rest


def test_znodes_are_the_documents(shared: Cluster) -> None:
    create_assigned(shared, "shown", [3, 1])
    with zookeeper(shared) as client:

        def stored(node: str) -> dict[str, object]:
            found: dict[str, object] = json.loads(client.get(f"/brokers/topics/shown/0/{node}")[0])
            return found

        assert sorted(client.get_children("/brokers/topics/shown/0")) == [
            "ISR",
            "leader",
            "replicas",
        ]
        assert stored("replicas")["replicas"] == [3, 1]
        until("both are in sync", lambda: set(stored("ISR")["isr"]) == {1, 3})
        led = stored("leader")
        assert (led["leader"], led["leader_epoch"]) == (3, stored("ISR")["leader_epoch"])
        assert client.exists("/brokers/topics/shown/0/leader").ephemeralOwner
        assert client.get_children("/brokers/state") == ["1", "2", "3"]
        assert client.exists("/controller") is None
