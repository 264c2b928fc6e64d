"""A topic that is made again under its name is another topic, and its logs know it (KIP-516)."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import ReplicaAssignment, TopicAssignment
from ackproof.broker.server.zk.znodes import encode_topic
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion
from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.support.clients.admin import (
    call,
    create_assigned,
    delete_topic,
    read,
    reassign,
    reassignments,
    zookeeper,
)
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.clusters.bundled import Broker, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

OLD = [f"old-{n}".encode() for n in range(100)]
NEW = [f"new-{n}".encode() for n in range(50)]
FILE = "partition.metadata"


def send(cluster: Cluster, topic: str, values: list[bytes]) -> None:
    """One record a batch, so that the logs of two topics can be cut at the same offsets."""
    assert produce(cluster, topic, values, batch_num_messages=1) == dict.fromkeys(values)


def rejected(broker: Broker, partition: str) -> list[str]:
    """Return the broker's reasons for rejecting roles of the partition, from its state-change
    log."""
    whole, _, _ = broker.log.read_text().rpartition("\n")  # it is being written
    lines = [line for line in whole.splitlines() if '"rejected"' in line]
    found = [json.loads(line[line.index("{") : line.rindex("}") + 1]) for line in lines]
    return [line["error"] for line in found if line["partition"] == partition]


def id_on_disk(broker: Broker, partition: str) -> str | None:
    path = broker.logs / partition / FILE
    return path.read_text().rpartition("topic_id: ")[2] if path.exists() else None


def content(broker: Broker, partition: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (broker.logs / partition).glob("*.log")}


# --- a stray log --------------------------------------------------------------------------------


def change_controller(cluster: Cluster) -> None:
    """Kills the broker that is the controller; returns when another is and it is back."""
    dead = [broker.id for broker in cluster.brokers.values() if not broker.running]
    controller = cluster.controller()
    controller.kill()
    until(
        "another is controller",
        lambda: (read(cluster, "/controller") or {}).get("brokerid") not in (None, controller.id),
    )
    controller.start()
    cluster.wait_until_complete(but=dead)


def leave_a_stray(cluster: Cluster) -> None:
    """Broker 3 is down and has a log of t-0 with ``OLD`` in it, which is in no metadata any
    more."""
    create_assigned(cluster, "t", [1, 3])
    send(cluster, "t", OLD)
    cluster.brokers[3].kill()
    cluster.wait_until_complete(but=[3])
    assert reassign(cluster, "t", {0: [1, 2]}) == {0: ErrorCode.none}
    until("it has moved", lambda: cluster.isr("t") == {1, 2} and not reassignments(cluster))
    change_controller(cluster)
    assert delete_topic(cluster, "t") is None
    until("it is gone", lambda: read(cluster, "/brokers/topics/t") is None)


def create_with_a_dead_replica(cluster: Cluster, topic: str, *replicas: int) -> None:
    """Create the topic as ``kafka-topics --zookeeper --replica-assignment`` of Kafka did."""
    assignment = TopicAssignment(
        topic_id=uuid.uuid4(),
        partitions={0: ReplicaAssignment(replicas=tuple(map(BrokerId, replicas)))},
    )
    with zookeeper(cluster) as client:
        client.create(f"/brokers/topics/{topic}", encode_topic(assignment))
    until(f"{topic} has a leader", lambda: cluster.leader(topic) in replicas)


# The simulation makes topics again over logs of former ones; what one broker does is below.
@pytest.mark.long
def test_a_former_topics_log_is_not_the_new_ones(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        leave_a_stray(cluster)
        has_stray = cluster.brokers[3]
        stray = content(has_stray, "t-0")
        create_with_a_dead_replica(cluster, "t", 1, 3)
        send(cluster, "t", NEW[:25])
        has_stray.start()
        until("it refuses", lambda: rejected(has_stray, "t-0"))
        assert "the log is of topic id" in rejected(has_stray, "t-0")[0]
        send(cluster, "t", NEW[25:])
        cluster.wait_until_complete()
        assert cluster.isr("t") == {1}
        assert content(has_stray, "t-0") == stray
        assert read_all(cluster, "t") == NEW
        cluster.brokers[1].kill()
        until("it has no leader", lambda: cluster.leader("t") == -1)
        cluster.brokers[1].start()
        until("it has one again", lambda: cluster.leader("t") == 1)

        assert delete_topic(cluster, "t") is None
        until("the stray log goes with it", lambda: not (has_stray.logs / "t-0").exists())
        until("the name is free", lambda: read(cluster, "/brokers/topics/t") is None)
        create_assigned(cluster, "t", [3, 1])
        send(cluster, "t", NEW)
        assert read_all(cluster, "t") == NEW


# --- one broker ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("topic-ids"), 1) as cluster:
        yield cluster


def told(broker: Broker, topic: str, topic_id: uuid.UUID | None, leader_epoch: int) -> Any:
    """The broker's answer when a controller says that it leads partition 0."""
    state = LeaderAndIsrPartitionState(
        partition_index=0,
        controller_epoch=ControllerEpoch(1),
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(leader_epoch),
        isr=(BrokerId(1),),
        zk_version=ZkVersion(0),
        replicas=(BrokerId(1),),
    )
    topic_state = LeaderAndIsrTopicState(
        topic_name=topic, topic_id=topic_id, partition_states=(state,)
    )
    request = LeaderAndIsrRequest(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(1),
        topic_states=(topic_state,),
        live_leaders=(),
    )
    response = call(broker, request)
    assert response.error_code is ErrorCode.none
    ((answered,),) = (topic.partition_errors for topic in response.topics)
    return answered.error_code


