"""Actions of administrators: through confluent-kafka where it can, else through Kafka's protocol or
in ZooKeeper itself."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from kio.static.primitive import i32Timedelta

from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from tests.support.clients.confluent import wait_until_led
from tests.support.clients.kio_peer import ours
from tests.support.clusters.bundled import TIMEOUT_S, Broker, Cluster, until

TIMEOUT = timedelta(seconds=30)
TOPIC = ConfigResource.Type.TOPIC
BROKER = ConfigResource.Type.BROKER


def error_of(cluster: Cluster, request: Callable[[AdminClient], Any]) -> int | None:
    """The code that a request (client in, future out) was refused with; None: it was not.

    It is made again while it meets a broker that is not the controller any more, or not yet, which
    has done nothing about it.
    """
    answers: list[int | None] = []

    def answered() -> bool:
        answers.append(_error_of(cluster, request))
        return answers[-1] != KafkaError.NOT_CONTROLLER

    until("a controller answers", answered)
    return answers[-1]


def _error_of(cluster: Cluster, request: Callable[[AdminClient], Any]) -> int | None:
    admin = cluster.admin()  # must outlive the request
    try:
        request(admin).result(TIMEOUT_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return None


# --- settings -------------------------------------------------------------------------------


def set_configs(
    cluster: Cluster, kind: ConfigResource.Type, name: str, config: Mapping[str, str | None]
) -> int | None:
    """IncrementalAlterConfigs; a value of None deletes. Returns the error code, if any."""
    entries = [
        ConfigEntry(
            key,
            value,
            incremental_operation=AlterConfigOpType.DELETE
            if value is None
            else AlterConfigOpType.SET,
        )
        for key, value in config.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    return error_of(cluster, lambda admin: admin.incremental_alter_configs([resource])[resource])


def configs(
    cluster: Cluster, kind: ConfigResource.Type, name: str
) -> dict[str, tuple[str | None, ConfigSource]]:
    """DescribeConfigs: value and source by name."""
    resource = ConfigResource(kind, name)
    admin = cluster.admin()
    found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {entry.name: (entry.value, ConfigSource(entry.source)) for entry in found.values()}


# --- topics ---------------------------------------------------------------------------------


def create_assigned(
    cluster: Cluster, topic: str, *assignment: Sequence[int], **config: str
) -> None:
    """Creates a topic with these replicas and waits until all are in sync and the leaders serve;
    ``config`` with underscores for dots."""
    new = NewTopic(
        topic,
        len(assignment),
        replica_assignment=[list(replicas) for replicas in assignment],
        config={key.replace("_", "."): value for key, value in config.items()},
    )
    assert error_of(cluster, lambda admin: admin.create_topics([new])[topic]) is None
    until(
        f"all replicas of {topic} are in sync",
        lambda: all(cluster.isr(topic, p) == set(ids) for p, ids in enumerate(assignment)),
    )
    wait_until_led(cluster, topic, len(assignment))


def delete_topic(cluster: Cluster, topic: str) -> int | None:
    """DeleteTopics; the error code, if any. Without one, no broker shows the topic any more."""
    error = error_of(cluster, lambda admin: admin.delete_topics([topic])[topic])
    if error is None:
        until(f"no broker shows {topic}", lambda: cluster.topic(topic) is None)
    return error


def add_partitions(
    cluster: Cluster,
    topic: str,
    count: int,
    assignment: Sequence[Sequence[int]] | None = None,
    **flags: bool,
) -> int | None:
    """CreatePartitions; the error code, if any."""
    new = NewPartitions(topic, count, **({"replica_assignment": assignment} if assignment else {}))
    return error_of(cluster, lambda admin: admin.create_partitions([new], **flags)[topic])


def elect(cluster: Cluster, kind: ElectionType, *tps: tuple[str, int]) -> dict[Any, int | None]:
    """ElectLeaders; by (topic, partition) the error code, if any. Without partitions: all."""
    wanted = [TopicPartition(topic, partition) for topic, partition in tps] or None
    admin = cluster.admin()
    found = admin.elect_leaders(kind, wanted).result(TIMEOUT_S)
    return {
        (tp.topic, tp.partition): None if error is None else int(error.code())
        for tp, error in found.items()
    }


# --- what librdkafka does not speak ------------------------------------------------------------


def call(broker: Broker, request: Any) -> Any:
    """The response to a request of kio's; None: the broker could not be reached."""

    async def ask() -> Any:
        connection = BrokerConnection("127.0.0.1", broker.port, "admin")
        try:
            return await connection.call(ours(request), TIMEOUT_S)
        except Disconnected:
            return None
        finally:
            await connection.close()

    return asyncio.run(ask())


