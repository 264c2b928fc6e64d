"""ListOffsets (api 2), versions 1 to 6.

Behaviour: -1 is the high watermark for consumers and the log end for followers, -2 the log's
start; any other timestamp is the first offset whose record is not older, below the high watermark
for consumers.
Not modelled: transactions (both isolation levels see the same), the largest timestamp (v7),
OFFSET_NOT_AVAILABLE right after an election (KIP-207).

v4 leader epochs, v6 flexible.
"""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v6.request import ListOffsetsPartition, ListOffsetsRequest

from broker.server.partition import Partition
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition

LATEST = -1
EARLIEST = -2
NO_OFFSET = Offset(-1)
NOT_FOUND = (-1, NO_OFFSET)


def handle(request: ListOffsetsRequest, context: Context) -> Any:
    """Answers at once."""
    answer = Answer.to(request)
    return answer(
        "ListOffsetsResponse",
        throttle_time=NO_THROTTLE,
        topics=tuple(
            answer(
                "ListOffsetsTopicResponse",
                name=topic.name,
                partitions=tuple(
                    _list(
                        TopicPartition(topic.name, partition.partition_index),
                        partition,
                        request.replica_id,
                        answer,
                        context,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _list(
    tp: TopicPartition,
    asked: ListOffsetsPartition,
    replica_id: int,
    answer: Answer,
    context: Context,
) -> Any:
    partition = context.replicas.hosted(tp)
    if not isinstance(partition, Partition):
        return _entry(answer, tp, partition)
    epoch = getattr(asked, "current_leader_epoch", -1)
    error = partition.replica.check_leader(LeaderEpoch(epoch) if epoch >= 0 else None)
    if error is not ErrorCode.none:
        return _entry(answer, tp, error)
    bound = partition.replica.read_bound(BrokerId(replica_id) if replica_id >= 0 else None)
    timestamp, offset = _find(partition, asked.timestamp, bound)
    return _entry(answer, tp, ErrorCode.none, timestamp, offset, partition.replica.leader_epoch)


def _find(partition: Partition, timestamp: int, bound: Offset) -> tuple[int, Offset]:
    if timestamp == LATEST:
        return -1, bound
    if timestamp == EARLIEST:
        return -1, partition.log.log_start_offset
    found = partition.log.offset_for_timestamp(timestamp)
    return (found[1], found[0]) if found is not None and found[0] < bound else NOT_FOUND


def _entry(
    answer: Answer,
    tp: TopicPartition,
    error: ErrorCode,
    timestamp: int = -1,
    offset: Offset = NO_OFFSET,
    leader_epoch: LeaderEpoch = NO_EPOCH,
) -> Any:
    return answer(
        "ListOffsetsPartitionResponse",
        partition_index=tp.partition,
        error_code=error,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )
