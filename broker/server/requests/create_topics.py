"""CreateTopics (api 19), versions 2 to 4.

Behaviour: only the controller's broker serves it, others say NOT_CONTROLLER. Names, counts,
assignments and settings are validated; then the topic is written to ZooKeeper and the answer
waits, up to ``timeout``, until this broker sees a leader of every partition.
Not modelled: policies, quotas.

v4 default counts (-1).
"""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin.topics import Refused, TopicSpec
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.topic_names import CLUSTER_METADATA_TOPIC
from ackproof.broker.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


async def handle(request: CreateTopicsRequest, context: Context) -> CreateTopicsResponse:
    """Answers when the topics are led, or with REQUEST_TIMED_OUT."""
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
