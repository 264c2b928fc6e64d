"""Counters, and a snapshot of the broker."""

import asyncio
import urllib.request
import uuid
from pathlib import Path
from random import Random

import pytest
from kio.schema.errors import ErrorCode
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ackproof.broker.config import ConfigError, HttpListener, load
from ackproof.broker.controller.cluster import (
    BrokerInfo,
    Endpoint,
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.controller.context import Context, TopicDeletion
from ackproof.broker.server import metrics
from ackproof.broker.server.app import take_snapshot
from ackproof.broker.server.metrics import MetricsEndpoint, PartitionGauges, Snapshot, TimesByLabel
from ackproof.broker.server.replication.fetch_session_cache import FetchSessionCache
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.types import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
)

B1, B2 = BrokerId(1), BrokerId(2)
NO_SESSIONS = FetchSessionCache(0, Random(1))
TOPIC = "kafka_server_brokertopicmetrics_"


def view(**changes: object) -> PartitionGauges:
    usual = PartitionGauges(
        tp=TopicPartition("t", 0),
        leads=True,
        offline=False,
        replicas=3,
        isr=3,
        min_isr=2,
        size=100,
        log_start_offset=0,
        log_end_offset=7,
        segments=1,
        waiting_producers=0,
    )
    return usual._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("isr", "leads", "under_replicated", "at_min", "under_min"),
    [
        (3, True, False, False, False),
        (2, True, True, True, False),
        (1, True, True, False, True),
        (1, False, False, False, False),
    ],
)
def test_isr_against_min_isr(
    isr: int, leads: bool, under_replicated: bool, at_min: bool, under_min: bool
) -> None:
    seen = view(isr=isr, leads=leads)
    assert seen.under_replicated is under_replicated
    assert seen.at_min_isr is at_min
    assert seen.under_min_isr is under_min


def controller() -> Context:
    """Broker 1 is live; it leads partition 0, broker 2's partition 1 has no leader."""
    context = Context(ControllerEpoch(1), waits_for_isr=False)
    info = BrokerInfo(broker_id=B1, endpoints=(Endpoint(host="h", port=1),))
    context.live = {B1: LiveBroker(info=info, epoch=1)}
    context.topics = {
        "t": TopicAssignment(
            topic_id=uuid.UUID(int=1),
            partitions={
                0: ReplicaAssignment(replicas=(B1, B2)),
                1: ReplicaAssignment(replicas=(B2, B1)),
                2: ReplicaAssignment(replicas=(B2, B1)),
            },
        )
    }
    for partition, leader in ((0, B1), (1, NO_LEADER), (2, B1)):
        context.states[TopicPartition("t", partition)] = PartitionState(
            leader=leader,
            leader_epoch=LeaderEpoch(0),
            isr=(B2,) if leader == NO_LEADER else (B1,),
            controller_epoch=ControllerEpoch(1),
            zk_version=ZkVersion(0),
        )
    return context


def test_the_controller_sees_partitions_without_a_leader() -> None:
    seen = take_snapshot((), controller(), Purgatory(), NO_SESSIONS, 0).controller
    assert seen.activecontrollercount == 1
    assert seen.offlinepartitionscount == 1
    assert seen.preferredreplicaimbalancecount == 2
    assert (seen.globaltopiccount, seen.globalpartitioncount, seen.activebrokercount) == (1, 3, 1)


def test_a_topic_that_is_being_deleted_is_not_offline() -> None:
    context = controller()
    context.deletions["t"] = TopicDeletion.STARTED
    seen = take_snapshot((), context, Purgatory(), NO_SESSIONS, 0).controller
    assert seen.offlinepartitionscount == 0
    assert seen.topicstodeletecount == 1


def test_broker_that_is_not_the_controller_reports_no_controller_metrics() -> None:
    assert (
        take_snapshot((), None, Purgatory(), NO_SESSIONS, 0).controller.activecontrollercount == 0
    )


