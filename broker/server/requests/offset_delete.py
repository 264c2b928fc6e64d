"""OffsetDelete (api 47), version 0.

Behaviour: :mod:`broker.groups.requests.commits`; offsets of topics that a member is subscribed to
stay (KIP-496).
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import DeleteOffsets, OffsetsAnswer
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


async def handle(request: OffsetDeleteRequest, context: Context) -> OffsetDeleteResponse:
    """Answers when the offsets are gone from the log, too."""
    partitions = frozenset(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    async with context.groups.turns.mine():
        await context.metadata.refresh({tp.topic for tp in partitions})
        known = frozenset(tp for tp in partitions if tp in context.metadata)
        begun = context.groups.begin(DeleteOffsets, request.group_id, partitions=known)
    deleted = await begun
    assert isinstance(deleted, OffsetsAnswer)
    unknown = ErrorCode.unknown_topic_or_partition
    return OffsetDeleteResponse(
        error_code=deleted.error,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
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
