"""The coordinator of all groups whose partition of ``__consumer_offsets`` this broker leads.

It is not told when leaderships change. At each request and each tick it checks whether its shards
still serve the epochs in which they were loaded. A new leadership is loaded from the log first
(COORDINATOR_LOAD_IN_PROGRESS). A lost one is dropped, and waiting requests are answered
NOT_COORDINATOR.

If a log is damaged and cannot be loaded, its groups get NOT_COORDINATOR until another epoch begins.
Kafka's newer coordinator does the same (``CoordinatorRuntime``, KIP-848). The older one
(``GroupMetadataManager``) logs the error and serves such a partition as if its groups were new.
Their consumers would get no committed offset, and read from wherever ``auto.offset.reset`` says. A
disk that cannot be read halts the broker.

Offsets are deleted with their partitions. Kafka's coordinators, the newer one too, tell only the
groups that are loaded (``currentGroups``, ``scheduleWriteAllOperation``). If a partition is deleted
while groups are being loaded, its offsets count for the next topic of that name. The same happens
if a coordinator dies before it has stored the deletion. Here groups that are being loaded are told
later, and committed partitions are compared with the existing topics.
"""

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakValueDictionary

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import (
    Answer,
    Commit,
    Event,
    Expire,
    Heartbeat,
    Moment,
    PartitionsDeleted,
    Request,
    Respond,
    Store,
    Stored,
    Sync,
    Tick,
    refusal,
)
from ackproof.broker.groups.groups import Groups
from ackproof.broker.groups.loading import Loading
from ackproof.broker.log.partition_log import OffsetOutOfRange, PartitionLog
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.events import DeleteRecords
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.network.connections import PEER
from ackproof.broker.server.replication.partition import Partition, Produced, refused
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.schedule import Clock, Spawn
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import LeaderEpoch, TopicPartition
from ackproof.broker.wire.batch import (
    CorruptBatch,
    KeyValue,
    RecordBatch,
    new_batch,
    parse_batches,
    records,
    split,
)
from ackproof.broker.wire.group_records import Key, MalformedGroupRecord, Value, decode, encode

# --- shards ---------------------------------------------------------------------------------------
#
# The groups of one partition of ``__consumer_offsets``, on the broker that leads it.
#
# As with a partition, effects are carried out in their order before the next event is fed. A shard
# belongs to one leader epoch. Unanswered requests end with it.


AreGone: TypeAlias = Callable[[TopicPartition], bool]

ACKS_ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """``offsets.commit.required.acks`` and ``offsets.commit.timeout.ms``."""

    acks: int
    timeout_ms: int


def moment(clock: Clock) -> Moment:
    """Return the current moment."""
    return Moment(clock.now(), clock.wall_ms())


