"""ListOffsets (api 2), versions 1 to 9.

Behaviour: -1 is the high watermark for consumers and the log end for followers, -2 the log's
start, -3 the first of the youngest records (KIP-734), -4 the start of what is on this disk, which
is all (KIP-405), -5 the end of what is elsewhere, which is nothing (KIP-1005); any other timestamp
is the first offset whose record is not older. It and -3 are below the high watermark for
consumers, or unknown. Of records that were given up (DeleteRecords) none is told: Kafka looks for
-3 in whole segments, and may tell an offset below the log's start. A new leader's high watermark
may be behind what was committed under the last one; until it has reached the start of its epoch, a
consumer is told OFFSET_NOT_AVAILABLE rather than an end from before (KIP-207).
A disk that cannot be read costs KAFKA_STORAGE_ERROR, as with Fetch, and the broker halts.
Not modelled: transactions (both isolation levels see the same).

v4 leader epochs, v5 OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE before), v6 flexible, v7 -3,
v8 -4, v9 -5.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_EPOCH,
    NO_OFFSET,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from ackproof.broker.wire.batch import CorruptBatch
from ackproof.broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

OFFSET_NOT_AVAILABLE_SINCE = 5
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
STARTS = (EARLIEST_TIMESTAMP, EARLIEST_LOCAL)
NEEDS_NO_HIGH_WATERMARK = (*STARTS, LATEST_TIERED)
NOT_FOUND = (-1, NO_OFFSET)


def handle(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Answers at once."""
    return ListOffsetsResponse(
        topics=tuple(
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _list(
                        TopicPartition(topic.name, partition.partition_index),
                        partition,
                        request,
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
    request: ListOffsetsRequest,
    context: Context,
) -> ListOffsetsPartitionResponse:
    partition = context.replicas.hosted(tp)
    if not isinstance(partition, Partition):
        return _entry(tp, partition)
    follower = request.replica_id if request.replica_id >= 0 else None
    error = partition.replica.check_leader(asked.current_leader_epoch, follower)
    if error is not ErrorCode.none:
        return _entry(tp, error)
    bound = partition.replica.read_bound(follower)
    try:
        timestamp, offset = _find(partition, asked.timestamp, bound)
    except CorruptBatch:
        return _entry(tp, ErrorCode.corrupt_message)
    except OSError as refusal:
        partition.fail(refusal)
        return _entry(tp, ErrorCode.kafka_storage_error)
    bounded = follower is None and asked.timestamp not in NEEDS_NO_HIGH_WATERMARK
    if bounded and offset in (bound, NO_OFFSET):
        error = _unless_behind(partition, request.version)
    if error is not ErrorCode.none:
        return _entry(tp, error)
    return _entry(tp, ErrorCode.none, timestamp, offset, partition.replica.leader_epoch)


def _find(partition: Partition, timestamp: int, bound: Offset) -> tuple[int, Offset]:
    if timestamp == LATEST_TIMESTAMP:
        return -1, bound
    if timestamp in STARTS:
        return -1, partition.log.log_start_offset
    if timestamp == LATEST_TIERED:
        return NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        timestamp = partition.log.max_timestamp
    found = partition.log.offset_for_timestamp(timestamp)
    return (found[1], found[0]) if found is not None and found[0] < bound else NOT_FOUND


def _unless_behind(partition: Partition, version: int) -> ErrorCode:
    """The error while the high watermark has not reached the start of this leader's epoch."""
    _, epoch_start = partition.replica.epochs[-1]
    if partition.replica.high_watermark >= epoch_start:
        return ErrorCode.none
    old = version < OFFSET_NOT_AVAILABLE_SINCE
    return ErrorCode.leader_not_available if old else ErrorCode.offset_not_available


def _entry(
    tp: TopicPartition,
    error: ErrorCode,
    timestamp: int = -1,
    offset: Offset = NO_OFFSET,
    leader_epoch: LeaderEpoch = NO_EPOCH,
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=tp.partition,
        error_code=error,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )
