"""OffsetForLeaderEpoch (api 23), versions 2 to 4.

Behaviour: where the asked epoch ended in this leader's log (KIP-101, KIP-279, KIP-320); followers
truncate by it, consumers find out about truncation.

v2 current_leader_epoch, v3 replica_id, v4 flexible.
"""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)

from broker.server.replication.partition import Partition
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition

NOBODY = -1
"""In place of a follower's id: a consumer asks, or a follower too old to say who it is."""

REPLICA_ID_SINCE = 3


def handle(request: OffsetForLeaderEpochRequest, context: Context) -> Any:
    """Answers at once."""
    answer = Answer.to(request)
    return answer(
        "OffsetForLeaderEpochResponse",
        throttle_time=NO_THROTTLE,
        topics=tuple(
            answer(
                "OffsetForLeaderTopicResult",
                topic=topic.topic,
                partitions=tuple(
                    _end_offset(
                        TopicPartition(topic.topic, partition.partition),
                        partition,
                        _follower(request),
                        answer,
                        context,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _follower(request: OffsetForLeaderEpochRequest) -> BrokerId | None:
    replica = request.replica_id if request.__version__ >= REPLICA_ID_SINCE else NOBODY
    return BrokerId(replica) if replica >= 0 else None


def _end_offset(
    tp: TopicPartition,
    asked: OffsetForLeaderPartition,
    follower: BrokerId | None,
    answer: Answer,
    context: Context,
) -> Any:
    error, epoch, end = _find(tp, asked, follower, context)
    return answer(
        "EpochEndOffset",
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
        return partition, NO_EPOCH, Offset(-1)
    error = partition.replica.check_leader(LeaderEpoch(asked.current_leader_epoch), follower)
    if error is not ErrorCode.none:
        return error, NO_EPOCH, Offset(-1)
    epoch, end = partition.replica.end_offset_for_epoch(LeaderEpoch(asked.leader_epoch))
    return ErrorCode.none, epoch, end