class GroupShard:
    """The groups of a partition, created when they are loaded.

    Attributes:
        groups: the groups, for queries.
        partition: the partition that stores them.
        appended_bytes: bytes stored since the beginning or the last :meth:`rewritten`.
    """

    def __init__(
        self,
        groups: Groups,
        partition: Partition,
        config: StoreConfig,
        clock: Clock,
        probe: Probe = NO_PROBE,
    ) -> None:
        self.groups = groups
        self.partition = partition
        self.appended_bytes = partition.log.size
        self._epoch = partition.replica.leader_epoch
        self._config = config
        self._clock = clock
        self._probe = probe
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[Request, asyncio.Future[Answer]]] = {}
        self._closed = False

    @property
    def waiting(self) -> int:
        """The number of requests that are not answered yet."""
        return len(self._waiting)

    def serves(self, partition: Partition) -> bool:
        """Return whether this broker still leads in the epoch in which the groups were loaded."""
        return (
            self.partition is partition
            and partition.replica.role is Role.LEADER
            and partition.replica.leader_epoch == self._epoch
        )

    def ask(self, kind: type[Request], **values: object) -> asyncio.Future[Answer]:
        """Feed a request. Its answer may come later."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        number = next(self._numbers)
        request = kind(request=number, at=moment(self._clock), **values)  # type: ignore[arg-type]
        self._waiting[number] = request, future
        self._feed(request)
        return future

    def tick(self) -> None:
        """Feed the passing of time."""
        self._feed(Tick(at=moment(self._clock)))

    def expire(self) -> None:
        """Look for offsets whose retention is over."""
        self._feed(Expire(at=moment(self._clock)))

    def partitions_deleted(self, are_gone: AreGone) -> None:
        """Delete the offsets in partitions that are gone."""
        offsets = (group.offsets for group in self.groups.by_id.values())
        gone = frozenset(tp for its in offsets for tp in its.known if are_gone(tp))
        if gone:
            self._feed(PartitionsDeleted(at=moment(self._clock), partitions=gone))

    def close(self) -> None:
        """Answer all waiting requests, because another broker coordinates now."""
        self._closed = True
        for request, future in self._waiting.values():
            if not future.done():
                future.set_result(refusal(request, ErrorCode.not_coordinator))
        self._waiting.clear()

    def append(self, records: Sequence[tuple[Key, Value | None]]) -> asyncio.Future[Produced]:
        """Append one batch to the log, as a producer would."""
        batch = new_batch(_encoded(records), self._clock.wall_ms())
        if batch.size > self.partition.config.max_message_bytes:
            future: asyncio.Future[Produced] = asyncio.get_running_loop().create_future()
            future.set_result(refused(ErrorCode.message_too_large))
            return future
        return self._append(batch, self._config.acks)

    def append_again(
        self, records: Sequence[tuple[Key, Value | None]]
    ) -> list[asyncio.Future[Produced]]:
        """Append records that the log holds already, in as many batches as necessary.

        No batch is larger than a segment (Kafka: RECORD_LIST_TOO_LARGE). A record that is larger
        than a batch may be now was accepted under another limit, and gets a batch of its own.

        The append is done when the batches are committed, whatever ``offsets.commit.required.acks``
        says, because the log will begin with them. With acks=1 it would begin at an offset that no
        follower has yet. Each follower would be out of range and discard its log. If the leader
        then failed, every group would be lost.
        """
        segment_bytes = self.partition.log.config.segment_bytes
        most = min(self.partition.config.max_message_bytes, segment_bytes)
        parts = split(_encoded(records), most)
        return [self._append(new_batch(part, self._clock.wall_ms()), ACKS_ALL) for part in parts]

    def _append(self, batch: RecordBatch, acks: int) -> asyncio.Future[Produced]:
        self.appended_bytes += batch.size
        return self.partition.produce(batch, acks, self._config.timeout_ms)

    def _feed(self, event: Event) -> None:
        effects = self.groups.step(event)
        self._probe.groups_stepped(self, event, effects)
        for effect in effects:
            match effect:
                case Respond():
                    _, future = self._waiting.pop(effect.request)
                    if not future.done():  # done already: the client disconnected
                        future.set_result(effect.answer)
                case Store():
                    future_ = self.append(effect.records)
                    future_.add_done_callback(partial(self._stored, effect.token))

    def _stored(self, token: int, future: "asyncio.Future[Produced]") -> None:
        if not self._closed:
            error, offset = future.result()[:2]
            at = moment(self._clock)
            self._feed(Stored(at=at, token=token, error=error, offset=offset))


def _encoded(records: Iterable[tuple[Key, Value | None]]) -> list[KeyValue]:
    return [
        KeyValue(encode(key), None if value is None else encode(value)) for key, value in records
    ]


# --- coordinator ----------------------------------------------------------------------------------


logger = logging.getLogger(__name__)


A = TypeVar("A", bound=Answer)

WHILE_LOADING: Final[Mapping[type[Request], ErrorCode]] = {
    Heartbeat: ErrorCode.none,
    Sync: ErrorCode.rebalance_in_progress,
}
"""The errors that replace COORDINATOR_LOAD_IN_PROGRESS for some requests, as in Kafka. No member is
lost because its heartbeat came too early, and a rebalance in progress begins again."""


class GroupCoordinator:
    """The shards by partition. ``spawn`` starts a task and owns it."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        replicas: ReplicaManager,
        topic: OffsetsTopic,
        metadata: MetadataCache,
        spawn: Spawn,
        probe: Probe = NO_PROBE,
    ) -> None:
        self.topic = topic
        self.turns = Turns()
        self._config = _group_config(config)
        self._store_config = StoreConfig(
            acks=config.offsets_commit_required_acks, timeout_ms=config.offsets_commit_timeout_ms
        )
        self._clock = clock
        self._replicas = replicas
        self._metadata = metadata
        self._spawn = spawn
        self._probe = probe
        self._shards: dict[int, tuple[GroupShard, Rewriting]] = {}
        self._loading: dict[int, list[AreGone]] = {}
        """The partitions that are deleted meanwhile."""
        self._damaged: dict[int, tuple[Partition, LeaderEpoch]] = {}

    # --- requests ---------------------------------------------------------------------------

    async def ask(self, kind: type[Request], answer: type[A], group: str, **values: object) -> A:
        """Feed a request about ``group`` to its shard, and return the answer."""
        response = await self.begin(kind, group, **values)
        assert isinstance(response, answer)
        return response

    def begin(self, kind: type[Request], group: str, **values: Any) -> Awaitable[Answer]:
        """Feed a request before returning. The answer may come later."""
        shard = self.shard(group)
        error = ErrorCode.none
        if isinstance(shard, ErrorCode):
            error = shard
            if error is ErrorCode.coordinator_load_in_progress:
                error = WHILE_LOADING.get(kind, error)
        if not group and kind is not Commit:
            error = ErrorCode.invalid_group_id
        if isinstance(shard, GroupShard) and error is ErrorCode.none:
            return shard.ask(kind, group=group, **values)
        refused: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        request = kind(request=-1, at=moment(self._clock), group=group, **values)
        refused.set_result(refusal(request, error))
        return refused

    def shard(self, group: str) -> GroupShard | ErrorCode:
        """Return the shard of ``group``, or the error for the client."""
        tp = self.topic.of(group)
        partition = self._replicas.hosted(tp)
        if not isinstance(partition, Partition) or partition.replica.role is not Role.LEADER:
            return ErrorCode.not_coordinator
        if self._is_damaged(partition):
            return ErrorCode.not_coordinator
        shard = self._serving(partition)
        if shard is None:
            self._look(partition)
            return ErrorCode.coordinator_load_in_progress
        return shard

    @property
    def is_loading(self) -> bool:
        """Whether groups are being loaded."""
        return bool(self._loading)

    @property
    def waiting(self) -> int:
        """The number of group requests that are not answered yet."""
        return sum(shard.waiting for shard, _ in self._shards.values())

    def shards(self) -> Iterator[GroupShard]:
        """Yield the shards that serve."""
        for shard, _ in tuple(self._shards.values()):
            if shard.serves(shard.partition):
                yield shard

    # --- time -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Check leaderships, sessions, and the size of logs."""
        for number in range(self.topic.partitions):
            partition = self._replicas.hosted(TopicPartition(OFFSETS_TOPIC, number))
            if isinstance(partition, Partition):
                self._look(partition)
            else:
                self._drop(number)
        for shard, rewriting in tuple(self._shards.values()):
            shard.tick()
            if rewriting.is_due:
                self._spawn(rewriting.rewrite())

    def expire(self) -> None:
        """Apply ``offsets.retention.minutes``, and delete offsets that could not be deleted with
        their topic."""
        shards = tuple(self.shards())
        for shard in shards:
            shard.expire()
        self._spawn(self._compare(shards))

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Delete the offsets in these partitions, which are deleted."""
        if partitions:
            self._deleted(frozenset(partitions).__contains__)

    def topics_deleted(self, topics: Collection[str]) -> None:
        """Delete the offsets in all partitions of these topics, which are deleted."""
        self._deleted(lambda tp: tp.topic in topics)

    def _deleted(self, are_gone: AreGone) -> None:
        for shard in self.shards():
            shard.partitions_deleted(are_gone)
        for missed in self._loading.values():
            missed.append(are_gone)

    # --- leaderships ------------------------------------------------------------------------

    def _serving(self, partition: Partition) -> GroupShard | None:
        shard, _ = self._shards.get(partition.tp.partition, (None, None))
        return shard if shard is not None and shard.serves(partition) else None

    def _is_damaged(self, partition: Partition) -> bool:
        """Return whether it could not be loaded in this epoch, so that not every tick tries it
        again."""
        now = partition, partition.replica.leader_epoch
        return self._damaged.get(partition.tp.partition) == now

    def _look(self, partition: Partition) -> None:
        """Bring a shard in line with its partition's role."""
        number = partition.tp.partition
        if self._serving(partition) is not None:
            return
        self._drop(number)
        if partition.replica.role is not Role.LEADER or self._is_damaged(partition):
            return
        if number not in self._loading:
            self._loading[number] = []
            self._spawn(self._load(partition))

    def _drop(self, number: int) -> None:
        shard, _ = self._shards.pop(number, (None, None))
        if shard is not None:
            shard.close()
            logger.info("No longer coordinating the groups of %s", shard.partition.tp)

    async def _load(self, partition: Partition) -> None:
        """Load the groups, unless the leadership ended before that was done, or was interrupted.
        Another broker may have stored commits after their part of the log was read."""
        epoch = partition.replica.leader_epoch
        try:
            loading = await load(partition.log)
        except OffsetOutOfRange as error:
            logger.info("Loading %s stopped: %s", partition.tp, error)
            return
        except (CorruptBatch, OSError) as error:
            self._not_loaded(partition, epoch, error)
            return
        finally:
            missed = self._loading.pop(partition.tp.partition)
        leads = partition.replica.role is Role.LEADER and partition.replica.leader_epoch == epoch
        if leads and self._replicas.hosted(partition.tp) is partition:
            groups = Groups(self._config, loading, moment(self._clock))
            shard = GroupShard(groups, partition, self._store_config, self._clock, self._probe)
            slack_bytes = min(SLACK_BYTES, partition.log.config.segment_bytes)
            self._shards[partition.tp.partition] = shard, Rewriting(shard, slack_bytes)
            self._probe.groups_loaded(shard)
            logger.info("Coordinating %d groups of %s", len(groups.by_id), partition.tp)
            for are_gone in missed:
                shard.partitions_deleted(are_gone)
            self._spawn(self._compare((shard,)))

    async def _compare(self, shards: Collection[GroupShard]) -> None:
        """Delete offsets of topics that are gone. The former coordinator may have died before it
        had heard of the deletion, or had stored it."""
        names = await self._metadata.names_now()
        if names is None:
            return
        for shard in shards:
            if self._serving(shard.partition) is shard:
                shard.partitions_deleted(lambda tp: tp.topic not in names)

    def _not_loaded(self, partition: Partition, epoch: LeaderEpoch, error: Exception) -> None:
        if self._replicas.hosted(partition.tp) is not partition:
            return  # it was deleted meanwhile, and its files are closed
        if isinstance(error, OSError):
            partition.fail(error)
            return
        logger.error("The groups of %s cannot be loaded: %s", partition.tp, error)
        self._damaged[partition.tp.partition] = partition, epoch


