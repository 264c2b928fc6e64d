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
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v11.request import FetchPartition, FetchRequest

from broker.log.partition_log import OffsetOutOfRange
from broker.replication.events import FollowerFetch
from broker.server.metrics.meters import CONSUMER, TopicMeters
from broker.server.partition import Partition
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context
from broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from broker.wire.framing import BytesLike

NO_OFFSET = Offset(-1)


@dataclass(frozen=True, slots=True)
class _Read:
    tp: TopicPartition
    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    records: BytesLike = b""
    meters: TopicMeters | None = None


def handle(request: FetchRequest, context: Context) -> Any | Awaitable[Any]:
    """Answers at once when there is enough, else when there is or time is over."""
    if getattr(request, "session_id", 0) != 0:
        return _respond(request, (), ErrorCode.fetch_session_id_not_found)
    reader = _Reader(request, context)
    reads = reader.read(first=True)
    if _enough(request, reads):
        return _respond(request, reads)
    return _wait(reader)


async def _wait(reader: "_Reader") -> Any:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + reader.request.max_wait.total_seconds()
    with reader.context.purgatory.watch(reader.partitions) as watch:
        while True:
            reads = reader.read(first=False)
            done = _enough(reader.request, reads)
            if done or not await watch.woken(deadline - loop.time()):
                return _respond(reader.request, reads)


def _enough(request: FetchRequest, reads: Sequence[_Read]) -> bool:
    return (
        not reads
        or request.max_wait <= timedelta(0)
        or any(read.error is not ErrorCode.none for read in reads)
        or sum(len(read.records) for read in reads) >= request.min_bytes
    )


class _Reader:
    """Reads what one request asks for, as often as it is looked at."""

    def __init__(self, request: FetchRequest, context: Context) -> None:
        self.request = request
        self.context = context
        self._follower = None if request.replica_id == CONSUMER else BrokerId(request.replica_id)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """What is asked for."""
        return tuple(tp for tp, _ in self._asked())

    def read(self, *, first: bool) -> list[_Read]:
        """Reads every partition; ``first``: where a follower fetches from is news to its leader."""
        left = min(self.request.max_bytes, self.context.config.fetch_max_bytes)
        reads: list[_Read] = []
        at_least_one = True
        for tp, asked in self._asked():
            max_bytes = min(left, asked.partition_max_bytes)
            read = self._read_partition(tp, asked, max_bytes, at_least_one)
            if first and read.error is ErrorCode.none:
                read = self._note_progress(read, asked)
            at_least_one = at_least_one and not read.records
            left = max(0, left - len(read.records))
            reads.append(read)
        return reads

    def _asked(self) -> Iterator[tuple[TopicPartition, FetchPartition]]:
        for topic in self.request.topics:
            for asked in topic.partitions:
                yield TopicPartition(topic.topic, asked.partition), asked

    def _read_partition(
        self, tp: TopicPartition, asked: FetchPartition, max_bytes: int, at_least_one: bool
    ) -> _Read:
        partition = self.context.replicas.hosted(tp)
        if not isinstance(partition, Partition):
            return _Read(tp, partition)
        error = partition.replica.check_leader(_current_epoch(asked))
        if error is not ErrorCode.none:
            return _Read(tp, error, meters=partition.meters)
        if self._follower is not None and self._follower not in partition.replica.replicas:
            return _Read(tp, ErrorCode.not_leader_or_follower, meters=partition.meters)
        bound = partition.replica.read_bound(self._follower)
        records: BytesLike = b""
        try:
            records = partition.log.read(asked.fetch_offset, max_bytes, bound, at_least_one)
        except OffsetOutOfRange:
            error = ErrorCode.offset_out_of_range
        high_watermark = partition.replica.high_watermark
        return _Read(
            tp,
            error,
            high_watermark,
            partition.log.log_start_offset,
            records,
            partition.meters,
        )

    def _note_progress(self, read: _Read, asked: FetchPartition) -> _Read:
        partition = self.context.replicas.hosted(read.tp)
        if self._follower is None or not isinstance(partition, Partition):
            return read
        partition.step(
            FollowerFetch(
                replica=self._follower,
                offset=Offset(asked.fetch_offset),
                log_start_offset=Offset(getattr(asked, "log_start_offset", NO_OFFSET)),
                now=self.context.clock.now(),
            )
        )
        return replace(read, high_watermark=partition.replica.high_watermark)


def _current_epoch(asked: FetchPartition) -> LeaderEpoch:
    return LeaderEpoch(getattr(asked, "current_leader_epoch", NO_EPOCH))


def _respond(
    request: FetchRequest, reads: Sequence[_Read], error: ErrorCode = ErrorCode.none
) -> Any:
    answer = Answer.to(request)
    topics: dict[str, list[Any]] = {}
    for read in reads:
        if read.meters is not None:
            by_follower = request.replica_id != CONSUMER
            read.meters.fetched(read.error, len(read.records), by_follower=by_follower)
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
