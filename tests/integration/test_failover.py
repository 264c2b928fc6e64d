"""Records that survive failures of brokers and ZooKeeper."""

import signal
import time
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.clients.admin import create_assigned
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.clusters.bundled import (
    PATIENT,
    SESSION_TIMEOUT_MS,
    TIMEOUT_S,
    Cluster,
    running_cluster,
    until,
)

SEGMENT = "00000000000000000000.log"

pytestmark = pytest.mark.integration


def values(prefix: str, count: int = 300) -> list[bytes]:
    return [f"{prefix}-{n}".encode() for n in range(count)]


def acked(outcomes: dict[bytes, KafkaError | None]) -> set[bytes]:
    return {value for value, error in outcomes.items() if error is None}


def test_a_killed_leader_is_replaced_and_comes_back_as_follower(
    cluster: Cluster, topic: str
) -> None:
    create_topic(cluster, topic, config={"min.insync.replicas": "2"})
    before = acked(produce(cluster, topic, values("before")))
    killed = cluster.leader(topic)
    cluster.brokers[killed].kill()

    until("another broker leads", lambda: cluster.leader(topic) not in (-1, killed))
    until("the dead one left the ISR", lambda: killed not in cluster.isr(topic))
    after = acked(produce(cluster, topic, values("after")))
    assert len(before) == len(after) == 300

    cluster.brokers[killed].start()
    until("it is back in the ISR", lambda: cluster.isr(topic) == {1, 2, 3})
    for other in {1, 2, 3} - {killed}:
        cluster.brokers[other].kill()
    until("it leads alone", lambda: cluster.leader(topic) == killed)
    assert before | after <= set(read_all(cluster, topic))


def test_records_of_the_dead_leader_alone_are_truncated(tmp_path: Path) -> None:
    leads_first = {1: {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS)}}
    with running_cluster(tmp_path, overrides=PATIENT, own=leads_first) as cluster:
        create_assigned(cluster, "t", [1, 2, 3])
        before = acked(produce(cluster, "t", values("before")))
        leader, *followers = cluster.brokers.values()
        assert cluster.leader("t") == leader.id
        for follower in followers:
            follower.pause()
        # The first records answer fetches that wait at the leader: they are in the followers'
        # sockets, and will be replicated after the leader's death.
        sent = acked(produce(cluster, "t", [b"into the sockets"], acks="1"))
        alone = acked(produce(cluster, "t", values("alone", 20), acks="1"))
        leader.kill()
        for follower in followers:
            follower.resume()
        until("another broker leads", lambda: cluster.leader("t") not in (-1, leader.id))
        after = acked(produce(cluster, "t", values("after")))

        leader.start()
        until("it is back in the ISR", lambda: cluster.isr("t") == {1, 2, 3})
        assert len(alone) == 20
        assert before | after <= set(read_all(cluster, "t")) <= before | after | sent
        logs = {(broker.logs / "t-0" / SEGMENT).read_bytes() for broker in cluster.brokers.values()}
        assert len(logs) == 1, "replicas in sync hold the same bytes"


