"""Who leads when nobody should, and how leaderships go back to where they belong."""

from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaError
from kafka_admin import TOPIC, create_assigned, elect, order, set_configs, set_defaults
from kafka_clients import produce, read_all
from kafka_cluster import Broker, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

UNCLEAN = "unclean.leader.election.enable"
QUIET = {"auto.leader.rebalance.enable": "false"}


@pytest.fixture
def cluster(tmp_path: Path):
    """Leaderships move only when they must, or when somebody says so."""
    with running_cluster(tmp_path, overrides=QUIET) as cluster:
        yield cluster


def sent(cluster: Cluster, value: bytes, **config: object) -> bool:
    (error,) = produce(cluster, "t", [value], message_timeout_ms=3000, **config).values()
    return error is None


def kill(cluster: Cluster, broker: int) -> None:
    """Kills a broker, and waits until the others know."""
    cluster.brokers[broker].kill()
    until(
        f"{broker} is known to be dead",
        lambda: all(broker not in cluster.metadata(b).brokers for b in running(cluster)),
    )


def running(cluster: Cluster) -> list[Broker]:
    return [broker for broker in cluster.brokers.values() if broker.running]


def leads(cluster: Cluster, broker: int) -> bool:
    return cluster.leader("t") == broker


def one_after_the_other(cluster: Cluster, **config: str) -> None:
    """``t`` on 1 and 2; 2 dies, then 1, which alone has the second record. 3 stays."""
    create_assigned(cluster, "t", [1, 2], **config)
    assert sent(cluster, b"both")
    kill(cluster, 2)
    until("1 is alone", lambda: cluster.isr("t") == {1})
    assert sent(cluster, b"only 1", acks="1")
    kill(cluster, 1)
    until("nobody leads", lambda: leads(cluster, -1))


# --- unclean elections ----------------------------------------------------------------------


def test_without_unclean_elections_a_partition_waits_for_its_isr(cluster: Cluster) -> None:
    one_after_the_other(cluster)
    cluster.brokers[2].start()
    cluster.wait_until_complete(but=[1])
    assert leads(cluster, -1), "2 is not in the ISR"
    cluster.brokers[1].start()
    until("1 leads, 2 follows", lambda: leads(cluster, 1) and cluster.isr("t") == {1, 2})
    assert read_all(cluster, "t") == [b"both", b"only 1"]


def test_unclean_elections_switched_on_for_a_topic_elect_at_once(cluster: Cluster) -> None:
    one_after_the_other(cluster)
    cluster.brokers[2].start()
    cluster.wait_until_complete(but=[1])
    assert leads(cluster, -1)
    assert set_configs(cluster, TOPIC, "t", {UNCLEAN: "true"}) is None
    until("2 leads", lambda: leads(cluster, 2))
    assert read_all(cluster, "t") == [b"both"], "what only 1 had is lost, as was chosen"
    assert sent(cluster, b"without 1")
    cluster.brokers[1].start()
    until("1 follows", lambda: cluster.isr("t") == {1, 2})
    assert read_all(cluster, "t") == [b"both", b"without 1"]


def test_unclean_elections_switched_on_for_all_brokers_elect_at_once(cluster: Cluster) -> None:
    one_after_the_other(cluster)
    cluster.brokers[2].start()
    cluster.wait_until_complete(but=[1])
    assert leads(cluster, -1)
    set_defaults(cluster, {UNCLEAN: "true"})
    until("2 leads", lambda: leads(cluster, 2))


def test_a_topic_with_unclean_elections_is_led_by_who_comes_first(cluster: Cluster) -> None:
    one_after_the_other(cluster, unclean_leader_election_enable="true")
    cluster.brokers[2].start()
    until("2 leads", lambda: leads(cluster, 2))
    assert read_all(cluster, "t") == [b"both"]


