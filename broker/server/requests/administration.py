"""Requests of administrators about topics, settings and the cluster."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.config import Described, text
from ackproof.broker.controller.cluster import ReplicaAssignment, TopicAssignment
from ackproof.broker.server.admin import Change, Refused, TopicSpec
from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.requests.context import Context, by_topic
from ackproof.broker.server.topic_names import CLUSTER_METADATA_TOPIC
from ackproof.broker.server.zk.kafka_zk import Settings
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ackproof.broker.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ackproof.broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ackproof.broker.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ackproof.broker.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from ackproof.broker.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ackproof.broker.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from ackproof.broker.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalAlterConfigsResourceResponse,
)
from ackproof.broker.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ackproof.broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ackproof.broker.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

# --- topics ---------------------------------------------------------------------------------------
#
# Create topics, add partitions, delete topics.


# --- CreateTopics ---------------------------------------------------------------------------------
#
# CreateTopics (api 19), versions 2 to 4.
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. Names,
# counts, assignments and settings are validated. Then the topic is written to ZooKeeper, and the
# answer waits, up to ``timeout``, until this broker sees a leader of every partition.
#
# Not modelled: policies, quotas.
#
# v4 default counts (-1).


async def handle_create_topics(
    request: CreateTopicsRequest, context: Context
) -> CreateTopicsResponse:
    """Answer when the topics have leaders, or with REQUEST_TIMED_OUT."""
    names = [topic.name for topic in request.topics]
    results = await asyncio.gather(
        *(_create(topic, names, request, context) for topic in request.topics)
    )
    return CreateTopicsResponse(
        topics=tuple(
            CreatableTopicResult(
                name=topic.name,
                error_code=result.error,
                error_message=str(result) or None,
            )
            for topic, result in zip(request.topics, results, strict=True)
        ),
    )


async def _create(
    topic: CreatableTopic, names: list[str], request: CreateTopicsRequest, context: Context
) -> Refused:
    try:
        if not context.coordinator.active:
            raise Refused(ErrorCode.not_controller, "This is not the controller.")
        if topic.name == CLUSTER_METADATA_TOPIC:
            raise Refused(ErrorCode.invalid_request, f"{topic.name} is not for clients to create.")
        if names.count(topic.name) > 1:
            raise Refused(ErrorCode.invalid_request, f"{topic.name} is named more than once.")
        spec = _spec(topic)
        if request.validate_only:
            await context.metadata.refresh([spec.name])
            context.topics.validate(spec)
        else:
            partitions = await context.topics.create(spec)
            timeout_s = request.timeout_ms / 1000
            await context.topics.wait_until_led(spec.name, partitions, timeout_s)
    except Refused as refused:
        return refused
    return Refused(ErrorCode.none, "")


def _spec(topic: CreatableTopic) -> TopicSpec:
    return TopicSpec(
        name=topic.name,
        partitions=None if topic.num_partitions == -1 else topic.num_partitions,
        replication_factor=None if topic.replication_factor == -1 else topic.replication_factor,
        assignment={entry.partition_index: entry.broker_ids for entry in topic.assignments},
        config={entry.name: entry.value or "" for entry in topic.configs},
    )


# --- CreatePartitions -----------------------------------------------------------------------------
#
# CreatePartitions (api 37), versions 0 to 3.
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. The new
# partitions are written to ZooKeeper, and the answer waits, up to ``timeout``, until this broker
# sees a leader of every partition. A topic that is being reassigned is rejected.
#
# Not modelled: quotas.


async def handle_create_partitions(
    request: CreatePartitionsRequest, context: Context
) -> CreatePartitionsResponse:
    """Answer when the partitions have leaders, or with REQUEST_TIMED_OUT."""
    names = [topic.name for topic in request.topics]
    results = await asyncio.gather(
        *(_extend(topic, names, request, context) for topic in request.topics)
    )
    return CreatePartitionsResponse(
        results=tuple(
            CreatePartitionsTopicResult(
                name=name,
                error_code=result.error,
                error_message=str(result) or None,
            )
            for name, result in zip(names, results, strict=True)
        ),
    )


async def _extend(
    topic: CreatePartitionsTopic,
    names: list[str],
    request: CreatePartitionsRequest,
    context: Context,
) -> Refused:
    name, count = topic.name, topic.count
    try:
        if not context.coordinator.active:
            raise Refused(ErrorCode.not_controller, "This is not the controller.")
        if names.count(name) > 1:
            raise Refused(ErrorCode.invalid_request, f"{name} is named more than once.")
        await context.topics.add_partitions(
            name, count, _assignment(topic), validate_only=request.validate_only
        )
        if not request.validate_only:
            await context.topics.wait_until_led(name, count, request.timeout_ms / 1000)
    except Refused as refused:
        return refused
    return Refused(ErrorCode.none, "")


def _assignment(topic: CreatePartitionsTopic) -> list[tuple[BrokerId, ...]] | None:
    if topic.assignments is None:
        return None
    return [entry.broker_ids for entry in topic.assignments]


# --- DeleteTopics ---------------------------------------------------------------------------------
#
# DeleteTopics (api 20), versions 1 to 5.
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. The order to
# delete is written to ZooKeeper, and the answer waits, up to ``timeout``, until this broker has
# heard that the topic is gone. Its name is free again when all of its replicas are deleted, see
# :mod:`broker.controller.orders`.
#
# Not modelled: deletion by topic id (v6).
#
# v5 error_message.


async def handle_delete_topics(
    request: DeleteTopicsRequest, context: Context
) -> DeleteTopicsResponse:
    """Answer when the topics are gone, or with REQUEST_TIMED_OUT."""
    names = request.topic_names
    timeout_s = request.timeout_ms / 1000
    results = await asyncio.gather(*(_delete(name, timeout_s, context) for name in names))
    return DeleteTopicsResponse(
        responses=tuple(
            DeletableTopicResult(
                name=name,
                error_code=result.error,
                error_message=str(result) or None,
            )
            for name, result in zip(names, results, strict=True)
        ),
    )


async def _delete(name: str, timeout_s: float, context: Context) -> Refused:
    try:
        if not context.coordinator.active:
            raise Refused(ErrorCode.not_controller, "This is not the controller.")
        await context.topics.delete(name)
        await context.topics.wait_until_gone(name, timeout_s)
    except Refused as refused:
        return refused
    return Refused(ErrorCode.none, "")


# --- settings -------------------------------------------------------------------------------------
#
# Describe and alter the settings of topics and brokers.


# --- DescribeConfigs ------------------------------------------------------------------------------
#
# DescribeConfigs (api 32), versions 1 and 2.
#
# Behaviour: the settings of a topic, or the properties of this broker, with their sources. The
# overrides of a broker's properties may be a moment behind ZooKeeper.
#
# Not modelled: types and documentation (v3), loggers. Nothing here is sensitive.


async def handle_describe_configs(
    request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResponse:
    """Answer when ZooKeeper has answered."""
    results = await asyncio.gather(
        *(_describe(resource, request, context) for resource in request.resources)
    )
    return DescribeConfigsResponse(results=tuple(results))


async def _describe(
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
    context: Context,
) -> DescribeConfigsResult:
    refused = Refused(ErrorCode.none, "")
    found: list[Described] = []
    try:
        found = await context.configs.describe(resource.resource_type, resource.resource_name)
    except Refused as error:
        refused = error
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=refused.error,
        error_message=str(refused) or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(
            _setting(setting, with_synonyms=request.include_synonyms)
            for setting in found
            if not keys or setting.name in keys
        ),
    )


def _setting(setting: Described, *, with_synonyms: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=text(setting.value),
        read_only=setting.read_only,
        config_source=int(setting.source),
        is_sensitive=False,
        synonyms=tuple(
            DescribeConfigsSynonym(name=name, value=text(value), source=int(source))
            for name, value, source in (setting.synonyms if with_synonyms else ())
        ),
    )


# --- AlterConfigs ---------------------------------------------------------------------------------
#
# AlterConfigs (api 33), versions 0 to 2.
#
# Behaviour: the given settings replace all that the topic or broker has of its own; see
# :mod:`broker.server.admin`. Superseded by IncrementalAlterConfigs (KIP-339), which shares
# its way of answering.
#
# Not modelled: loggers.


class Named(Protocol):
    """A setting with a name."""

    @property
    def name(self) -> str: ...


class Resource(Protocol):
    """A topic or a broker, with the requested settings."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...

    @property
    def configs(self) -> Sequence[Named]: ...