def _group_config(config: BrokerConfig) -> GroupConfig:
    return GroupConfig(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
    )


# --- order of requests ----------------------------------------------------------------------------
#
# The order of a connection's commits: they are processed in the order of their arrival.
#
# Before offsets are committed, their topics may have to be looked up. Without a controller, that
# means asking ZooKeeper. Suppose a consumer commits 5 of t and 3 of u, and then 6 of t. If u must
# be looked up and t need not, the second commit overtakes the first. Both are answered without an
# error, and the group continues from 5.
#
# Kafka takes no request from a connection before the last one was answered (``SocketServer`` mutes
# the channel). Here a commit waits until the earlier ones are processed, not until they are stored.
# No other request waits: the heartbeats of a member go through even if its commit is delayed by
# ZooKeeper.


class Turns:
    """One turn at a time for each connection, in the order of the requests."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """The locks of the connections with a running or waiting commit."""

    def mine(self) -> asyncio.Lock:
        """Return the lock to hold until the current request of this connection is processed."""
        return self._locks.setdefault(PEER.get().connection, asyncio.Lock())


# --- loading --------------------------------------------------------------------------------------
#
# The reading of a partition of ``__consumer_offsets`` from its log, for the broker that now leads
# it.


CHUNK_BYTES = 2**16
"""The number of bytes read at a time. In between, other tasks run."""


async def load(log: PartitionLog) -> Loading:
    """Load everything from the log's start to its end, however often that moves meanwhile.

    Kafka trusts what it loads (``DefaultRecordBatch.iterator`` compares no CRC). Here the CRC is
    compared: it costs little, and once per leadership. Suppose the disk has flipped a bit in the
    last commit of a group. Its consumer would continue from another offset, or from the previous
    commit, and the error would go unnoticed.

    Raises:
        OffsetOutOfRange: the log was truncated meanwhile, so this broker does not lead any more.
        CorruptBatch: a batch is damaged, or the records after it cannot be found.
        OSError: the disk cannot be read.
    """
    loading = Loading()
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        data = log.read(offset, CHUNK_BYTES, log.log_end_offset)
        batches = parse_batches(data, from_offset=offset)
        if not batches:
            raise CorruptBatch(f"there is no batch at offset {offset}")
        _add(loading, batches, offset, log.directory.name)
        offset = batches[-1].next_offset
        await asyncio.sleep(0)
    return loading


def _add(loading: Loading, batches: Iterable[RecordBatch], start: int, name: str) -> None:
    """Add the coordinator's records. Others are skipped, because clients may write to the topic,
    too. Such a batch may even be impossible to decompress: it is as it was written."""
    for batch in batches:
        try:
            for record in records(batch):
                if record.offset >= start and not batch.is_control:
                    loading.add(*decode(record.key, record.value), record.offset)
        except (CorruptBatch, MalformedGroupRecord) as error:
            logger.error("%s, batch at offset %d: %s", name, batch.base_offset, error)


# --- rewriting ------------------------------------------------------------------------------------
#
# A substitute for Kafka's log compaction, which keeps ``__consumer_offsets`` short.
#
# The broker has no log cleaner. Instead the coordinator, which has the latest value of every key in
# memory, now and then writes all of them again to the end of the log. When that is committed, the
# log may begin there, and what lies before is deleted with its segments. A log, and the time to
# load it, is thus limited to a multiple of the data in use. A crash in between does no harm: the
# values are then in the log twice.
#
# Unlike with compaction, offsets of the log do not stay readable for ever: a client that reads the
# topic by itself finds its beginning moved.


SLACK_BYTES = 4 * 2**20
"""The size below which a log is not rewritten, unless it has more than one segment. Kafka's cleaner
takes any segment but the last one, however small ``offsets.topic.segment.bytes`` makes them."""

SLACK_FACTOR = 10
"""The ratio of a log's size to its data in use above which the log is rewritten."""


