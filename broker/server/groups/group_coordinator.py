"""The coordinator of all groups whose partition of ``__consumer_offsets`` this broker leads.

Nobody tells it when leaderships change: it looks, at each request and each tick, whether its shards
still serve the epochs they were loaded in. A new leadership is loaded from the log first
(COORDINATOR_LOAD_IN_PROGRESS); a lost one is dropped, and those who wait are told NOT_COORDINATOR.

What cannot be loaded, for its log is damaged, costs its own groups: they are told NOT_COORDINATOR
until another epoch begins, as by Kafka's newer coordinator (``CoordinatorRuntime``, KIP-848). The
older one (``GroupMetadataManager``) logs the error and serves such a partition all the same, as if
its groups were new: their consumers would be told of no commit, and read from wherever
``auto.offset.reset`` says. A disk that refuses to be read halts the broker.

Offsets go with their partitions. Kafka's coordinators, the newer one too, tell those groups alone
that are loaded (``currentGroups``, ``scheduleWriteAllOperation``): what is deleted meanwhile, or by
the time that a coordinator dies which has not stored so, counts for the next topic of that name.
Here those that are being loaded hear of it later, and what they have committed of is compared with
the topics that there are."""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import Answer, Commit, Heartbeat, Request, Sync, refusal
from ackproof.broker.groups.groups import Groups
from ackproof.broker.groups.loading import Loading
from ackproof.broker.log.partition_log import OffsetOutOfRange, PartitionLog
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.events import DeleteRecords
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic
from ackproof.broker.server.groups.shard import AreGone, GroupShard, StoreConfig, moment
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.network.connections import PEER
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.schedule import Clock, Spawn
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import LeaderEpoch, TopicPartition
from ackproof.broker.wire.batch import CorruptBatch, RecordBatch, parse_batches
from ackproof.broker.wire.group_records import MalformedGroupRecord, decode
from ackproof.broker.wire.records import records

logger = logging.getLogger(__name__)


A = TypeVar("A", bound=Answer)

WHILE_LOADING: Final[Mapping[type[Request], ErrorCode]] = {
    Heartbeat: ErrorCode.none,
    Sync: ErrorCode.rebalance_in_progress,
}
"""What some hear in place of COORDINATOR_LOAD_IN_PROGRESS, as in Kafka: no member is lost because
its heartbeat came too early, and a rebalance that was under way begins anew."""


class GroupCoordinator:
    """Shards by partition; ``spawn`` starts a task and owns it."""

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
        """What is deleted meanwhile."""
        self._damaged: dict[int, tuple[Partition, LeaderEpoch]] = {}

    # --- requests ---------------------------------------------------------------------------

    async def ask(self, kind: type[Request], answer: type[A], group: str, **values: object) -> A:
        """Feeds a request about ``group`` to whom it concerns."""
        response = await self.begin(kind, group, **values)
        assert isinstance(response, answer)
        return response

    def begin(self, kind: type[Request], group: str, **values: Any) -> Awaitable[Answer]:
        """Feeds it, before it returns; the answer may take a while."""
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
        """Where ``group`` is, or what to tell who asks for it."""
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
        """There are groups here that cannot be told yet."""
        return bool(self._loading)

    @property
    def waiting(self) -> int:
        """The number of requests of groups that are not answered yet."""
        return sum(shard.waiting for shard, _ in self._shards.values())

    def shards(self) -> Iterator[GroupShard]:
        """Those that serve."""
        for shard, _ in tuple(self._shards.values()):
            if shard.serves(shard.partition):
                yield shard

    # --- time -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Looks at leaderships, sessions, and the size of logs."""
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
        """Applies ``offsets.retention.minutes``, and deletes what could not be deleted with its
        topic."""
        shards = tuple(self.shards())
        for shard in shards:
            shard.expire()
        self._spawn(self._compare(shards))

    def partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Offsets in these partitions are of no use any more."""
        if partitions:
            self._deleted(frozenset(partitions).__contains__)

    def topics_deleted(self, topics: Collection[str]) -> None:
        """Nor are those in any partition of these topics."""
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
        """It could not be loaded in this epoch, and would not be if it were tried each tick."""
        now = partition, partition.replica.leader_epoch
        return self._damaged.get(partition.tp.partition) == now

    def _look(self, partition: Partition) -> None:
        """Brings a shard in line with its partition's role."""
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
        """Loads the groups, unless the leadership is over before that is done, or was in between:
        another broker may have stored commits that were not there yet when their part was read."""
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
        """Who coordinated before may have died before it had heard that a topic was deleted, or had
        stored that its offsets are."""
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
# Whose turn it is: what a connection commits is taken in as it came.
#
# Before offsets are committed their topics may have to be looked up; where there is no controller,
# ZooKeeper is asked. A consumer commits 5 of t and 3 of u, and then 6 of t. If u has to be looked
# up and t has not, the second overtakes the first: both are answered without an error, and the
# group goes on from 5. Kafka takes no request from a connection before the last one was answered
# (``SocketServer`` mutes the channel). Here a commit waits until those before it are taken in, not
# until they are stored. Nothing else waits: a member whose commit is held up by ZooKeeper lives,
# and its heartbeats say so.


