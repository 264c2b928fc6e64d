"""Requests that create topics, add partitions, and delete topics."""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin.topics import Refused, TopicSpec
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.topic_names import CLUSTER_METADATA_TOPIC
from ackproof.broker.types import BrokerId
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
# :mod:`broker.controller.deletion`.
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
