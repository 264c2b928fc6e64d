"""What survives when brokers and ZooKeeper do not."""

import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from kafka_clients import create_topic, produce, read_all
from kafka_cluster import SESSION_TIMEOUT_MS, Broker, Cluster, running_cluster, until

SEGMENT = "00000000000000000000.log"

pytestmark = pytest.mark.integration


def values(prefix: str, count: int = 300) -> list[bytes]:
    return [f"{prefix}-{n}".encode() for n in range(count)]


def acked(outcomes: dict[bytes, KafkaError | None]) -> set[bytes]:
    return {value for value, error in outcomes.items() if error is None}


def test_a_killed_leader_is_replaced_and_comes_back_as_follower(cluster: Cluster) -> None:
    create_topic(cluster, "t", config={"min.insync.replicas": "2"})
    before = acked(produce(cluster, "t", values("before")))
    killed = cluster.leader("t")
    cluster.brokers[killed].kill()

    until("another broker leads", lambda: cluster.leader("t") not in (-1, killed))
    until("the dead one left the ISR", lambda: killed not in cluster.isr("t"))
    after = acked(produce(cluster, "t", values("after")))
    assert len(before) == len(after) == 300

    cluster.brokers[killed].start()
    until("it is back in the ISR", lambda: cluster.isr("t") == {1, 2, 3})
    for other in {1, 2, 3} - {killed}:
        cluster.brokers[other].kill()
    until("it leads alone", lambda: cluster.leader("t") == killed)
    assert before | after <= set(read_all(cluster, "t"))


def test_what_only_the_dead_leader_had_is_truncated(tmp_path: Path) -> None:
    overrides = {"zookeeper.session.timeout.ms": "6000", "replica.lag.time.max.ms": "20000"}
    with running_cluster(tmp_path, overrides=overrides) as cluster:
        create_topic(cluster, "t")
        before = acked(produce(cluster, "t", values("before")))
        leader = cluster.brokers[cluster.leader("t")]
        followers = [broker for broker in cluster.brokers.values() if broker is not leader]
        for follower in followers:
            follower.signal(signal.SIGSTOP)
        # The first records answer fetches that wait at the leader: they are in the followers'
        # sockets, and will be replicated after the leader's death.
        sent = acked(produce(cluster, "t", [b"into the sockets"], acks="1"))
        alone = acked(produce(cluster, "t", values("alone", 20), acks="1"))
        leader.kill()
        for follower in followers:
            follower.signal(signal.SIGCONT)
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
        outcomes = produce(
            cluster,
            "t",
            [bytes([n]) * 1000 for n in range(250)],
            linger_ms=0,
            batch_num_messages=1,
            message_timeout_ms=5000,
        )
        assert broker.wait() == 1
        kept = acked(outcomes)
        assert 150 < len(kept) < 200

        broker.start()
        until("it leads again", lambda: cluster.leader("t") == broker.id)
        assert kept <= set(read_all(cluster, "t"))


def test_too_few_in_sync_replicas_refuse_acks_all(cluster: Cluster) -> None:
    create_topic(cluster, "t", config={"min.insync.replicas": "2"})
    followers = {1, 2, 3} - {cluster.leader("t")}
    for follower in followers:
        cluster.brokers[follower].kill()
    until("the leader is alone in the ISR", lambda: len(cluster.isr("t")) == 1)

    refused = produce(cluster, "t", [b"all"], acks="all", message_timeout_ms=3000)
    assert not acked(refused)
    assert acked(produce(cluster, "t", [b"one"], acks="1")) == {b"one"}

    for follower in followers:
        cluster.brokers[follower].start()
    until("all are in sync again", lambda: len(cluster.isr("t")) == 3)
    assert acked(produce(cluster, "t", [b"again"])) == {b"again"}


def test_nothing_acked_is_lost_when_all_brokers_are_killed(cluster: Cluster) -> None:
    create_topic(cluster, "t", partitions=2)
    sent = {p: acked(produce(cluster, "t", values(f"{p}", 1000), p)) for p in (0, 1)}
    for broker in cluster.brokers.values():
        broker.kill()
    for broker in cluster.brokers.values():
        broker.start()
    until(
        "everything is led and in sync",
        lambda: all(cluster.leader("t", p) > 0 and len(cluster.isr("t", p)) == 3 for p in (0, 1)),
    )
    for partition, expected in sent.items():
        assert len(expected) == 1000
        assert expected == set(read_all(cluster, "t", partition))


def test_a_paused_follower_leaves_the_isr_and_comes_back(cluster: Cluster) -> None:
    create_topic(cluster, "t")
    leader = cluster.leader("t")
    paused = cluster.brokers[min({1, 2, 3} - {leader})]
    paused.signal(signal.SIGSTOP)
    try:
        before = acked(produce(cluster, "t", values("while paused"), acks="1"))
        until(
            "it left the ISR",
            lambda: cluster.isr("t") == {1, 2, 3} - {paused.id},
        )
    finally:
        paused.signal(signal.SIGCONT)
    until("it is back in the ISR", lambda: cluster.isr("t") == {1, 2, 3})
    assert before == set(read_all(cluster, "t"))


def test_a_paused_leader_loses_its_lead_and_follows_when_it_wakes(cluster: Cluster) -> None:
    create_topic(cluster, "t", config={"min.insync.replicas": "2"})
    paused = cluster.brokers[cluster.leader("t")]
    before = acked(produce(cluster, "t", values("before")))
    others = [broker for broker in cluster.brokers.values() if broker is not paused]
    paused.signal(signal.SIGSTOP)
    try:
        until(
            "another broker leads",
            lambda: all(_leader(cluster, other) not in (-1, paused.id) for other in others),
        )
        after = acked(produce(cluster, "t", values("after")))
    finally:
        paused.signal(signal.SIGCONT)
    until("it is back in the ISR", lambda: cluster.isr("t") == {1, 2, 3})
    assert len(after) == 300
    assert before | after <= set(read_all(cluster, "t"))


def _leader(cluster: Cluster, broker: Broker) -> int:
    """Who leads in the eyes of ``broker``."""
    return int(cluster.metadata(broker).topics["t"].partitions[0].leader)


def test_leaderships_are_handed_over_before_a_broker_stops(cluster: Cluster) -> None:
    create_topic(cluster, "t", partitions=3)
    stopped = cluster.brokers[cluster.leader("t", 0)]
    stopped.signal(signal.SIGTERM)
    assert stopped.wait() == 0
    assert "Controlled shutdown: none, still led: []" in stopped.log.read_text()
    for partition in range(3):
        assert cluster.leader("t", partition) != stopped.id
    assert len(acked(produce(cluster, "t", values("after")))) == 300

    stopped.start()
    until("it is back", lambda: all(len(cluster.isr("t", p)) == 3 for p in range(3)))


def test_the_cluster_serves_through_and_after_a_zookeeper_outage(cluster: Cluster) -> None:
    create_topic(cluster, "t")
    cluster.zookeeper.pause()
    try:
        noticed = time.monotonic() + 2 * SESSION_TIMEOUT_MS / 1000
        during = acked(produce(cluster, "t", values("during"), acks="all"))
        until("the sessions' time is over", lambda: time.monotonic() > noticed)
        during |= acked(produce(cluster, "t", values("later"), acks="all"))
        assert len(during) == 600  # nobody needs ZooKeeper as long as the ISR stands
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
