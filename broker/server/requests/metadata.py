"""Metadata (api 3), versions 1 to 8.

Behaviour: what the controller last told this broker, or what ZooKeeper says where there is none
(:mod:`broker.server.metadata_cache`); it may be behind the truth, clients then hear
NOT_LEADER_OR_FOLLOWER and ask again. With
``auto.create.topics.enable`` an unknown topic is created and LEADER_NOT_AVAILABLE is answered
until it is there.
Not modelled: topic ids (v10), authorized operations. Not v9 either, which is v8 in flexible
encoding: librdkafka 2.16 asks for all topics in v9 with a count of four bytes where one of one
belongs, and a byte is left over, which Kafka does not look at and we refuse.

v2 cluster_id, v4 allow_auto_topic_creation, v5 offline_replicas, v7 leader_epoch.
"""

import inspect
from collections.abc import Awaitable
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.request import MetadataRequest

from broker.server.metadata_cache import PartitionMetadata
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.server.topic_names import OFFSETS_TOPIC, is_internal
from broker.types import NO_LEADER

ALLOW_SINCE = 4
"""Before, whoever asks for a topic wants it to be created."""


def handle(request: MetadataRequest, context: Context) -> Any | Awaitable[Any]:
    """Answers at once, unless topics are to be created, or looked up."""
    names = None if request.topics is None else [str(topic.name) for topic in request.topics]
    if context.metadata.is_fresh(names):
        return _answer(request, names, context)
    return _look_up(request, names, context)


async def _look_up(request: MetadataRequest, names: list[str] | None, context: Context) -> Any:
    await context.metadata.refresh(names)
    answer = _answer(request, names, context)
    return await answer if inspect.isawaitable(answer) else answer


def _answer(
    request: MetadataRequest, names: list[str] | None, context: Context
) -> Any | Awaitable[Any]:
    if names is None:
        return _respond(request, dict.fromkeys(context.metadata.topics, ErrorCode.none), context)
    unknown = [name for name in names if name not in context.metadata.topics]
    errors = dict.fromkeys(names, ErrorCode.none)
    errors.update(dict.fromkeys(unknown, ErrorCode.unknown_topic_or_partition))
    wanted = request.__version__ < ALLOW_SINCE or request.allow_auto_topic_creation
    if unknown and wanted and context.config.auto_create_topics_enable:
        return _create(request, errors, unknown, context)
    return _respond(request, errors, context)


async def _create(
    request: MetadataRequest, errors: dict[str, ErrorCode], unknown: list[str], context: Context
) -> Any:
    for name in unknown:
        if name == OFFSETS_TOPIC:
            errors[name] = await context.groups.topic.create_automatically()
        else:
            errors[name] = await context.topics.create_automatically(name)
    return _respond(request, errors, context)


def _respond(request: MetadataRequest, errors: dict[str, ErrorCode], context: Context) -> Any:
    answer = Answer.to(request)
    return answer(
        "MetadataResponse",
        throttle_time=NO_THROTTLE,
        brokers=tuple(
            answer(
                "MetadataResponseBroker",
                node_id=broker.id,
                host=broker.listener.host,
                port=broker.listener.port,
                rack=broker.rack,
            )
            for broker in context.metadata.brokers.values()
        ),
        cluster_id=context.cluster_id,
        controller_id=context.metadata.controller,
        topics=tuple(_topic(answer, name, error, context) for name, error in errors.items()),
    )


def _topic(answer: Answer, name: str, error: ErrorCode, context: Context) -> Any:
    partitions = context.metadata.topics.get(name, {})
    return answer(
        "MetadataResponseTopic",
        error_code=error,
        name=name,
        is_internal=is_internal(name),
        partitions=tuple(
            _partition(answer, index, partition) for index, partition in sorted(partitions.items())
        ),
    )


def _partition(answer: Answer, index: int, partition: PartitionMetadata) -> Any:
    led = partition.leader != NO_LEADER
    return answer(
        "MetadataResponsePartition",
        error_code=ErrorCode.none if led else ErrorCode.leader_not_available,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=partition.offline_replicas,
    )
