"""Administrative requests: topics, partitions, reassignments, settings and deleted records."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.server.zk import znodes
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages import alter_configs as whole
from ackproof.broker.wire.messages import incremental_alter_configs as single
from ackproof.broker.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ackproof.broker.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ackproof.broker.wire.messages.delete_topics import DeleteTopicsRequest
from ackproof.broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ackproof.broker.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ackproof.broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from simulation.zookeeper.client import ZkShell
from tests.support.worlds.wire_cluster import (
    EARLIEST,
    TIMEOUT_MS,
    WireCluster,
    deletion_of_records,
    election,
    errors_in,
    reassignment,
    simulated,
)

pytestmark = pytest.mark.simulation

NOWHERE = TopicPartition("nowhere", 0)
STRANGER = 99
PREFERRED, UNCLEAN, NO_ELECTION = 0, 1, 7
TOPIC, BROKER, NO_RESOURCE = 2, 4, 3
SET, DELETE, APPEND = 0, 1, 2
OF_TOPIC = 1
"""The source of a setting that the topic itself has."""
FINE = ("retention.ms", "86400000")
Setting = tuple[str, str | None]


# --- requests -------------------------------------------------------------------------------------


def creation(*, times: int = 1, validate_only: bool = False, **changed: Any) -> CreateTopicsRequest:
    asked = {
        "name": "to-be",
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": (),
        "configs": (),
    }
    topic = CreatableTopic(**{**asked, **changed})
    return CreateTopicsRequest(
        version=4, topics=(topic,) * times, timeout_ms=TIMEOUT_MS, validate_only=validate_only
    )


def assigned(replicas: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(map(BrokerId, ids)))
        for number, ids in replicas.items()
    )
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}


def configured(name: str, value: str) -> dict[str, Any]:
    return {"configs": (CreatableTopicConfig(name=name, value=value),)}


def deletion(topic: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(version=3, topic_names=(topic,), timeout_ms=TIMEOUT_MS)


def extension(
    topic: str, count: int, replicas: Sequence[Sequence[int]] | None = None
) -> CreatePartitionsRequest:
    assignments = replicas and tuple(
        CreatePartitionsAssignment(broker_ids=tuple(map(BrokerId, each))) for each in replicas
    )
    asked = CreatePartitionsTopic(name=topic, count=count, assignments=assignments)
    return CreatePartitionsRequest(
        version=1, topics=(asked,), timeout_ms=TIMEOUT_MS, validate_only=False
    )


def all_settings(
    name: str, *given: Setting, kind: int = TOPIC, validate_only: bool = False
) -> whole.AlterConfigsRequest:
    """Return an AlterConfigs, which replaces all settings."""
    configs = tuple(whole.AlterableConfig(name=each, value=value) for each, value in given)
    resource = whole.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return whole.AlterConfigsRequest(version=0, resources=(resource,), validate_only=validate_only)


def some_settings(
    name: str,
    *given: Setting,
    kind: int = TOPIC,
    operation: int = SET,
    validate_only: bool = False,
) -> single.IncrementalAlterConfigsRequest:
    """Return an IncrementalAlterConfigs, which changes what it names."""
    configs = tuple(
        single.AlterableConfig(name=each, config_operation=operation, value=value)
        for each, value in given
    )
    resource = single.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return single.IncrementalAlterConfigsRequest(
        version=0, resources=(resource,), validate_only=validate_only
    )


# --- what cannot be -------------------------------------------------------------------------------

PARTITIONS = ErrorCode.invalid_partitions
FACTOR = ErrorCode.invalid_replication_factor
REPLICAS = ErrorCode.invalid_replica_assignment
CONFIG = ErrorCode.invalid_config
INVALID = ErrorCode.invalid_request
ABSENT = ErrorCode.unknown_topic_or_partition
NAME = ErrorCode.invalid_topic_exception
HERE = "here"
"""A topic with one partition on brokers 1 and 2."""
HERE_0 = TopicPartition(HERE, 0)

IMPOSSIBLE = {
    "topic without partitions": (creation(num_partitions=0), PARTITIONS),
    "topic without replicas": (creation(replication_factor=0), FACTOR),
    "topic with more replicas than brokers": (creation(replication_factor=4), FACTOR),
    "topic with an unknown setting": (creation(**configured("no.such", "1")), CONFIG),
    "topic with an invalid setting": (creation(**configured("retention.ms", "-2")), CONFIG),
    "topic with a slash": (creation(name="a/b"), NAME),
    "topic with a colliding name": (creation(name=OFFSETS_TOPIC.replace("_o", ".o")), NAME),
    "topic that exists": (creation(name=HERE), ErrorCode.topic_already_exists),
    "topic with a gap between partitions": (creation(**assigned({0: [1], 2: [1]})), REPLICAS),
    "topic on a broker twice": (creation(**assigned({0: [1, 1]})), REPLICAS),
    "topic on an unknown broker": (creation(**assigned({0: [1, STRANGER]})), REPLICAS),
    "topic on no broker": (creation(**assigned({0: []})), REPLICAS),
    "topic with uneven replicas": (creation(**assigned({0: [1], 1: [1, 2]})), REPLICAS),
    "topic with count and assignment": (
        creation(**{**assigned({0: [1]}), "num_partitions": 1}),
        INVALID,
    ),
    "topic asked for twice": (creation(times=2), INVALID),
    "as many partitions as before": (extension(HERE, 1), PARTITIONS),
    "fewer partitions": (extension(HERE, 0), PARTITIONS),
    "partitions of no topic": (extension("nowhere", 3), ABSENT),
    "partitions with too many assignments": (extension(HERE, 2, [(1, 2), (1, 2)]), REPLICAS),
    "partition on no broker": (extension(HERE, 2, [()]), REPLICAS),
    "partition with more replicas": (extension(HERE, 2, [(1, 2, 3)]), REPLICAS),
    "move to no broker": (reassignment(HERE_0, ()), REPLICAS),
    "move to a broker twice": (reassignment(HERE_0, (1, 1)), REPLICAS),
    "move to an unknown broker": (reassignment(HERE_0, (1, STRANGER)), REPLICAS),
    "move of no partition": (reassignment(NOWHERE, (1,)), ABSENT),
    "move back of what is not moved": (
        reassignment(HERE_0, None),
        ErrorCode.no_reassignment_in_progress,
    ),
    "election of no known kind": (election(NO_ELECTION, HERE_0), INVALID),
    "election of the leader": (election(PREFERRED, HERE_0), ErrorCode.election_not_needed),
    "unclean election under a leader": (election(UNCLEAN, HERE_0), ErrorCode.election_not_needed),
    "election of no partition": (election(PREFERRED, NOWHERE), ABSENT),
    "deletion of no topic": (deletion("nowhere"), ABSENT),
    "deletion of records of no topic": (deletion_of_records(NOWHERE, 0), ABSENT),
    "settings of one topic twice": (
        whole.AlterConfigsRequest(
            version=0, resources=all_settings(HERE, FINE).resources * 2, validate_only=False
        ),
        INVALID,
    ),
    "setting that is no list": (some_settings(HERE, FINE, operation=APPEND), CONFIG),
}


@pytest.fixture(scope="module", autouse=True)
def _here(cluster: WireCluster) -> None:
    async def prepare() -> None:
        await cluster.coordinator("any")
        await cluster.create(HERE, (1, 2))
        await cluster.settled()

    cluster.run(prepare())


async def all_there_is(cluster: WireCluster) -> Any:
    """Return each topic's partitions and settings."""
    topics = (await cluster.metadata()).topics
    return {
        topic.name: (len(topic.partitions), await settings_of(cluster, topic.name))
        for topic in topics
    }