class Turns:
    """One turn at a time for each connection, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """Of the connections of which somebody has a turn, or waits for one."""

    def mine(self) -> asyncio.Lock:
        """To be held until the request that was started on this connection is taken in."""
        return self._locks.setdefault(PEER.get().connection, asyncio.Lock())


# --- loading --------------------------------------------------------------------------------------
#
# Reads a partition of ``__consumer_offsets`` from its log, for the broker that now leads it.


CHUNK_BYTES = 2**16
"""Read at a time; in between, others have their turn."""


async def load(log: PartitionLog) -> Loading:
    """Everything from the log's start to its end, however often that moves meanwhile.

    Kafka takes what it loads at its word (``DefaultRecordBatch.iterator`` compares no CRC). Here
    it is compared: it costs little, and once in each leadership. The disk has turned a bit over in
    the last commit of a group: its consumer would go on from another offset, or from that of the
    commit before, and nobody would know.

    Raises:
        OffsetOutOfRange: the log was cut meanwhile: this broker does not lead any more.
        CorruptBatch: a batch is damaged, or what lies behind it cannot be found.
        OSError: nor can the disk be read.
    """
    loading = Loading()
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        data = log.read(offset, CHUNK_BYTES, log.log_end_offset)
        batches = parse_batches(data, from_offset=offset)
        if not batches:
            raise CorruptBatch(f"nothing is to be found at offset {offset}")
        _add(loading, batches, offset, log.directory.name)
        offset = batches[-1].next_offset
        await asyncio.sleep(0)
    return loading


def _add(loading: Loading, batches: Iterable[RecordBatch], start: int, name: str) -> None:
    """What is no record of ours is left out: clients may write to the topic, too. It may be one
    that cannot be decompressed: the batch is as it was written."""
    for batch in batches:
        try:
            for record in records(batch):
                if record.offset >= start and not batch.is_control:
                    loading.add(*decode(record.key, record.value), record.offset)
        except (CorruptBatch, MalformedGroupRecord) as error:
            logger.error("%s, batch at offset %d: %s", name, batch.base_offset, error)


# --- rewriting ------------------------------------------------------------------------------------
#
# Keeps ``__consumer_offsets`` short, in place of Kafka's log compaction.
#
# The broker has no log cleaner. Instead the coordinator, which has the latest value of every key in
# memory, now and then writes all of them once more to the end of the log; when that is committed,
# the log may begin there, and what lies before is deleted with its segments. So a log, and the time
# it takes to load it, is bounded by a multiple of what is in use. A crash in between does no harm:
# the values stand in the log twice.
#
# Unlike with compaction, offsets of the log do not stay readable for ever: a client that reads the
# topic by itself finds its beginning moved.


SLACK_BYTES = 4 * 2**20
"""Below this no log is worth the effort, unless it has more than one segment: Kafka's cleaner takes
any segment but the last one, however small ``offsets.topic.segment.bytes`` makes them."""

SLACK_FACTOR = 10
"""How many times what is in use a log may hold."""


class Rewriting:
    """Looks after one shard."""

    def __init__(self, shard: GroupShard, slack_bytes: int = SLACK_BYTES) -> None:
        self._shard = shard
        self._slack_bytes = slack_bytes
        self._in_use_bytes = 0
        self._tried_at_bytes = 0
        self._running = False

    @property
    def is_due(self) -> bool:
        """The log holds far more than is in use, and a good deal more than at the last try."""
        limit = max(self._tried_at_bytes + self._slack_bytes, SLACK_FACTOR * self._in_use_bytes)
        return not self._running and self._shard.appended_bytes > limit

    async def rewrite(self) -> None:
        """Writes everything once more, waits until it is committed, and lets the log begin there.

        Without success nothing is lost. It is due again when the log has grown by as much as makes
        it worth the effort, and not at once: a try that is appended and not committed in time
        makes the log longer, ten times a second.
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