def ask_controller(cluster: Cluster, request: Any) -> Any:
    """The response of the controller: the first broker that does not say that it is not.

    Brokers that are stopped are not asked, so a controller among them is not waited for: its
    session ends, and another is elected.
    """
    found: list[Any] = []

    def answered() -> bool:
        for broker in cluster.awake:
            response = call(broker, request)
            if response and response.error_code is not ErrorCode.not_controller:
                found.append(response)
                break
        return bool(found)

    until("a controller answers", answered)
    return found[0]


def set_defaults(cluster: Cluster, config: Mapping[str, str | None]) -> None:
    """Changes settings of all brokers; a value of None deletes."""
    module = load_payload_module(44, 0, EntityType.request)
    settings = tuple(
        module.AlterableConfig(name=name, config_operation=int(value is None), value=value)
        for name, value in config.items()
    )
    resource = module.AlterConfigsResource(resource_type=4, resource_name="", configs=settings)
    request = module.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (response,) = call(cluster.awake[0], request).responses
    assert response.error_code is ErrorCode.none, response.error_message


def reassign(
    cluster: Cluster, topic: str, targets: Mapping[int, Sequence[int] | None]
) -> dict[int, ErrorCode]:
    """AlterPartitionReassignments; None takes one back. Error codes by partition."""
    module = load_payload_module(45, 0, EntityType.request)
    partitions = tuple(
        module.ReassignablePartition(
            partition_index=number, replicas=None if replicas is None else tuple(replicas)
        )
        for number, replicas in targets.items()
    )
    request = module.AlterPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(TIMEOUT),
        topics=(module.ReassignableTopic(name=topic, partitions=partitions),),
    )
    response = ask_controller(cluster, request)
    assert response.error_code is ErrorCode.none
    (answered,) = response.responses
    return {p.partition_index: p.error_code for p in answered.partitions}


def reassignments(cluster: Cluster) -> dict[tuple[str, int], Any]:
    """ListPartitionReassignments: all of them."""
    module = load_payload_module(46, 0, EntityType.request)
    request = module.ListPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(TIMEOUT), topics=None
    )
    response = ask_controller(cluster, request)
    assert response.error_code is ErrorCode.none
    return {(t.name, p.partition_index): p for t in response.topics for p in t.partitions}


# --- ZooKeeper ------------------------------------------------------------------------------


@contextlib.contextmanager
def zookeeper(cluster: Cluster) -> Iterator[KazooClient]:
    """An administrator's own client."""
    client = KazooClient(cluster.zookeeper_connect, timeout=20)
    client.start(TIMEOUT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def order(cluster: Cluster, path: str, value: Mapping[str, Any] | None = None) -> None:
    """Leaves word for the controller, and waits until it was taken."""
    with zookeeper(cluster) as client:
        client.create(path, b"" if value is None else json.dumps(value).encode())
        until(f"{path} is carried out", lambda: client.exists(path) is None)


def read(cluster: Cluster, path: str) -> Any:
    """The JSON in a node; None when there is no such node."""
    with zookeeper(cluster) as client, contextlib.suppress(NoNodeError):
        return json.loads(client.get(path)[0])
    return None