def test_an_unclean_election_by_request(cluster: Cluster) -> None:
    one_after_the_other(cluster)
    refused = elect(cluster, ElectionType.UNCLEAN, ("t", 0))
    assert refused == {("t", 0): KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    cluster.brokers[2].start()
    cluster.wait_until_complete(but=[1])
    assert elect(cluster, ElectionType.UNCLEAN, ("t", 0)) == {("t", 0): None}
    until("2 leads", lambda: leads(cluster, 2))
    needless = elect(cluster, ElectionType.UNCLEAN, ("t", 0))
    assert needless == {("t", 0): KafkaError.ELECTION_NOT_NEEDED}


# --- seed 004, section 3.6: AR = ISR = (1, 2), acks=-1, min.insync.replicas=2 ----------------


def test_recovery_1_one_replica_dies(cluster: Cluster) -> None:
    """Reading goes on; writing comes back with the replica, or with min.insync.replicas=1."""
    create_assigned(cluster, "t", [1, 2], min_insync_replicas="2")
    assert sent(cluster, b"first")
    kill(cluster, 1)
    until("2 leads alone", lambda: leads(cluster, 2) and cluster.isr("t") == {2})
    assert not sent(cluster, b"refused")
    assert read_all(cluster, "t") == [b"first"]
    assert set_configs(cluster, TOPIC, "t", {"min.insync.replicas": "1"}) is None
    until("writing is possible", lambda: sent(cluster, b"alone"))
    assert set_configs(cluster, TOPIC, "t", {"min.insync.replicas": "2"}) is None
    cluster.brokers[1].start()
    until("1 is back", lambda: cluster.isr("t") == {1, 2})
    assert sent(cluster, b"both")
    assert read_all(cluster, "t")[0] == b"first"
    assert read_all(cluster, "t")[-1] == b"both"


def test_recovery_2_one_dies_and_then_the_other(cluster: Cluster) -> None:
    """Only who died last may lead; without it, unclean elections give reading back, and
    min.insync.replicas=1 writing."""
    create_assigned(cluster, "t", [1, 2], min_insync_replicas="2")
    assert sent(cluster, b"first")
    kill(cluster, 1)
    until("2 leads alone", lambda: leads(cluster, 2) and cluster.isr("t") == {2})
    kill(cluster, 2)
    until("nobody leads, ISR=(2)", lambda: leads(cluster, -1) and cluster.isr("t") == {2})
    cluster.brokers[1].start()
    cluster.wait_until_complete(but=[2])
    assert leads(cluster, -1)
    assert set_configs(cluster, TOPIC, "t", {UNCLEAN: "true"}) is None
    until("1 leads", lambda: leads(cluster, 1))
    assert read_all(cluster, "t") == [b"first"]
    assert not sent(cluster, b"refused")
    assert set_configs(cluster, TOPIC, "t", {"min.insync.replicas": "1"}) is None
    until("writing is possible", lambda: sent(cluster, b"again"))


def test_recovery_3_both_die_at_once(cluster: Cluster) -> None:
    """Any of them gives reading back; writing needs both."""
    create_assigned(cluster, "t", [1, 2], min_insync_replicas="2")
    assert sent(cluster, b"first")
    for broker in cluster.brokers.values():
        broker.kill()
    cluster.brokers[3].start()  # a new controller finds both gone
    until("nobody leads, ISR=(1, 2)", lambda: leads(cluster, -1) and cluster.isr("t") == {1, 2})
    cluster.brokers[2].start()
    until("2 leads alone", lambda: leads(cluster, 2) and cluster.isr("t") == {2})
    assert read_all(cluster, "t") == [b"first"]
    assert not sent(cluster, b"refused")
    cluster.brokers[1].start()
    until("both are in sync", lambda: cluster.isr("t") == {1, 2})
    assert sent(cluster, b"both")


# --- preferred leaders ----------------------------------------------------------------------


def displaced(cluster: Cluster) -> None:
    """``t-0`` belongs to 1, but is led by 2; 1 is back in sync."""
    create_assigned(cluster, "t", [1, 2], [2, 3])
    kill(cluster, 1)
    until("2 leads", lambda: leads(cluster, 2))
    cluster.brokers[1].start()
    until("1 is in sync", lambda: cluster.isr("t") == {1, 2})
    assert leads(cluster, 2)


def test_preferred_leaders_by_request_and_by_znode(cluster: Cluster) -> None:
    displaced(cluster)
    assert elect(cluster, ElectionType.PREFERRED) == {("t", 0): None}
    until("1 leads", lambda: leads(cluster, 1))
    assert elect(cluster, ElectionType.PREFERRED, ("t", 0), ("t", 7)) == {
        ("t", 0): KafkaError.ELECTION_NOT_NEEDED,
        ("t", 7): KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
    kill(cluster, 1)
    until("2 leads", lambda: leads(cluster, 2))
    unavailable = elect(cluster, ElectionType.PREFERRED, ("t", 0))
    assert unavailable == {("t", 0): KafkaError.PREFERRED_LEADER_NOT_AVAILABLE}
    cluster.brokers[1].start()
    until("1 is in sync", lambda: cluster.isr("t") == {1, 2})
    partitions = [{"topic": "t", "partition": 0}]
    order(
        cluster,
        "/admin/preferred_replica_election",
        {"version": 1, "partitions": partitions},
    )
    until("1 leads", lambda: leads(cluster, 1))


def test_leaderships_go_back_by_themselves(tmp_path: Path) -> None:
    overrides = {"leader.imbalance.check.interval.seconds": "1"}
    with running_cluster(tmp_path, overrides=overrides) as cluster:
        create_assigned(cluster, "t", [1, 2])
        kill(cluster, 1)
        until("2 leads", lambda: leads(cluster, 2))
        cluster.brokers[1].start()
        until("1 leads again", lambda: leads(cluster, 1))
