"""Requests about the logs of partitions: offsets by timestamp, leader epochs, deletion of records,
log directories."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.events import DeleteRecords
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.topic_names import is_internal
from ackproof.broker.types import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_EPOCH,
    NO_OFFSET,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from ackproof.broker.wire.batch import CorruptBatch
from ackproof.broker.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ackproof.broker.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from ackproof.broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ackproof.broker.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

# --- ListOffsets ----------------------------------------------------------------------------------
#
# ListOffsets (api 2), versions 1 to 9.
#
# Behaviour, by timestamp:
#
# - -1: the high watermark for consumers and the log end for followers.
# - -2: the log's start.
# - -3: the first of the youngest records (KIP-734).
# - -4: the start of what is on this disk, which is all (KIP-405).
# - -5: the end of what is elsewhere, which is nothing (KIP-1005).
# - Any other: the first offset whose record is not older.
#
# The last one and -3 are below the high watermark for consumers, or unknown. Deleted records
# (DeleteRecords) are never reported. Kafka looks for -3 in whole segments, and may report an offset
# below the log's start. A new leader's high watermark may be behind what was committed under the
# last one. Until it has reached the start of its epoch, a consumer gets OFFSET_NOT_AVAILABLE
# instead of an earlier end (KIP-207). If the disk cannot be read, the answer is
# KAFKA_STORAGE_ERROR, as with Fetch, and the broker halts. Not modelled: transactions (both
# isolation levels are the same).
#
# v4 leader epochs, v5 OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE before), v6 flexible, v7 -3, v8
# -4, v9 -5.


OFFSET_NOT_AVAILABLE_SINCE = 5
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
STARTS = (EARLIEST_TIMESTAMP, EARLIEST_LOCAL)
NEEDS_NO_HIGH_WATERMARK = (*STARTS, LATEST_TIERED)
NOT_FOUND = (-1, NO_OFFSET)


def handle_list_offsets(request: ListOffsetsRequest, context: Context) -> ListOffsetsResponse:
    """Answer at once."""
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
        timestamp, offset = _find_offset(partition, asked.timestamp, bound)
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


def _find_offset(partition: Partition, timestamp: int, bound: Offset) -> tuple[int, Offset]:
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
    """Return the error while the high watermark has not reached the start of this leader's
    epoch."""
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


# --- OffsetForLeaderEpoch -------------------------------------------------------------------------
#
# OffsetForLeaderEpoch (api 23), versions 2 to 4.
#
# Behaviour: the end of the requested epoch in this leader's log (KIP-101, KIP-279, KIP-320).
# Followers truncate by it, and consumers detect truncation.
#
# v2 current_leader_epoch, v3 replica_id, v4 flexible.


def handle_offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: Context
) -> OffsetForLeaderEpochResponse:
    """Answer at once."""
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
    """Return the follower that asks, or None for a consumer, or for a follower too old to name
    itself."""
    return request.replica_id if request.replica_id >= 0 else None


def _end_offset(
    tp: TopicPartition,
    asked: OffsetForLeaderPartition,
    follower: BrokerId | None,
    context: Context,
) -> EpochEndOffset:
    error, epoch, end = _find_epoch_end(tp, asked, follower, context)
    return EpochEndOffset(
        error_code=error,
        partition=tp.partition,
        leader_epoch=epoch,
        end_offset=end,
    )


def _find_epoch_end(
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


# --- DeleteRecords --------------------------------------------------------------------------------
#
# DeleteRecords (api 21), versions 0 to 2.
#
# Behaviour: the leader moves its log's start to the requested offset (-1: its high watermark),
# never above the high watermark. Followers learn it from their next fetch. The answer waits, up to
# ``timeout``, until every replica on a live broker has followed, and has the low watermark.
# Internal topics keep their records. Not modelled: POLICY_VIOLATION for compacted topics, which do
# not exist here.
#
# v2 flexible.


TO_HIGH_WATERMARK = -1

Targets = dict[TopicPartition, Offset | ErrorCode]


async def handle_delete_records(
    request: DeleteRecordsRequest, context: Context
) -> DeleteRecordsResponse:
    """Answer when the replicas have followed, or with REQUEST_TIMED_OUT."""
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
    """Return the offset up to which the leader has deleted its records, or the error if it
    has not."""
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
"""The answer if nothing more happens."""


def _reached(
    tp: TopicPartition, target: Offset | ErrorCode, context: Context
) -> tuple[ErrorCode, Offset]:
    """Return the present error code and low watermark."""
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


# --- DescribeLogDirs ------------------------------------------------------------------------------
#
# DescribeLogDirs (api 35), versions 1 to 4.
#
# Behaviour: each of this broker's log directories with the replicas in it: the bytes of their
# segments, and how far their log end is behind their high watermark (KIP-113). Requested partitions
# that are not here are left out. A directory that cannot be read has KAFKA_STORAGE_ERROR.
#
# Not modelled: moving a replica between directories (no log is ever a future one).
#
# v2 flexible, v3 error_code, v4 size of the volume and its free space (KIP-827).


UNKNOWN = -1


def handle_describe_log_dirs(
    request: DescribeLogDirsRequest, context: Context
) -> DescribeLogDirsResponse:
    """Answer at once."""
    wanted = _wanted(request)
    found = [p for p in context.replicas if wanted is None or p.tp in wanted]
    return DescribeLogDirsResponse(
        error_code=ErrorCode.none,
        results=tuple(_directory(path, found) for path in context.config.log_dirs),
    )


def _wanted(request: DescribeLogDirsRequest) -> set[TopicPartition] | None:
    if request.topics is None:
        return None
    return {
        TopicPartition(topic.topic, partition)
        for topic in request.topics
        for partition in topic.partitions
    }


def _directory(path: Path, partitions: Iterable[Partition]) -> DescribeLogDirsResult:
    error, total, usable = ErrorCode.none, UNKNOWN, UNKNOWN
    try:
        total, _, usable = shutil.disk_usage(path)
    except OSError:
        error = ErrorCode.kafka_storage_error
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in partitions:
        if partition.log.directory.parent == path:
            topics.setdefault(partition.tp.topic, []).append(_partition(partition))
    return DescribeLogDirsResult(
        error_code=error,
        log_dir=str(path.absolute()),
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(here)) for name, here in topics.items()
        ),
        total_bytes=total,
        usable_bytes=usable,
    )


def _partition(partition: Partition) -> DescribeLogDirsPartition:
    behind = partition.replica.high_watermark - partition.log.log_end_offset
    return DescribeLogDirsPartition(
        partition_index=partition.tp.partition,
        partition_size=partition.log.size,
        offset_lag=max(behind, 0),
        is_future_key=False,
    )