def test_a_fetch_that_waits_is_seen() -> None:
    async def test() -> None:
        purgatory = Purgatory()
        answer = purgatory.wait([TopicPartition("t", 0)], 0, lambda _: False, lambda: None)
        assert take_snapshot((), None, purgatory, NO_SESSIONS, 0).waiting_fetches == 1
        await answer
        await asyncio.sleep(0)
        assert take_snapshot((), None, purgatory, NO_SESSIONS, 0).waiting_fetches == 0

    asyncio.run(test())


def counted(name: str, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(name, labels)


def test_failures_are_those_that_are_not_the_clients() -> None:
    topic = metrics.of_topic("failing")
    for error in (
        ErrorCode.none,
        ErrorCode.corrupt_message,
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
    ):
        topic.produced(error)
    topic.fetched(ErrorCode.offset_out_of_range, 0, by_follower=False)
    topic.fetched(ErrorCode.none, 10, by_follower=False)
    assert counted(TOPIC + "totalproducerequests_total", topic="failing") == 4
    assert counted(TOPIC + "failedproducerequests_total", topic="failing") == 1
    assert counted(TOPIC + "totalfetchrequests_total", topic="failing") == 2
    assert counted(TOPIC + "failedfetchrequests_total", topic="failing") == 0
    assert counted(TOPIC + "bytesout_total", topic="failing") == 10


def test_a_topic_that_left_is_forgotten() -> None:
    metrics.of_topic("leaving").appended(1, 100)
    metrics.of_topic("staying").appended(1, 100)
    metrics.forget_topic("leaving")
    assert counted(TOPIC + "bytesin_total", topic="leaving") is None
    metrics.of_topic("staying").appended(1, 100)
    assert counted(TOPIC + "bytesin_total", topic="staying") == 200


def test_an_election_counts_once_and_its_unclean_partitions_each() -> None:
    elections = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
    unclean = "kafka_controller_controllerstats_uncleanleaderelections_total"
    before = counted(elections), counted(unclean)
    metrics.elected([], 1.0)
    metrics.elected([True, False, False], 0.5)
    assert (counted(elections), counted(unclean)) == (before[0] + 1, before[1] + 2)


def test_metrics_page_is_valid_for_prometheus() -> None:
    snapshot = take_snapshot((), controller(), Purgatory(), NO_SESSIONS, 3)
    page = asyncio.run(read_from(snapshot))
    found = {s.name: s.value for f in text_string_to_metric_families(page) for s in f.samples}
    assert found["kafka_controller_kafkacontroller_offlinepartitionscount"] == 1
    assert found["kafka_server_socket_server_metrics_connection_count"] == 3
    assert found["process_resident_memory_bytes"] > 0


async def read_from(snapshot: Snapshot) -> str:
    endpoint = MetricsEndpoint(lambda: snapshot)
    await endpoint.start("127.0.0.1", 0)
    try:
        return await asyncio.to_thread(read, f"http://127.0.0.1:{endpoint.port}/metrics")
    finally:
        await endpoint.close()


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        text: str = response.read().decode()
        return text


def test_the_listener_is_off_unless_given(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    minimal = "broker.id=1\nzookeeper.connect=127.0.0.1:2181\n"
    path.write_text(minimal)
    assert load(path).metrics_listener is None
    path.write_text(minimal + "metrics.listener=http://0.0.0.0:9308\n")
    assert load(path).metrics_listener == HttpListener("0.0.0.0", 9308)
    path.write_text(minimal + "metrics.listener=https://0.0.0.0:9308\n")
    with pytest.raises(ConfigError, match=r"an address such as http://host:9308"):
        load(path)


def test_a_time_is_counted_in_its_bucket_and_those_above() -> None:
    registry = CollectorRegistry()
    times = TimesByLabel("waited", "Milliseconds.", ("who",), registry, (1, 2.5))
    for milliseconds in (0.5, 1, 2, 100):
        times.labels("me").observe(milliseconds)
    page = generate_latest(registry).decode()
    found = {
        sample.labels.get("le", sample.name): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert found == {"1.0": 2, "2.5": 3, "+Inf": 4, "waited_count": 4, "waited_sum": 103.5}