R = TypeVar("R", bound=Resource)


async def handle_alter_configs(
    request: AlterConfigsRequest, context: Context
) -> AlterConfigsResponse:
    """Answer when the settings are in ZooKeeper."""
    results = await alter_each(
        request.resources, _replacing, context, validate_only=request.validate_only
    )
    return AlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=result.error,
                error_message=str(result) or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, result in zip(request.resources, results, strict=True)
        ),
    )


async def alter_each(
    resources: Sequence[R],
    change_of: Callable[[R], Change],
    context: Context,
    *,
    validate_only: bool,
) -> Sequence[Refused]:
    """Apply ``change_of(resource)`` to each resource, and return the outcomes."""
    named = Counter((each.resource_type, each.resource_name) for each in resources)
    return await asyncio.gather(
        *(
            _alter(
                resource,
                change_of(resource),
                context,
                is_only=named[resource.resource_type, resource.resource_name] == 1,
                validate_only=validate_only,
            )
            for resource in resources
        )
    )


async def _alter(
    resource: Resource, change: Change, context: Context, *, is_only: bool, validate_only: bool
) -> Refused:
    try:
        if not is_only:
            raise Refused(ErrorCode.invalid_request, "Each resource must appear at most once.")
        names = [config.name for config in resource.configs]
        if len(set(names)) != len(names):
            raise Refused(ErrorCode.invalid_request, f"A setting is named twice: {names}.")
        await context.configs.alter(
            resource.resource_type, resource.resource_name, change, validate_only=validate_only
        )
    except Refused as refused:
        return refused
    return Refused(ErrorCode.none, "")