@pytest.mark.parametrize("what", IMPOSSIBLE)
@simulated
async def test_impossible_order_is_refused_and_changes_nothing(
    cluster: WireCluster, what: str
) -> None:
    request, expected = IMPOSSIBLE[what]
    before = await all_there_is(cluster)
    assert errors_in(await cluster.ask(await cluster.controller(), request)) == {expected}
    assert await all_there_is(cluster) == before


@pytest.mark.parametrize("order", [all_settings, some_settings])
@pytest.mark.parametrize(
    ("kind", "name", "given", "expected"),
    [
        (TOPIC, HERE, [("no.such.setting", "1")], CONFIG),
        (TOPIC, HERE, [("min.insync.replicas", "0")], CONFIG),
        (TOPIC, HERE, [("retention.ms", "for ever")], CONFIG),
        (TOPIC, HERE, [("message.timestamp.type", "Never")], CONFIG),
        (TOPIC, HERE, [("retention.ms", None)], INVALID),
        (TOPIC, HERE, [FINE, FINE], INVALID),
        (TOPIC, "nowhere", [FINE], ABSENT),
        (TOPIC, "a/b", [FINE], NAME),
        (NO_RESOURCE, HERE, [FINE], INVALID),
        (BROKER, "2", [("log.retention.ms", "86400000")], INVALID),
        (BROKER, "1", [("broker.id", "7")], INVALID),
        (BROKER, "1", [("log.retention.ms", "-2")], CONFIG),
    ],
)
@simulated
async def test_impossible_setting_is_refused(
    cluster: WireCluster,
    order: Any,
    kind: int,
    name: str,
    given: list[Setting],
    expected: ErrorCode,
) -> None:
    assert errors_in(await cluster.ask(1, order(name, *given, kind=kind))) == {expected}


