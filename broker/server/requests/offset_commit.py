"""OffsetCommit (api 8), versions 2 to 8.

Behaviour: :mod:`broker.groups.requests.commits`; answered when the commit is in the log of every
in-sync replica. Partitions that this broker has never heard of are refused. A retention time sent
by the client (v2 to v4) is ignored: ``offsets.retention.minutes`` counts for all (KIP-211).
Not modelled: offsets committed in transactions.

v6 committed_leader_epoch, v7 group_instance_id, v8 flexible.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Commit, OffsetAndMetadata, OffsetsAnswer
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


async def handle(request: OffsetCommitRequest, context: Context) -> OffsetCommitResponse:
    """Answers when the offsets are stored."""
    asked = {
        TopicPartition(topic.name, partition.partition_index): _offset(partition)
        for topic in request.topics
        for partition in topic.partitions
    }
    async with context.groups.turns.mine():
        await context.metadata.refresh({tp.topic for tp in asked})
        known = {tp: offset for tp, offset in asked.items() if tp in context.metadata}
        begun = context.groups.begin(
            Commit,
            request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            offsets=known,
        )
    committed = await begun
    assert isinstance(committed, OffsetsAnswer)
    errors = dict.fromkeys(asked, ErrorCode.unknown_topic_or_partition)
    errors.update(dict.fromkeys(known, committed.error))
    errors.update(committed.partitions)
    return _respond(request, errors)


def _offset(partition: OffsetCommitRequestPartition) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
    )


def _respond(
    request: OffsetCommitRequest, errors: dict[TopicPartition, ErrorCode]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors[TopicPartition(topic.name, partition.partition_index)],
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
