"""Metrics at ``metrics.listener`` of a cluster, healthy and not."""

from collections.abc import Iterator

import pytest

from tests.support.clients.confluent import create_topic, produce, read_all, refused
from tests.support.clients.metrics_page import scrape
from tests.support.clusters.bundled import Cluster, running_cluster, until

pytestmark = pytest.mark.integration

Sample = tuple[str, frozenset[tuple[str, str]]]


@pytest.fixture
def cluster(tmp_path) -> Iterator[Cluster]:
    overrides = {"metrics.listener": "http://127.0.0.1:0", "min.insync.replicas": "2"}
    with running_cluster(tmp_path, overrides=overrides) as cluster:
        yield cluster


def over_all(cluster: Cluster, name: str, **labels: str) -> float:
    return sum(scrape(broker)(name, **labels) for broker in cluster.awake)


REPLICA_MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
TOPIC = "kafka_server_brokertopicmetrics_"


def test_traffic_is_counted(cluster: Cluster) -> None:
    create_topic(cluster, "counted", partitions=3)
    values = [b"x" * 100] * 50
    for partition in range(3):
        assert set(produce(cluster, "counted", values, partition, acks="all").values()) == {None}
        assert read_all(cluster, "counted", partition) == values
    assert over_all(cluster, TOPIC + "messagesin_total", topic="counted") == 150
    stored = over_all(cluster, TOPIC + "bytesin_total", topic="counted")
    assert stored >= 150 * 100
    assert over_all(cluster, TOPIC + "bytesout_total", topic="counted") >= stored
    assert over_all(cluster, TOPIC + "replicationbytesin_total") >= 2 * stored
    assert over_all(cluster, TOPIC + "replicationbytesout_total") >= 2 * stored
    assert over_all(cluster, TOPIC + "failedproducerequests_total", topic="counted") == 0
    assert over_all(cluster, "kafka_log_log_size", topic="counted") == 3 * stored
    assert over_all(cluster, "kafka_log_log_logendoffset", topic="counted") == 3 * 150
    requests = "kafka_network_requestmetrics_"
    produced = over_all(cluster, requests + "requests_total", request="Produce")
    assert produced > 0
    assert over_all(cluster, requests + "totaltimems_count", request="Produce") == produced
    assert over_all(cluster, requests + "totaltimems_count", request="FetchConsumer") > 0
    assert over_all(cluster, requests + "totaltimems_sum", request="FetchFollower") > 0
    assert over_all(cluster, "kafka_server_socket_server_metrics_connection_count") >= 6
    assert over_all(cluster, CONTROLLER + "activecontrollercount") == 1
    # Each partition's two followers fetch in sessions, and librdkafka in none.
    sessions = "kafka_server_fetchsessioncache_numincrementalfetch"
    until(
        "four partitions are followed by two each",
        lambda: over_all(cluster, sessions + "partitionscached") == 8,
    )
    assert over_all(cluster, sessions + "sessions") <= 6
    # The readers' group.id had __consumer_offsets made, of one partition.
    until(
        "four partitions of three replicas",
        lambda: (
            over_all(cluster, CONTROLLER + "globalpartitioncount") == 4
            and over_all(cluster, REPLICA_MANAGER + "leadercount") == 4
            and over_all(cluster, REPLICA_MANAGER + "partitioncount") == 12
        ),
    )


def test_a_dead_broker_shows(cluster: Cluster) -> None:
    create_topic(cluster, "watched", partitions=3)
    for _ in range(2):
        assert over_all(cluster, REPLICA_MANAGER + "underreplicatedpartitions") == 0
    controller = cluster.controller()
    assert scrape(controller)(CONTROLLER + "activecontrollercount") == 1
    first, second = (b for b in cluster.brokers.values() if b is not controller)
    elections = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
    before = scrape(controller)(elections)
    first.kill()
    until(
        "every partition is under-replicated and led",
        lambda: (
            over_all(cluster, REPLICA_MANAGER + "underreplicatedpartitions") == 3
            and over_all(cluster, REPLICA_MANAGER + "leadercount") == 3
        ),
    )
    assert over_all(cluster, REPLICA_MANAGER + "atminisrpartitioncount") == 3
    assert over_all(cluster, CONTROLLER + "offlinepartitionscount") == 0
    assert scrape(controller)(elections) == before + 1
    second.kill()
    until(
        "acks=all is refused everywhere",
        lambda: over_all(cluster, REPLICA_MANAGER + "underminisrpartitioncount") == 3,
    )
    assert over_all(cluster, "kafka_cluster_partition_underminisr", topic="watched") == 3
    assert refused(cluster, "watched", b"x")
    assert over_all(cluster, TOPIC + "failedproducerequests_total", topic="watched") > 0
    for broker in (first, second):
        broker.start()
    until(
        "all replicas are in sync again",
        lambda: (
            all(broker.log.read_text().count("Metrics at") == 2 for broker in (first, second))
            and over_all(cluster, REPLICA_MANAGER + "underreplicatedpartitions") == 0
        ),
    )
    assert over_all(cluster, REPLICA_MANAGER + "isrexpands_total") >= 3
    cleanly = over_all(cluster, "kafka_controller_controllerstats_uncleanleaderelections_total")
    assert cleanly == 0