@simulated
async def test_request_that_only_validates_changes_nothing(cluster: WireCluster) -> None:
    before = await all_there_is(cluster)
    for request in (
        creation(validate_only=True),
        all_settings(HERE, FINE, validate_only=True),
        some_settings(HERE, FINE, validate_only=True),
    ):
        answer = await cluster.ask(await cluster.controller(), request)
        assert errors_in(answer) == {ErrorCode.none}
    assert await all_there_is(cluster) == before


@simulated
async def test_broker_that_is_not_the_controller_carries_no_order_out(
    cluster: WireCluster,
) -> None:
    for broker in set(cluster.brokers) - {await cluster.controller()}:
        for request in (
            creation(),
            deletion(HERE),
            extension(HERE, 2, [(1, 2)]),
            election(PREFERRED, HERE_0),
            reassignment(HERE_0, (1,)),
        ):
            assert errors_in(await cluster.ask(broker, request)) == {ErrorCode.not_controller}


# --- settings -------------------------------------------------------------------------------------


async def settings_of(cluster: WireCluster, topic: str, broker: int = 1) -> dict[str, str]:
    """Return what is set of a topic itself, as a broker describes it."""
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=None
    )
    request = DescribeConfigsRequest(version=1, resources=(resource,), include_synonyms=False)
    (result,) = (await cluster.ask(broker, request)).results
    return {each.name: each.value for each in result.configs if each.config_source == OF_TOPIC}


async def are_told(cluster: WireCluster, topic: str, expected: dict[str, str]) -> None:
    async def by_all() -> bool:
        told = [await settings_of(cluster, topic, broker) for broker in cluster.brokers]
        return all(each == expected for each in told)

    await cluster.until(f"{expected} is told by all", by_all)


@simulated
async def test_incremental_change_keeps_the_other_settings_and_a_whole_one_does_not(
    cluster: WireCluster, topic: str
) -> None:
    begins = {"retention.ms": "86400000", "flush.messages": "5"}
    await cluster.create(topic, config=begins)
    one, other = {"retention.ms": "86400001"}, {"segment.bytes": "100000"}
    for request, expected in (
        (some_settings(topic, ("retention.ms", "86400001")), {**one, "flush.messages": "5"}),
        (some_settings(topic, ("flush.messages", None), operation=DELETE), one),
        (some_settings(topic, ("segment.bytes", "100000")), {**one, **other}),
        (all_settings(topic, ("max.message.bytes", "5000")), {"max.message.bytes": "5000"}),
        (all_settings(topic), {}),
    ):
        assert errors_in(await cluster.ask(3, request)) == {ErrorCode.none}
        await are_told(cluster, topic, expected)


@simulated
async def test_running_leader_goes_by_a_changed_min_insync_replicas(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic, (1,))

    async def changed(least: str, expected: ErrorCode) -> None:
        await cluster.ask(1, some_settings(topic, ("min.insync.replicas", least)))

        async def is_known() -> bool:
            return (await cluster.send(tp)).error_code is expected

        await cluster.until(f"{least} in-sync replicas are required", is_known)

    await changed("2", ErrorCode.not_enough_replicas)
    await changed("1", ErrorCode.none)
    assert (await cluster.part(tp)).leader_epoch == 0


@simulated
async def test_two_changes_at_once_undo_nothing_of_each_other(
    cluster: WireCluster, topic: str
) -> None:
    await cluster.create(topic)
    values = {"retention.ms": "86400002", "segment.bytes": "100002", "flush.messages": "7"}
    for (one, first), (two, second) in pairwise(values.items()):
        answers = await asyncio.gather(
            cluster.ask(1, some_settings(topic, (one, first))),
            cluster.ask(3, some_settings(topic, (two, second)), by="another"),
        )
        assert errors_in(answers) == {ErrorCode.none}
    await are_told(cluster, topic, values)


@simulated
async def test_topic_inherits_no_settings_that_a_former_one_left_behind(
    cluster: WireCluster, topic: str
) -> None:
    simulated_ = cluster.simulation
    shell = ZkShell(simulated_.zookeeper, "client-1", simulated_.loop)
    left = znodes.encode_config({"retention.ms": "86400005", "flush.messages": "3"})
    await shell.create(znodes.topic_config(topic), left)
    await cluster.create(topic)
    await are_told(cluster, topic, {})


# --- records, moves, brokers ----------------------------------------------------------------------


@simulated
async def test_deleted_records_are_found_by_no_lookup(cluster: WireCluster, topic: str) -> None:
    tp = await cluster.create(topic)
    for _ in range(4):
        await cluster.append(tp)
    leader = await cluster.leader(tp)
    answer = await cluster.ask(leader, deletion_of_records(tp, 3))
    part = answer.topics[0].partitions[0]
    assert (part.error_code, part.low_watermark) == (ErrorCode.none, 3)
    assert (await cluster.listed(tp, EARLIEST))[0] == 3
    assert (await cluster.listed(tp, 1))[0] == 3
    (part,) = await cluster.fetch([(tp, 2)])
    assert part.error_code is ErrorCode.offset_out_of_range


