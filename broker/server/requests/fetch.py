"""Fetch (api 1), versions 4 to 11, from consumers and from followers.

Behaviour: reads up to ``max_bytes`` over all partitions in the order asked, with at least one
batch of the first partition that has any (KIP-74). Waits for ``min_bytes`` up to ``max_wait`` in
the purgatory. A follower's fetch tells the leader what the follower has (seed 002, 1.3), after
the read and before the answer. Consumers see the log up to the high watermark.
Not modelled: fetch sessions (KIP-227; every answer has session id 0, which tells the client that
there is none), transactions (last stable offset = high watermark), reading from followers
(KIP-392), truncation on fetch (KIP-595), quotas.

v5 log_start_offset, v7 sessions, v9 current_leader_epoch, v11 rack_id.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest

from broker.log.partition_log import OffsetOutOfRange
from broker.replication.events import FollowerFetch
from broker.server.partition import Partition
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.types import BrokerId, LeaderEpoch, Offset, TopicPartition

CONSUMER = -1
"""``replica_id`` of a consumer."""

NO_OFFSET = Offset(-1)


@dataclass(frozen=True, slots=True)
class _Read:
    tp: TopicPartition
    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    records: bytes = b""


def handle(request: FetchRequest, context: Context) -> Any | Awaitable[Any]:
    """Answers at once when there is enough, else when there is or time is over."""
    if getattr(request, "session_id", 0) != 0:
        return _respond(request, (), ErrorCode.fetch_session_id_not_found)
    reads = _read(request, context, first=True)
    if _enough(request, reads):
        return _respond(request, reads)
    return _wait(request, context)


async def _wait(request: FetchRequest, context: Context) -> Any:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.max_wait.total_seconds()
    with context.purgatory.watch(_partitions(request)) as watch:
        while True:
            reads = _read(request, context, first=False)
            if _enough(request, reads) or not await watch.woken(deadline - loop.time()):
                return _respond(request, reads)


def _partitions(request: FetchRequest) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic, partition.partition)
        for topic in request.topics
        for partition in topic.partitions
    )


def _enough(request: FetchRequest, reads: Sequence[_Read]) -> bool:
    return (
        not reads
        or request.max_wait <= timedelta(0)
        or any(read.error is not ErrorCode.none for read in reads)
        or sum(len(read.records) for read in reads) >= request.min_bytes
    )


def _read(request: FetchRequest, context: Context, *, first: bool) -> list[_Read]:
    """Reads every partition; ``first``: a follower's offset is news to its leader."""
    left = min(request.max_bytes, context.config.fetch_max_bytes)
    at_least_one = True
    reads = []
    for topic in request.topics:
        for asked in topic.partitions:
            tp = TopicPartition(topic.topic, asked.partition)
            max_bytes = min(left, asked.partition_max_bytes)
            read = _read_partition(
                tp, asked, request.replica_id, context, max_bytes, at_least_one, first
            )
            at_least_one = at_least_one and not read.records
            left = max(0, left - len(read.records))
            reads.append(read)
    return reads


def _read_partition(
    tp: TopicPartition,
    asked: FetchPartition,
    replica_id: int,
    context: Context,
    max_bytes: int,
    at_least_one: bool,
    first: bool,
) -> _Read:
    partition = context.replicas.hosted(tp)
    if not isinstance(partition, Partition):
        return _Read(tp, partition)
    epoch = getattr(asked, "current_leader_epoch", -1)
    error = partition.replica.check_leader(LeaderEpoch(epoch) if epoch >= 0 else None)
    if error is not ErrorCode.none:
        return _Read(tp, error)
    follower = BrokerId(replica_id) if replica_id != CONSUMER else None
    if follower is not None and follower not in partition.replica.replicas:
        return _Read(tp, ErrorCode.not_leader_or_follower)
    offset = Offset(asked.fetch_offset)
    try:
        bound = partition.replica.read_bound(follower)
        records = partition.log.read(offset, max_bytes, bound, at_least_one)
        error = ErrorCode.none
    except OffsetOutOfRange:
        records = b""
        error = ErrorCode.offset_out_of_range
    if first and follower is not None and error is ErrorCode.none:
        partition.step(
            FollowerFetch(
                replica=follower,
                offset=offset,
                log_start_offset=Offset(getattr(asked, "log_start_offset", -1)),
                now=context.clock.now(),
            )
        )
    return _Read(
        tp, error, partition.replica.high_watermark, partition.log.log_start_offset, records
    )


def _respond(
    request: FetchRequest, reads: Sequence[_Read], error: ErrorCode = ErrorCode.none
) -> Any:
    answer = Answer.to(request)
    topics: dict[str, list[Any]] = {}
    for read in reads:
        topics.setdefault(read.tp.topic, []).append(_partition_data(answer, read))
    return answer(
        "FetchResponse",
        throttle_time=NO_THROTTLE,
        error_code=error,
        responses=tuple(
            answer("FetchableTopicResponse", topic=topic, partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )


def _partition_data(answer: Answer, read: _Read) -> Any:
    return answer(
        "PartitionData",
        partition_index=read.tp.partition,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.high_watermark,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None,
        records=read.records,
    )
