"""DeleteRecords (api 21), versions 0 to 2.

Behaviour: the leader moves its log's start to the offset asked for (-1: its high watermark), never
above the high watermark; followers hear of it with their next fetch. The answer waits, up to
``timeout``, until every replica on a live broker has followed: it then carries the low watermark.
Internal topics keep their records.
Not modelled: POLICY_VIOLATION for compacted topics, which there are none of.

v2 flexible.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.events import DeleteRecords
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.topic_names import is_internal
from ackproof.broker.types import NO_OFFSET, Offset, TopicPartition
from ackproof.broker.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_HIGH_WATERMARK = -1

Targets = dict[TopicPartition, Offset | ErrorCode]


async def handle(request: DeleteRecordsRequest, context: Context) -> DeleteRecordsResponse:
    """Answers when the replicas have followed, or with REQUEST_TIMED_OUT."""
    targets: Targets = {
        tp: _delete(tp, partition.offset, context)
        for topic in request.topics
        for partition in topic.partitions
        for tp in [TopicPartition(topic.name, partition.partition_index)]
    }
    if not _all_settled(targets, context):
        await context.purgatory.wait(
            targets,
            request.timeout_ms / 1000,
            look=lambda _woken: _all_settled(targets, context),
            answer=lambda: None,
        )
    return DeleteRecordsResponse(
        topics=tuple(
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    _result(
                        TopicPartition(topic.name, partition.partition_index),
                        targets,
                        context,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _delete(tp: TopicPartition, offset: Offset, context: Context) -> Offset | ErrorCode:
    """The offset up to which the leader has given up its records, or why it has not."""
    if is_internal(tp.topic):
        return ErrorCode.invalid_topic_exception
    partition = context.replicas.hosted(tp)
    if not isinstance(partition, Partition):
        return partition
    error = partition.replica.check_leader(None)
    if error is not ErrorCode.none:
        return error
    high_watermark = partition.replica.high_watermark
    target = high_watermark if offset == TO_HIGH_WATERMARK else offset
    if not 0 <= target <= high_watermark:
        return ErrorCode.offset_out_of_range
    partition.step(DeleteRecords(offset=target))
    return target


def _all_settled(targets: Targets, context: Context) -> bool:
    return all(_reached(tp, target, context)[0] is not _LATER for tp, target in targets.items())


_LATER = ErrorCode.request_timed_out
"""What is answered if nothing more happens."""


def _reached(
    tp: TopicPartition, target: Offset | ErrorCode, context: Context
) -> tuple[ErrorCode, Offset]:
    """How far it is by now: the error code, and the low watermark."""
    if isinstance(target, ErrorCode):
        return target, NO_OFFSET
    partition = context.replicas.hosted(tp)
    if not isinstance(partition, Partition):
        return partition, NO_OFFSET
    error = partition.replica.check_leader(None)
    if error is not ErrorCode.none:
        return error, NO_OFFSET
    low_watermark = partition.replica.low_watermark_among(context.metadata.brokers)
    if low_watermark < target:
        return _LATER, NO_OFFSET
    return ErrorCode.none, low_watermark


def _result(tp: TopicPartition, targets: Targets, context: Context) -> DeleteRecordsPartitionResult:
    error, low_watermark = _reached(tp, targets[tp], context)
    return DeleteRecordsPartitionResult(
        partition_index=tp.partition,
        low_watermark=low_watermark,
        error_code=error,
    )