@simulated
async def test_deletion_of_records_that_cannot_be_is_refused(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic)
    leader, follower = await cluster.leader(tp), await cluster.follower(tp)
    home = TopicPartition(OFFSETS_TOPIC, 0)
    for broker, order, expected in (
        (leader, deletion_of_records(tp, 7), ErrorCode.offset_out_of_range),
        (leader, deletion_of_records(tp, -2), ErrorCode.offset_out_of_range),
        (follower, deletion_of_records(tp, -1), ErrorCode.not_leader_or_follower),
        (await cluster.leader(home), deletion_of_records(home, 0), NAME),
    ):
        assert errors_in(await cluster.ask(broker, order)) == {expected}


async def sizes(cluster: WireCluster, broker: int) -> dict[tuple[str, int], int]:
    """Return the sizes of the logs of a broker, as it describes them."""
    answer = await cluster.ask(broker, DescribeLogDirsRequest(version=1, topics=None))
    return {
        (topic.name, part.partition_index): part.partition_size
        for result in answer.results
        for topic in result.topics
        for part in topic.partitions
    }


@simulated
async def test_partition_that_is_moved_by_two_orders_at_once_is_where_the_last_one_said(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic, (1, 2))
    await cluster.append(tp)
    controller = await cluster.controller()
    first = asyncio.ensure_future(cluster.ask(controller, reassignment(tp, (2, 1)), by="another"))
    await asyncio.sleep(0.001)
    await cluster.ask(controller, reassignment(tp, (2,)))
    await first
    for replicas, removed in (((2,), 1), ((3,), 2)):
        await cluster.obeyed(reassignment(tp, replicas))

        async def is_there(replicas: tuple[int, ...] = replicas, removed: int = removed) -> bool:
            moves = await cluster.ask(controller, ListPartitionReassignmentsRequest(topics=None))
            part = await cluster.part(tp)
            return (
                not moves.topics
                and part.replica_nodes == replicas
                and part.leader_id in replicas
                and (topic, 0) not in await sizes(cluster, removed)
            )

        await cluster.until(f"it is on {replicas} alone", is_there)
    assert (await sizes(cluster, 3))[topic, 0] > 0
    assert (await cluster.append(tp)).base_offset == 1


@simulated
async def test_topic_can_be_made_again_as_soon_as_it_is_gone(
    cluster: WireCluster, topic: str
) -> None:
    for _ in range(3):
        tp = await cluster.create(topic)
        assert (await cluster.append(tp)).base_offset == 0
        await cluster.obeyed(deletion(topic))

        async def is_gone() -> bool:
            tree = cluster.simulation.zookeeper.leader.tree
            return bool(tree.peek(znodes.topic(topic)) == (None, -1))

        await cluster.until(f"{topic} is gone", is_gone)


@simulated
async def test_broker_with_an_expired_session_is_absent_from_metadata(cluster: WireCluster) -> None:
    controller = await cluster.controller()
    dead = next(broker for broker in cluster.brokers if broker != controller)
    others = set(cluster.brokers) - {dead}
    cluster.simulation.nodes[dead].kill()
    cluster.expire(dead)

    async def is_hidden() -> bool:
        told = [await cluster.metadata(broker) for broker in others]
        return all({each.node_id for each in one.brokers} == others for one in told)

    await cluster.until("no broker shows it", is_hidden, within_s=5)
    cluster.simulation.nodes[dead].start()
    await cluster.settled()


@simulated
async def test_move_that_is_taken_back_ends_though_a_former_replica_is_down(
    cluster: WireCluster, topic: str
) -> None:
    leader = await cluster.controller()
    dead, spare = (broker for broker in cluster.brokers if broker != leader)
    tp = await cluster.create(topic, (leader, dead))
    names = [cluster.simulation.nodes[broker].host for broker in (spare, leader)]
    for one, other in (names, names[::-1]):
        cluster.simulation.network.cut(one, other)
    await cluster.ask(leader, reassignment(tp, (leader, spare)))
    cluster.simulation.nodes[dead].kill()
    cluster.expire(dead)

    async def is_alone() -> bool:
        return tuple((await cluster.part(tp)).isr_nodes) == (leader,)

    async def is_back() -> bool:
        return tuple((await cluster.part(tp)).replica_nodes) == (leader, dead)

    await cluster.until("the leader is alone in its ISR", is_alone)
    await cluster.ask(leader, reassignment(tp, None))
    await cluster.until("the move is taken back", is_back, within_s=5)
    cluster.simulation.network.heal_all()
    cluster.simulation.nodes[dead].start()
    await cluster.settled()