def required(name: str, value: str | None) -> str:
    """Return the value. Raise Refused when there is none."""
    if value is None:
        raise Refused(ErrorCode.invalid_request, f"{name} is given no value.")
    return value


def _replacing(resource: AlterConfigsResource) -> Change:
    def change(_old: Settings) -> Settings:
        return {config.name: required(config.name, config.value) for config in resource.configs}

    return change


# --- IncrementalAlterConfigs ----------------------------------------------------------------------
#
# IncrementalAlterConfigs (api 44), versions 0 and 1 (KIP-339).
#
# Behaviour: settings are set (0) or deleted (1), and the others stay; see
# :mod:`broker.server.admin`.
#
# Not modelled: append (2) and subtract (3), because no setting here is a list.


SET = 0
DELETE = 1


async def handle_incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Answer when the settings are in ZooKeeper."""
    results = await alter_each(
        request.resources, _changing, context, validate_only=request.validate_only
    )
    return IncrementalAlterConfigsResponse(
        responses=tuple(
            IncrementalAlterConfigsResourceResponse(
                error_code=result.error,
                error_message=str(result) or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, result in zip(request.resources, results, strict=True)
        ),
    )


def _changing(resource: IncrementalAlterConfigsResource) -> Change:
    def change(old: Settings) -> Settings:
        new = dict(old)
        for config in resource.configs:
            if config.config_operation == SET:
                new[config.name] = required(config.name, config.value)
            elif config.config_operation == DELETE:
                new.pop(config.name, None)
            else:
                raise Refused(ErrorCode.invalid_config, f"{config.name} is not a list.")
        return new

    return change


# --- cluster --------------------------------------------------------------------------------------
#
# Elections, reassignments, registrations.


logger = logging.getLogger(__name__)


# --- ElectLeaders ---------------------------------------------------------------------------------
#
# ElectLeaders (api 43), versions 1 and 2.
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. Type 0 gives
# leaderships to preferred replicas that are in sync (KIP-183). Type 1 lets any online replica lead
# partitions without a leader, which loses records that only the ISR had (KIP-460). A request
# without partitions means all, and those that need no election are left out of the answer. The
# answer comes when the new leaders are written to ZooKeeper; metadata follows. Not modelled:
# ELECTION_NOT_NEEDED for partitions with an election in progress for another request.


PREFERRED = 0
UNCLEAN = 1


async def handle_elect_leaders(
    request: ElectLeadersRequest, context: Context
) -> ElectLeadersResponse:
    """Elect leaders, and answer when that is done, or with REQUEST_TIMED_OUT."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return _election_response(ErrorCode.invalid_request, {})
    try:
        async with asyncio.timeout(request.timeout_ms / 1000):
            outcomes = await context.coordinator.elect_leaders(
                _partitions(request), unclean=request.election_type == UNCLEAN
            )
    except TimeoutError:
        return _election_response(ErrorCode.request_timed_out, {})
    if outcomes is None:
        return _election_response(ErrorCode.not_controller, {})
    return _election_response(ErrorCode.none, outcomes)


