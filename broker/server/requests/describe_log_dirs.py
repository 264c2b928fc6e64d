"""DescribeLogDirs (api 35), versions 1 to 4.

Behaviour: each of this broker's log directories with the replicas in it: the bytes of their
segments, and how far their log end is behind their high watermark (KIP-113). Partitions that are
asked for and not here are left out. A directory that cannot be looked at has KAFKA_STORAGE_ERROR.
Not modelled: moving a replica between directories (no log is ever a future one).

v2 flexible, v3 error_code, v4 size of the volume and what is free of it (KIP-827).
"""

import shutil
from collections.abc import Iterable
from pathlib import Path

from kio.schema.errors import ErrorCode

from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

UNKNOWN = -1


def handle(request: DescribeLogDirsRequest, context: Context) -> DescribeLogDirsResponse:
    """Answers at once."""
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
