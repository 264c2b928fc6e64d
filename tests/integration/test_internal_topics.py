"""Topics that are Kafka's own, and requests that name what nothing is called."""

import os
import uuid
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import NewTopic
from kio.schema.alter_configs.v1 import request as alter_configs
from kio.schema.delete_records.v2 import request as delete_records
from kio.schema.describe_configs.v2 import request as describe_configs
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.request import MetadataRequest
from kio.static.primitive import i32Timedelta

from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.support.clients.admin import (
    TOPIC,
    add_partitions,
    call,
    configs,
    delete_topic,
    error_of,
    zookeeper,
)
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.clusters.bundled import PATIENT, Broker, Cluster, running_cluster

pytestmark = pytest.mark.integration

OFFSETS = "__consumer_offsets"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("internal"), 1, PATIENT) as cluster:
        create_topic(cluster, OFFSETS, replication_factor=1)
        create_topic(cluster, "plain", replication_factor=1)
        yield cluster


@pytest.fixture(scope="module")
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[1]


# --- internal topics ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (OFFSETS, KafkaError.TOPIC_ALREADY_EXISTS),
        ("__consumer.offsets", KafkaError.TOPIC_EXCEPTION),
        ("__cluster_metadata", KafkaError.INVALID_REQUEST),
    ],
)
def test_client_cannot_create_an_internal_topic_again(
    cluster: Cluster, name: str, code: int
) -> None:
    new = NewTopic(name, 1, 1)
    assert error_of(cluster, lambda admin: admin.create_topics([new])[name]) == code


def test_their_records_are_not_deleted(broker: Broker) -> None:
    topics = tuple(
        delete_records.DeleteRecordsTopic(
            name=name,
            partitions=(delete_records.DeleteRecordsPartition(partition_index=0, offset=0),),
        )
        for name in (OFFSETS, "plain")
    )
    timeout = i32Timedelta.parse(timedelta(seconds=10))
    response = call(broker, delete_records.DeleteRecordsRequest(topics=topics, timeout=timeout))
    assert {t.name: [p.error_code for p in t.partitions] for t in response.topics} == {
        OFFSETS: [ErrorCode.invalid_topic_exception],
        "plain": [ErrorCode.none],
    }


def test_internal_topics_permit_the_operations_that_kafka_permits(
    cluster: Cluster, broker: Broker
) -> None:
    name = "__transaction_state"
    create_topic(cluster, name, replication_factor=1)
    request = MetadataRequest(
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    marked = {topic.name: topic.is_internal for topic in call(broker, request).topics}
    assert marked.items() >= {OFFSETS: True, name: True, "plain": False}.items()
    (refused,) = produce(cluster, name, [b"x"]).values()
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_EXCEPTION
    assert produce(cluster, name, [b"y"], client_id="__admin_client") == {b"y": None}
    assert read_all(cluster, name) == [b"y"]
    assert add_partitions(cluster, name, 2) is None
    assert delete_topic(cluster, name) is None


# --- names --------------------------------------------------------------------------------------


def stray_names(cluster: Cluster) -> list[str]:
    """Return the names with "stray" below the cluster's directory. Logs are removed meanwhile:
    unlike ``rglob``, ``os.walk`` continues past a missing one."""
    found = os.walk(cluster.directory)
    return sorted(name for _, *names in found for name in chain(*names) if "stray" in name)


def test_no_controllers_word_makes_a_directory_elsewhere(cluster: Cluster, broker: Broker) -> None:
    def role(topic: str, partition: int) -> Any:
        state = LeaderAndIsrPartitionState(
            partition_index=partition,
            controller_epoch=1,
            leader=1,
            leader_epoch=0,
            isr=(1,),
            zk_version=0,
            replicas=(1,),
        )
        return LeaderAndIsrTopicState(
            topic_name=topic, topic_id=uuid.uuid4(), partition_states=(state,)
        )

    names = [("../stray", 0), ("stray/x", 0), (".", 0), ("x" * 250, 0), ("stray", -1)]
    request = LeaderAndIsrRequest(
        controller_id=1,
        controller_epoch=1,
        topic_states=tuple(role(*name) for name in names),
        live_leaders=(),
    )
    before = stray_names(cluster)
    response = call(broker, request)
    assert response.error_code is ErrorCode.none
    errors = [p.error_code for topic in response.topics for p in topic.partition_errors]
    assert errors == [ErrorCode.invalid_topic_exception] * len(names)
    assert stray_names(cluster) == before
    assert broker.running


def altering(*resources: tuple[int, str], validate_only: bool = False) -> Any:
    setting = alter_configs.AlterableConfig(name="flush.ms", value="5000")
    return alter_configs.AlterConfigsRequest(
        resources=tuple(
            alter_configs.AlterConfigsResource(
                resource_type=kind, resource_name=name, configs=(setting,)
            )
            for kind, name in resources
        ),
        validate_only=validate_only,
    )


def test_a_resource_is_changed_once_a_request(cluster: Cluster, broker: Broker) -> None:
    response = call(broker, altering((2, "plain"), (2, "plain"), (2, OFFSETS)))
    assert [r.error_code for r in response.responses] == [
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        ErrorCode.none,
    ]
    assert configs(cluster, TOPIC, "plain")["flush.ms"][0] != "5000"
    assert configs(cluster, TOPIC, OFFSETS)["flush.ms"][0] == "5000"


def test_a_topic_that_zookeeper_has_not_has_no_settings(cluster: Cluster, broker: Broker) -> None:
    """Test a topic with a deleted znode: no order reaches the brokers, so they must read it."""
    create_topic(cluster, "vanishes", replication_factor=1)
    with zookeeper(cluster) as client:
        client.delete("/brokers/topics/vanishes", recursive=True)
        client.delete("/config/topics/vanishes")
        (result,) = call(broker, altering((2, "vanishes"))).responses
        assert result.error_code is ErrorCode.unknown_topic_or_partition
        assert client.exists("/config/topics/vanishes") is None


def test_no_keys_are_all_keys(broker: Broker) -> None:
    def described(keys: tuple[str, ...] | None) -> int:
        resource = describe_configs.DescribeConfigsResource(
            resource_type=2, resource_name="plain", configuration_keys=keys
        )
        response = call(broker, describe_configs.DescribeConfigsRequest(resources=(resource,)))
        return len(response.results[0].configs)

    assert described(("flush.ms",)) == 1
    assert described(()) == described(None) > 10