def _partitions(request: ElectLeadersRequest) -> tuple[TopicPartition, ...] | None:
    if request.topic_partitions is None:
        return None
    return tuple(
        TopicPartition(entry.topic, number)
        for entry in request.topic_partitions
        for number in entry.partitions
    )


def _election_response(error: ErrorCode, outcomes: Outcomes) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic,
                partition_result=tuple(
                    PartitionResult(
                        partition_id=number,
                        error_code=outcome.error,
                        error_message=outcome.text,
                    )
                    for number, outcome in found
                ),
            )
            for topic, found in by_topic(outcomes).items()
        ),
    )


# --- AlterPartitionReassignments ------------------------------------------------------------------
#
# AlterPartitionReassignments (api 45), version 0 (KIP-455).
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. The answer
# comes when a reassignment has begun, long before it ends: see ListPartitionReassignments. Null
# replicas cancel one.


Targets = dict[TopicPartition, tuple[BrokerId, ...] | None]


async def handle_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Begin reassignments, and answer when that is done, or with REQUEST_TIMED_OUT."""
    try:
        async with asyncio.timeout(request.timeout_ms / 1000):
            outcomes = await context.coordinator.alter_reassignments(_targets(request))
    except TimeoutError:
        return _alteration_response(ErrorCode.request_timed_out, {})
    if outcomes is None:
        return _alteration_response(ErrorCode.not_controller, {})
    return _alteration_response(ErrorCode.none, outcomes)


def _targets(request: AlterPartitionReassignmentsRequest) -> Targets:
    return {
        TopicPartition(topic.name, partition.partition_index): None
        if partition.replicas is None
        else partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }


def _alteration_response(
    error: ErrorCode, outcomes: Outcomes
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=number,
                        error_code=outcome.error,
                        error_message=outcome.text,
                    )
                    for number, outcome in begun
                ),
            )
            for topic, begun in by_topic(outcomes).items()
        ),
    )


# --- ListPartitionReassignments -------------------------------------------------------------------
#
# ListPartitionReassignments (api 46), version 0 (KIP-455).
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. The
# reassignments are read from the topics' znodes, where the controller keeps them. Partitions that
# are not being reassigned, or do not exist, are left out.


Moving = Mapping[str, Mapping[int, ReplicaAssignment]]


async def handle_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Answer with the present content of ZooKeeper."""
    if not context.coordinator.active:
        return _reassignments_response(ErrorCode.not_controller, {})
    if request.topics is None:
        found = await context.topics.assignments(None)
        return _reassignments_response(ErrorCode.none, _moving(found))
    wanted = {topic.name: set(topic.partition_indexes) for topic in request.topics}
    moving = _moving(await context.topics.assignments(wanted))
    named = {
        topic: {number: move for number, move in moves.items() if number in wanted[topic]}
        for topic, moves in moving.items()
    }
    return _reassignments_response(ErrorCode.none, named)


def _moving(found: Mapping[str, TopicAssignment]) -> Moving:
    return {
        topic: {
            number: part
            for number, part in assignment.partitions.items()
            if part.adding or part.removing
        }
        for topic, assignment in found.items()
    }


def _reassignments_response(error: ErrorCode, moving: Moving) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        topics=tuple(
            OngoingTopicReassignment(
                name=topic,
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=number,
                        replicas=move.replicas,
                        adding_replicas=move.adding,
                        removing_replicas=move.removing,
                    )
                    for number, move in moves.items()
                ),
            )
            for topic, moves in moving.items()
            if moves
        ),
    )


# --- UnregisterBroker -----------------------------------------------------------------------------
#
# UnregisterBroker (api 64), version 0: ``kafka-cluster unregister --id N``.
#
# Behaviour: served only without a controller, by any broker. There a broker has a queue in
# ZooKeeper that outlives it (*Design V2*, the remove-brokers command). Refused with INVALID_REQUEST
# while the broker runs or has replicas, which Kafka's KRaft controllers allow.


async def handle_unregister_broker(
    request: UnregisterBrokerRequest, context: Context
) -> UnregisterBrokerResponse:
    """Answer when the broker is forgotten."""
    outcome = await context.coordinator.remove_broker(BrokerId(request.broker_id))
    if outcome.text is not None:  # the clients of Kafka 3 show only the code of it
        logger.warning("UnregisterBroker refused: %s", outcome.text)
    return UnregisterBrokerResponse(error_code=outcome.error, error_message=outcome.text)
