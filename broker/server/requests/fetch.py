"""Fetch (api 1), versions 4 to 11 from consumers, and 13 from followers.

Behaviour: reads up to ``max_bytes`` over all partitions in the order of the request, with at least
one batch of the first partition that has any (KIP-74). Waits for ``min_bytes`` up to ``max_wait``
in the purgatory. A follower's fetch tells the leader what the follower has (*Reliability*, section
1.3), after the read and before the answer. Consumers read the log up to the high watermark. A
rejected consumer gets no offsets, as in Kafka. librdkafka returns to the leader when it is out of
range at a follower, unless it gets a high watermark above. Within a session
(:mod:`broker.server.replication.fetch_session_cache`) the answer has only the partitions with news.

Reading from followers (KIP-392), with ``replica.selector.class``, from version 11 on: a leader
answers a consumer of another rack with the follower to read from, and nothing else. Followers serve
consumers up to the high watermark that they know, which lags behind the leader's. Kafka's followers
do so with or without a selector. Without one, ours name the leader, as older brokers do. librdkafka
presumes no epoch of brokers that do not serve version 9 of Metadata, and would stay with a deposed
leader that has become a follower.

Not modelled: transactions (last stable offset = high watermark), reading without a leader (Kafka's
followers serve then, too), truncation on fetch (KIP-595), quotas.

v5 log_start_offset, v7 sessions, v9 current_leader_epoch, v11 rack_id, v13 topic ids.
"""

import logging
from collections.abc import Awaitable, Collection, Iterable
from dataclasses import dataclass

from kio.schema.errors import ErrorCode

from ackproof.broker.log.partition_log import OffsetOutOfRange
from ackproof.broker.replication.events import FollowerFetch
from ackproof.broker.replication.leader import RACK_AWARE, preferred_read_replica
from ackproof.broker.replication.replica import Replica
from ackproof.broker.server.metrics import CONSUMER
from ackproof.broker.server.replication.fetch_session_cache import (
    INVALID_SESSION_ID,
    FetchSession,
    SessionRefused,
    asked_in,
)
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import (
    NO_OFFSET,
    BrokerId,
    NamedPartition,
    Offset,
    TopicPartition,
)
from ackproof.broker.wire.batch import CorruptBatch
from ackproof.broker.wire.framing import BytesLike
from ackproof.broker.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ackproof.broker.wire.reader import uuid_of

logger = logging.getLogger(__name__)


FROM_FOLLOWERS_SINCE = 11
"""The first version of Fetch that consumers may send to followers (KIP-392)."""
NOWHERE_ELSE = BrokerId(-1)
"""A stand-in for a preferred read replica: the consumer stays."""


@dataclass(slots=True)
class _Read:
    name: NamedPartition
    error: ErrorCode
    high_watermark: Offset = NO_OFFSET
    log_start_offset: Offset = NO_OFFSET
    records: BytesLike = b""
    partition: Partition | None = None
    preferred_read_replica: BrokerId = NOWHERE_ELSE

    @property
    def is_urgent(self) -> bool:
        """Whether there is an error or another replica to report, so that nothing must be waited
        for."""
        return self.error is not ErrorCode.none or self.preferred_read_replica != NOWHERE_ELSE


def handle_fetch(
    request: FetchRequest, context: Context
) -> FetchResponse | Awaitable[FetchResponse]:
    """Answer at once when there is enough, or otherwise when there is or the time is over."""
    try:
        session = context.fetch_sessions.session_of(request, context.clock.now())
    except SessionRefused as refused:
        return _respond((), INVALID_SESSION_ID, refused.error)
    reader = _Reader(request, context, session)
    reader.begin()
    if reader.has_enough:
        return reader.response()
    return context.purgatory.wait(
        reader.partitions,
        request.max_wait_ms / 1000,
        reader.look_again,
        reader.response,
        watermark=request.replica_id == CONSUMER,  # followers read up to the log's end
    )


