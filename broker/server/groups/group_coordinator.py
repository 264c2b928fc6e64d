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
the topics that there are.
"""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import Answer, Commit, Heartbeat, Request, Sync, refusal
from ackproof.broker.groups.groups import Groups
from ackproof.broker.log.partition_log import OffsetOutOfRange
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.clock import Clock
from ackproof.broker.server.groups.log_loading import load
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic
from ackproof.broker.server.groups.rewrite import SLACK_BYTES, Rewriting
from ackproof.broker.server.groups.shard import AreGone, GroupShard, StoreConfig, moment
from ackproof.broker.server.groups.turns import Turns
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import LeaderEpoch, TopicPartition
from ackproof.broker.wire.batch import CorruptBatch

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
