"""OffsetDelete (api 47), version 0.

Behaviour: :mod:`broker.groups.commits`; offsets of topics that a member is subscribed to stay
(KIP-496).
"""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest

from broker.groups.events import DeleteOffsets, OffsetsAnswer
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.types import TopicPartition


async def handle(request: OffsetDeleteRequest, context: Context) -> Any:
    """Answers when the offsets are gone from the log, too."""
    answer = Answer.to(request)
    partitions = frozenset(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    await context.metadata.refresh({tp.topic for tp in partitions})
    known = frozenset(tp for tp in partitions if tp in context.metadata)
    deleted = await context.groups.ask(
        DeleteOffsets, OffsetsAnswer, request.group_id, partitions=known
    )
    unknown = ErrorCode.unknown_topic_or_partition
    return answer(
        "OffsetDeleteResponse",
        throttle_time=NO_THROTTLE,
        error_code=deleted.error,
        topics=tuple(
            answer(
                "OffsetDeleteResponseTopic",
                name=topic.name,
                partitions=tuple(
                    answer(
                        "OffsetDeleteResponsePartition",
                        partition_index=partition.partition_index,
                        error_code=deleted.partitions.get(
                            TopicPartition(topic.name, partition.partition_index), unknown
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
        if deleted.error is ErrorCode.none
        else (),
    )