def test_topic_id_on_disk_equals_the_one_in_zookeeper(cluster: Cluster) -> None:
    create_topic(cluster, "said", partitions=2, replication_factor=1)
    topic_id = read(cluster, "/brokers/topics/said")["topic_id"]
    for partition in ("said-0", "said-1"):
        assert id_on_disk(cluster.brokers[1], partition) == topic_id


def test_another_id_is_refused_and_none_is_accepted(cluster: Cluster) -> None:
    create_topic(cluster, "kept", replication_factor=1)
    (broker,) = cluster.brokers.values()
    topic_id = id_on_disk(broker, "kept-0")
    assert told(broker, "kept", uuid.uuid4(), 1) is ErrorCode.inconsistent_topic_id
    for without in (None, uuid.UUID(int=0)):
        assert told(broker, "kept", without, 2) is ErrorCode.none
    assert id_on_disk(broker, "kept-0") == topic_id
    assert told(broker, "kept", None, 1) is ErrorCode.stale_controller_epoch


def test_a_log_without_an_id_gets_the_first_it_hears_of(cluster: Cluster) -> None:
    (broker,) = cluster.brokers.values()
    assert told(broker, "given", None, 0) is ErrorCode.none
    assert id_on_disk(broker, "given-0") is None
    assert told(broker, "given", uuid.UUID(int=1), 0) is ErrorCode.none
    assert id_on_disk(broker, "given-0") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert told(broker, "given", uuid.UUID(int=2), 0) is ErrorCode.inconsistent_topic_id


def test_a_broker_outlives_its_logs_ids_and_not_a_damaged_one(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 1) as cluster:
        create_topic(cluster, "t", replication_factor=1)
        send(cluster, "t", NEW)
        (broker,) = cluster.brokers.values()
        broker.kill()
        broker.start()
        until("it leads again", lambda: cluster.leader("t") == 1)
        assert read_all(cluster, "t") == NEW
        broker.kill()
        (broker.logs / "t-0" / FILE).write_text("version: 0\n")
        broker.start()
        assert broker.wait() != 0
        last = broker.log.read_text().splitlines()[-1]
        assert "Broker 1 cannot start" in last
        assert f"t-0/{FILE}: b'version: 0\\n', expected" in last