class Rewriting:
    """The rewriting of one shard's log."""

    def __init__(self, shard: GroupShard, slack_bytes: int = SLACK_BYTES) -> None:
        self._shard = shard
        self._slack_bytes = slack_bytes
        self._in_use_bytes = 0
        self._tried_at_bytes = 0
        self._running = False

    @property
    def is_due(self) -> bool:
        """Whether the log holds far more than is in use, and much more than at the last attempt."""
        limit = max(self._tried_at_bytes + self._slack_bytes, SLACK_FACTOR * self._in_use_bytes)
        return not self._running and self._shard.appended_bytes > limit

    async def rewrite(self) -> None:
        """Write everything again, wait until it is committed, and let the log begin there.

        Without success nothing is lost. The next attempt follows when the log has grown enough, and
        not at once. An attempt that is appended and not committed in time makes the log longer, and
        would be repeated ten times a second.
        """
        self._running = True
        try:
            before = self._shard.appended_bytes
            appends = self._shard.append_again(self._shard.groups.snapshot())
            size = self._shard.appended_bytes - before
            self._tried_at_bytes = self._shard.appended_bytes
            produced = await asyncio.gather(*appends)
        finally:
            self._running = False
        errors = {outcome.error for outcome in produced} - {ErrorCode.none}
        partition = self._shard.partition
        if errors or not produced or not self._shard.serves(partition):
            return
        self._in_use_bytes = size
        self._tried_at_bytes = 0
        self._shard.appended_bytes -= before
        start = produced[0].base_offset
        partition.step(DeleteRecords(offset=start))
        partition.delete_old_segments()
        logger.info("%s begins at offset %d now", partition.tp, start)
