"""OffsetForLeaderEpoch (api 23), versions 2 to 4.

Behaviour: where the asked epoch ended in this leader's log (KIP-101, KIP-279, KIP-320); followers
truncate by it, consumers find out about truncation.

v2 current_leader_epoch, v3 replica_id, v4 flexible.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import NO_EPOCH, NO_OFFSET, BrokerId, LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> OffsetForLeaderEpochResponse:
    """Answers at once."""
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _end_offset(
                        TopicPartition(topic.topic, partition.partition),
                        partition,
                        _follower(request),
                        context,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _follower(request: OffsetForLeaderEpochRequest) -> BrokerId | None:
    """None: a consumer asks, or a follower too old to say who it is."""
    return request.replica_id if request.replica_id >= 0 else None


def _end_offset(
    tp: TopicPartition,
    asked: OffsetForLeaderPartition,
    follower: BrokerId | None,
    context: Context,
) -> EpochEndOffset:
    error, epoch, end = _find(tp, asked, follower, context)
    return EpochEndOffset(
        error_code=error,
        partition=tp.partition,
        leader_epoch=epoch,
        end_offset=end,
    )


def _find(
    tp: TopicPartition,
    asked: OffsetForLeaderPartition,
    follower: BrokerId | None,
    context: Context,
) -> tuple[ErrorCode, LeaderEpoch, Offset]:
    partition = context.replicas.hosted(tp)
    if not isinstance(partition, Partition):
        return partition, NO_EPOCH, NO_OFFSET
    error = partition.replica.check_leader(asked.current_leader_epoch, follower)
    if error is not ErrorCode.none:
        return error, NO_EPOCH, NO_OFFSET
    epoch, end = partition.replica.end_offset_for_epoch(asked.leader_epoch)
    return ErrorCode.none, epoch, end