def test_a_broker_that_cannot_write_halts_and_recovers(tmp_path: Path) -> None:
    with running_cluster(tmp_path, brokers=1) as cluster:
        create_topic(cluster, "t", replication_factor=1)
        (broker,) = cluster.brokers.values()
        broker.limit_file_size(200_000)
        kept: list[bytes] = []
        config = {"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1, "log_level": 0}
        producer = Producer(config)
        for n in range(250):
            producer.produce("t", bytes([n]) * 1000, on_delivery=partial(note_if_acked, kept))
        until("it has halted", lambda: producer.poll(0) >= 0 and not broker.running)
        assert broker.wait() == 1
        producer.purge()
        assert producer.flush(TIMEOUT_S) == 0
        assert 150 < len(kept) < 200

        broker.start()
        until("it leads again", lambda: cluster.leader("t") == broker.id)
        assert set(kept) <= set(read_all(cluster, "t"))


def note_if_acked(kept: list[bytes], error: KafkaError | None, message: Message) -> None:
    if error is None:
        kept.append(message.value())


# The case processes_end_and_come_back of tests/backends kills all brokers of a cluster, too.
@pytest.mark.long
def test_nothing_acked_is_lost_when_all_brokers_are_killed(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, partitions=2)
    sent = {p: acked(produce(cluster, topic, values(f"{p}", 1000), p)) for p in (0, 1)}
    for broker in cluster.brokers.values():
        broker.kill()
    for broker in cluster.brokers.values():
        broker.start()
    until(
        "everything is led and in sync",
        lambda: all(
            cluster.leader(topic, p) > 0 and len(cluster.isr(topic, p)) == 3 for p in (0, 1)
        ),
    )
    for partition, expected in sent.items():
        assert len(expected) == 1000
        assert expected == set(read_all(cluster, topic, partition))


# A paused leader, below, leaves the ISR and comes back the same way.
@pytest.mark.long
def test_a_paused_follower_leaves_the_isr_and_comes_back(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic)
    leader = cluster.leader(topic)
    paused = cluster.brokers[min({1, 2, 3} - {leader})]
    paused.pause()
    try:
        before = acked(produce(cluster, topic, values("while paused"), acks="1"))
        until(
            "it left the ISR",
            lambda: cluster.isr(topic) == {1, 2, 3} - {paused.id},
        )
    finally:
        paused.resume()
    until("it is back in the ISR", lambda: cluster.isr(topic) == {1, 2, 3})
    assert before == set(read_all(cluster, topic))


def test_a_paused_leader_loses_its_lead_and_follows_when_it_wakes(
    cluster: Cluster, topic: str
) -> None:
    create_topic(cluster, topic, config={"min.insync.replicas": "2"})
    paused = cluster.brokers[cluster.leader(topic)]
    before = acked(produce(cluster, topic, values("before")))
    paused.pause()
    try:
        until("another broker leads", lambda: cluster.leader(topic) not in (-1, paused.id))
        after = acked(produce(cluster, topic, values("after")))
    finally:
        paused.resume()
    until("it is back in the ISR", lambda: cluster.isr(topic) == {1, 2, 3})
    assert len(after) == 300
    assert before | after <= set(read_all(cluster, topic))


def test_leaderships_are_handed_over_before_a_broker_stops(cluster: Cluster, topic: str) -> None:
    create_topic(cluster, topic, partitions=3)
    stopped = cluster.brokers[cluster.leader(topic, 0)]
    stopped.signal(signal.SIGTERM)
    assert stopped.wait() == 0
    assert "Controlled shutdown: none, still led: []" in stopped.log.read_text()
    for partition in range(3):
        until(
            f"another broker leads {partition}",
            lambda partition=partition: cluster.leader(topic, partition) not in (-1, stopped.id),
        )
    assert len(acked(produce(cluster, topic, values("after")))) == 300

    stopped.start()
    until("it is back", lambda: all(len(cluster.isr(topic, p)) == 3 for p in range(3)))


def test_the_cluster_serves_through_and_after_a_zookeeper_outage(tmp_path: Path) -> None:
    slow_to_give_up = {"replica.lag.time.max.ms": PATIENT["replica.lag.time.max.ms"]}
    with running_cluster(tmp_path, overrides=slow_to_give_up, own_zookeeper=True) as cluster:
        create_topic(cluster, "t")
        cluster.zookeeper.pause()
        try:
            noticed = time.monotonic() + 2 * SESSION_TIMEOUT_MS / 1000
            during = acked(produce(cluster, "t", values("during"), acks="all"))
            until("the sessions' time is over", lambda: time.monotonic() > noticed)
            during |= acked(produce(cluster, "t", values("later"), acks="all"))
            assert len(during) == 600  # no broker needs ZooKeeper as long as the ISR stands
        finally:
            cluster.zookeeper.resume()
        until("a topic can be created again", lambda: _creates(cluster, "afterwards"))
        until("it is in sync", lambda: cluster.isr("afterwards") == {1, 2, 3})
        until("the old topic is in sync", lambda: cluster.isr("t") == {1, 2, 3})
        after = acked(produce(cluster, "t", values("after")))
        assert len(after) == 300
        assert during | after == set(read_all(cluster, "t"))


def _creates(cluster: Cluster, topic: str) -> bool:
    try:
        create_topic(cluster, topic)
    except KafkaException:  # e.g. too few brokers are registered yet
        return False
    return True
