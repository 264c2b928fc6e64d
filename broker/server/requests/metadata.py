"""Metadata (api 3), versions 1 to 9.

Behaviour: the controller's last message to this broker, or the content of ZooKeeper without a
controller (:mod:`broker.server.metadata_cache`). It may be out of date; clients then get
NOT_LEADER_OR_FOLLOWER and ask again. With ``auto.create.topics.enable`` an unknown topic is
created, and LEADER_NOT_AVAILABLE is answered until it exists.

Not modelled: topic ids (v10), authorized operations.

- v2: cluster_id.
- v4: allow_auto_topic_creation. Before, a request for a topic also creates it.
- v5: offline_replicas.
- v7: leader_epoch, which clients use only from v9 on (KIP-320: before Kafka 2.4 it could be out of
  date during a reassignment).

Without an epoch, clients neither validate offsets nor are fenced. Suppose a consumer reads from a
follower that is elected. It continues to read there, and still takes the former leader for the
leader. If that one is back and has not caught up, it is asked next, has nothing at that offset, and
the consumer starts again.
"""

from collections.abc import Awaitable

from kio.schema.errors import ErrorCode

from ackproof.broker.server.metadata_cache import PartitionMetadata
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.topic_names import OFFSETS_TOPIC, is_internal
from ackproof.broker.types import NO_LEADER
from ackproof.broker.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


def handle_metadata(
    request: MetadataRequest, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    """Answer at once, unless topics must be created, or looked up."""
    names = None if request.topics is None else [topic.name for topic in request.topics]
    if context.metadata.is_fresh(names):
        return _answer(request, names, context)
    return _look_up(request, names, context)


async def _look_up(
    request: MetadataRequest, names: list[str] | None, context: Context
) -> MetadataResponse:
    await context.metadata.refresh(names)
    answer = _answer(request, names, context)
    return await answer if isinstance(answer, Awaitable) else answer


def _answer(
    request: MetadataRequest, names: list[str] | None, context: Context
) -> MetadataResponse | Awaitable[MetadataResponse]:
    if names is None:
        return _respond(dict.fromkeys(context.metadata.topics, ErrorCode.none), context)
    unknown = [name for name in names if name not in context.metadata.topics]
    errors = dict.fromkeys(names, ErrorCode.none)
    errors.update(dict.fromkeys(unknown, ErrorCode.unknown_topic_or_partition))
    if unknown and request.allow_auto_topic_creation and context.config.auto_create_topics_enable:
        return _create(errors, unknown, context)
    return _respond(errors, context)


async def _create(
    errors: dict[str, ErrorCode], unknown: list[str], context: Context
) -> MetadataResponse:
    for name in unknown:
        if name == OFFSETS_TOPIC:
            errors[name] = await context.groups.topic.create_automatically()
        else:
            errors[name] = await context.topics.create_automatically(name)
    return _respond(errors, context)


def _respond(errors: dict[str, ErrorCode], context: Context) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(
                node_id=broker.id,
                host=broker.listener.host,
                port=broker.listener.port,
                rack=broker.rack,
            )
            for broker in context.metadata.brokers.values()
        ),
        cluster_id=context.cluster_id,
        controller_id=context.metadata.controller,
        topics=tuple(_topic(name, error, context) for name, error in errors.items()),
    )


def _topic(name: str, error: ErrorCode, context: Context) -> MetadataResponseTopic:
    partitions = context.metadata.topics.get(name, {})
    return MetadataResponseTopic(
        error_code=error,
        name=name,
        is_internal=is_internal(name),
        partitions=tuple(
            _partition(index, partition) for index, partition in sorted(partitions.items())
        ),
    )


def _partition(index: int, partition: PartitionMetadata) -> MetadataResponsePartition:
    led = partition.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.none if led else ErrorCode.leader_not_available,
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=partition.offline_replicas,
    )