class _Reader:
    """Reads what one request names: once all of it, then again the partitions with news."""

    def __init__(
        self, request: FetchRequest, context: Context, session: FetchSession | None
    ) -> None:
        self.request = request
        self.context = context
        self._session = session
        self._follower = None if request.replica_id == CONSUMER else request.replica_id
        self._from_followers = (
            self._follower is None
            and request.version >= FROM_FOLLOWERS_SINCE
            and context.config.replica_selector_class == RACK_AWARE
        )
        self._asked = session.asked() if session else dict(asked_in(request))
        self._names: dict[TopicPartition, NamedPartition] = {}
        self._reads: dict[NamedPartition, _Read] = {}
        self._size = 0

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions that were read. If any could not be read, the request does not wait."""
        return tuple(self._names)

    @property
    def has_enough(self) -> bool:
        """Whether there is something to answer at once."""
        return (
            not self._reads
            or self._size >= self.request.min_bytes
            or self.request.max_wait_ms <= 0
            or any(read.is_urgent for read in self._reads.values())
        )

    def begin(self) -> None:
        """Read everything. The offset of a follower's fetch is reported to its leader's replica."""
        self._read(self._asked)
        if self._follower is not None:
            self._note_progress(self._follower)

    def look_again(self, woken: Collection[TopicPartition]) -> bool:
        """Read the partitions with news, and return whether there is enough now. All are read if
        their limits on the size depend on each other."""
        self._read(self._asked if self._size else [self._names[tp] for tp in woken])
        return self.has_enough

    def response(self) -> FetchResponse:
        """Return what was read; in a session, only the news."""
        reads = tuple(self._reads.values())
        self._count(reads)
        if self._session is None:
            return _respond(reads)
        has_changed = self._session.has_changed
        news = [
            read
            for read in reads
            if has_changed(
                read.name,
                read.error,
                read.high_watermark,
                read.log_start_offset,
                len(read.records),
            )
            or read.is_urgent
        ]
        return _respond(news, self._session.id)

    def _read(self, names: Iterable[NamedPartition]) -> None:
        limit = min(self.request.max_bytes, self.context.config.fetch_max_bytes)
        self._size = 0
        for name in names:
            read = self._read_partition(name, self._asked[name], max(0, limit - self._size))
            self._size += len(read.records)
            self._reads[name] = read

    def _read_partition(self, name: NamedPartition, asked: FetchPartition, left: int) -> _Read:
        partition = self.context.replicas.named(name)
        if not isinstance(partition, Partition):
            return _Read(name, partition)
        self._names[partition.tp] = name
        replica, log = partition.replica, partition.log
        error = self._check(replica, asked)
        if error is not ErrorCode.none:
            return _Read(name, error, partition=partition)
        if self._from_followers:
            elsewhere = self._preferred_read_replica(replica, asked.fetch_offset)
            if elsewhere is not None:
                start, end = log.log_start_offset, replica.high_watermark
                return _Read(name, error, end, start, b"", partition, elsewhere)
        bound = replica.read_bound(self._follower)
        max_bytes = min(left, asked.partition_max_bytes)
        records: BytesLike = b""
        try:
            records = log.read(asked.fetch_offset, max_bytes, bound, at_least_one=not self._size)
        except OffsetOutOfRange:
            error = ErrorCode.offset_out_of_range
        except CorruptBatch as damage:
            # The damage affects only this partition. A follower asks for all partitions that we
            # lead in one request.
            logger.error(
                "%s is damaged at offset %d or below: %s", partition.tp, asked.fetch_offset, damage
            )
            error = ErrorCode.corrupt_message
        except OSError as refusal:
            partition.fail(refusal)
            error = ErrorCode.kafka_storage_error
        if self._follower is None and error is not ErrorCode.none:
            return _Read(name, error, partition=partition)
        return _Read(name, error, replica.high_watermark, log.log_start_offset, records, partition)

    def _check(self, replica: Replica, asked: FetchPartition) -> ErrorCode:
        if self._from_followers:
            return replica.check_reader(asked.current_leader_epoch)
        error = replica.check_leader(asked.current_leader_epoch, self._follower)
        if error is not ErrorCode.none:
            return error
        is_known = self._follower is None or self._follower in replica.replicas
        return ErrorCode.none if is_known else ErrorCode.not_leader_or_follower

    def _preferred_read_replica(self, replica: Replica, offset: Offset) -> BrokerId | None:
        """Return the follower to read from, or None for this broker. A broker that is not
        registered is in no rack, so that no consumer is sent to it."""
        if not self.request.rack_id:
            return None
        brokers = self.context.metadata.brokers
        return preferred_read_replica(
            self.request.rack_id,
            replica.broker,
            replica.followers_to_read_from(offset),
            {id_: broker.rack for id_, broker in brokers.items()},
        )

    def _note_progress(self, follower: BrokerId) -> None:
        """Note the progress of a follower, only from reads without an error. A follower that is
        fenced by its epoch, or out of range, may hold other records below its offset, and would be
        counted as holding ours."""
        now = self.context.clock.now()
        for name, read in self._reads.items():
            partition = read.partition
            if read.error is not ErrorCode.none or partition is None:
                continue
            asked = self._asked[name]
            partition.step(
                FollowerFetch(
                    replica=follower,
                    offset=asked.fetch_offset,
                    log_start_offset=asked.log_start_offset,
                    now=now,
                )
            )
            read.high_watermark = partition.replica.high_watermark

    def _count(self, reads: Iterable[_Read]) -> None:
        by_follower = self._follower is not None
        for read in reads:
            if read.partition is not None:
                read.partition.meters.fetched(
                    read.error, len(read.records), by_follower=by_follower
                )


def _respond(
    reads: Iterable[_Read],
    session_id: int = INVALID_SESSION_ID,
    error: ErrorCode = ErrorCode.none,
) -> FetchResponse:
    topics: dict[str | bytes, list[PartitionData]] = {}
    for read in reads:
        topics.setdefault(read.name.topic, []).append(_partition_data(read))
    return FetchResponse(
        error_code=error,
        session_id=session_id,
        responses=tuple(
            [
                FetchableTopicResponse(
                    topic=name if isinstance(name, str) else "",
                    topic_id=uuid_of(name) if isinstance(name, bytes) else None,
                    partitions=tuple(partitions),
                )
                for name, partitions in topics.items()
            ]
        ),
    )


def _partition_data(read: _Read) -> PartitionData:
    return PartitionData(
        partition_index=read.name.partition,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.high_watermark,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None,
        preferred_read_replica=read.preferred_read_replica,
        records=read.records,
    )
