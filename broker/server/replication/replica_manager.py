"""All replicas of this broker, with their roles and timers.

A partition is hosted from its first role until the broker is told to stop it and delete its log
(:mod:`broker.server.replication.roles`). It takes over an existing log, unless that is a former
topic's of the same name (KIP-516). Such a log stays as it is, and the partition is not hosted,
until the broker was told to delete the log.

For hosted partitions the coordination is obeyed even when ZooKeeper cannot be reached. A new
partition waits for its topic's settings, which are read there. So do the controller's later
requests, which take :attr:`ReplicaManager.turn` (Kafka holds its ``replicaStateChangeLock``
meanwhile). A leader that gets no other order continues to lead, as in Kafka: the leader epoch makes
a zombie harmless to acks=all.

Not handled: several log directories failing one by one; moving replicas between directories.
"""

import asyncio
import uuid
from collections.abc import Collection, Iterable, Iterator

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, TopicConfig
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_metadata import InconsistentTopicId
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.replication.events import Event, LeaderAndIsr, Tick
from ackproof.broker.replication.replica import LogState, Replica, Role, StaleEpoch
from ackproof.broker.server.admin import TopicConfigs
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.metrics import forget_topic
from ackproof.broker.server.replication.fetcher import Fetchers
from ackproof.broker.server.replication.partition import Partition, PartitionContext, StateChangeLog
from ackproof.broker.server.replication.roles import BecomeLeaderOrFollower, Origin, StopReplica
from ackproof.broker.server.schedule import carry_out
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.types import NO_EPOCH, NamedPartition, Offset, TopicIdPartition, TopicPartition

Errors = dict[TopicPartition, ErrorCode]


class ReplicaManager:
    """The map from partitions to replicas. Only this class changes it."""

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        topics: TopicConfigs,
        metadata: MetadataCache,
        fetchers: Fetchers,
        context: PartitionContext,
    ) -> None:
        self._config = config
        self._logs = logs
        self._topics = topics
        self._metadata = metadata
        self._fetchers = fetchers
        self._context = context
        self._partitions: dict[TopicPartition, Partition] = {}
        self._by_id: dict[TopicIdPartition, Partition] = {}
        self.turn = asyncio.Lock()
        """Held by a request to several partitions, so that each partition is told in the order of
        requests. Without a controller each partition keeps its own order."""
        self._pending_deletions: list[TopicPartition] = []
        self._state_changes = StateChangeLog(config.id)

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._partitions.values()))

    def hosted(self, tp: TopicPartition) -> Partition | ErrorCode:
        """Return the partition, or the error for a client that expected it here."""
        partition = self._partitions.get(tp)
        if partition is not None:
            return partition
        if tp in self._metadata:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_topic_or_partition

    def named(self, name: NamedPartition) -> Partition | ErrorCode:
        """Do as ``hosted``, for requests that may name topics by their ids."""
        if isinstance(name, TopicPartition):
            return self.hosted(name)
        return self._by_id.get(name, ErrorCode.unknown_topic_id)

    # --- time -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Let every leader check the time: waiting producers, followers that lag."""
        event = Tick(now=self._context.clock.now())
        for partition in self:
            if partition.replica.role is Role.LEADER:
                partition.step(event)

    def checkpoint_high_watermarks(self) -> None:
        """Write ``replication-offset-checkpoint``."""
        self._logs.checkpoint_high_watermarks(
            {tp: partition.replica.high_watermark for tp, partition in self._partitions.items()}
        )

    def delete_old_segments(self) -> None:
        """Apply retention, on every replica separately as in Kafka."""
        for partition in self:
            partition.delete_old_segments()

    # --- roles ------------------------------------------------------------------------------

    async def become_leader_or_follower(
        self, roles: Iterable[BecomeLeaderOrFollower], origin: Origin
    ) -> Errors:
        """Give each partition its role, and return an error code for each.

        Hosted partitions come first. Suppose a broker without ZooKeeper is told to follow, and is
        also given a new partition. If it waited for the new one's settings first, it would continue
        to lead as a zombie.
        """
        return {
            role.partition: await self._become_leader_or_follower(role, origin)
            for role in sorted(roles, key=lambda role: role.partition not in self._partitions)
        }

    async def _become_leader_or_follower(
        self, role: BecomeLeaderOrFollower, origin: Origin
    ) -> ErrorCode:
        tp = role.partition
        self._record("received", role, origin)
        if self._config.id not in role.replicas:
            self._record("rejected", role, origin, error="not a replica of this partition")
            return ErrorCode.unknown_topic_or_partition
        if not is_legal(tp.topic) or tp.partition < 0:
            self._record("rejected", role, origin, error="no partition can be called so")
            return ErrorCode.invalid_topic_exception
        try:
            partition = await self._host(tp, role.topic_id)
        except InconsistentTopicId as error:
            self._record("rejected", role, origin, error=str(error))
            return ErrorCode.inconsistent_topic_id
        except OSError as error:
            self._record("rejected", role, origin, error=str(error))
            self._context.halt(error)
            return ErrorCode.kafka_storage_error
        try:
            begins = self._take_role(partition, role)
        except (StaleEpoch, ValueError) as error:
            self._record("rejected", role, origin, error=str(error))
            return ErrorCode.stale_controller_epoch
        self._record("completed", role, origin, begins=partition.replica if begins else None)
        return ErrorCode.none

    def _take_role(self, partition: Partition, role: BecomeLeaderOrFollower) -> bool:
        """Take a role. Return whether it begins to lead in another epoch than before."""
        before = (partition.replica.leader, partition.replica.leader_epoch)
        partition.step(
            LeaderAndIsr(
                controller_epoch=role.controller_epoch,
                leader=role.leader,
                leader_epoch=role.leader_epoch,
                isr=role.isr,
                replicas=role.replicas,
                zk_version=role.zk_version,
                now=self._context.clock.now(),
                serves=role.serves,
                as_printed=role.as_printed,
            )
        )
        if (partition.replica.leader, partition.replica.leader_epoch) == before:
            # A follower continues to fetch. If it began again with each ISR change, it would lag.
            return False
        if partition.replica.role is Role.FOLLOWER:
            self._fetchers.follow(partition)
        else:
            self._fetchers.unfollow(partition.tp)
        self._context.purgatory.wake(partition.tp)
        return partition.replica.role is Role.LEADER

    async def ready(self, tp: TopicPartition, topic_id: uuid.UUID | None) -> None:
        """Prepare the partition's log, without a role yet.

        Raises:
            InconsistentTopicId: the log is a former topic's.
            OSError: the disk refuses an operation.
        """
        await self._host(tp, topic_id)

    def step(self, tp: TopicPartition, event: Event) -> None:
        """Feed an event to the partition's replica, if it is here."""
        partition = self._partitions.get(tp)
        if partition is not None:
            partition.step(event)
            self._context.purgatory.wake(tp)

    async def _host(self, tp: TopicPartition, topic_id: uuid.UUID | None) -> Partition:
        """Return the partition, hosted from now on if not before. Raise InconsistentTopicId."""
        hosted = self._partitions.get(tp)
        if hosted is not None:
            await carry_out(hosted.log.metadata.assign_steps(topic_id))
            self._note_id(hosted)
            return hosted
        await self._topics.load_latest(tp.topic)
        log = self._logs.create(tp)
        await carry_out(log.metadata.assign_steps(topic_id))
        # Not the settings that were read before the fsyncs. A change during them was reported to
        # the hosted partitions (``configure``), and this one was not hosted yet.
        config = self._topics.get(tp.topic)
        log.config = config.log_config()
        replica = Replica(
            self._config.id,
            self._replica_config(config),
            LogState(
                log_start_offset=Offset(log.log_start_offset),
                log_end_offset=Offset(log.log_end_offset),
                high_watermark=Offset(self._logs.high_watermark(tp)),
                epochs=log.epochs.entries,
            ),
        )
        partition = Partition(tp, replica, log, config, self._context)
        self._partitions[tp] = partition
        self._note_id(partition)
        self._context.probe.replica_hosted(partition)
        return partition

    def _note_id(self, partition: Partition) -> None:
        if partition.id is not None:
            self._by_id[partition.id] = partition

    def _replica_config(self, config: TopicConfig) -> ReplicaConfig:
        return ReplicaConfig(
            min_insync_replicas=config.min_insync_replicas,
            replica_lag_time_max_ms=self._config.keep_in_sync_ms,
            replica_lag_max_messages=self._config.replica_lag_max_messages,
            truncation=self._config.truncation,
        )

    def configure(self, topics: Collection[str] | None) -> None:
        """Take over settings of these topics (None: of all) that were read again."""
        for partition in self:
            if topics is None or partition.tp.topic in topics:
                config = self._topics.get(partition.tp.topic)
                partition.configure(config, self._replica_config(config))

    def _record(
        self,
        event: str,
        role: BecomeLeaderOrFollower,
        origin: Origin,
        error: str | None = None,
        begins: Replica | None = None,
    ) -> None:
        self._state_changes.record(
            event,
            origin,
            role.partition,
            leader=role.leader,
            leader_epoch=role.leader_epoch,
            error=error,
            leader_epoch_start_offset=None if begins is None else begins.log_end_offset,
            high_watermark=None if begins is None else begins.high_watermark,
        )

    async def stop_replicas(self, stops: Iterable[StopReplica], origin: Origin) -> Errors:
        """Stop following, and delete where told so. Return an error code for each partition.

        Raises:
            OSError: the disk refuses an operation, and the broker halts. The controller must not be
                told that the logs are deleted: it would not ask again, and the next start would
                find them.
        """
        errors = {stop.partition: self._stop_replica(stop, origin) for stop in stops}
        # Before the answer: a controller that was told so does not ask again.
        deletions, self._pending_deletions = self._pending_deletions, []
        try:
            await carry_out(self._logs.delete_steps(deletions))
        except OSError as error:
            self._context.halt(error)
            raise
        return errors

    def _stop_replica(self, stop: StopReplica, origin: Origin) -> ErrorCode:
        tp = stop.partition
        partition = self._partitions.get(tp)
        current = partition.replica.leader_epoch if partition else NO_EPOCH
        stale = 0 <= stop.leader_epoch < current
        if not stale:
            self._fetchers.unfollow(tp)
            if stop.delete:
                self._delete(tp)
        event = "rejected" if stale else "completed"
        self._state_changes.record(event, origin, tp, leader_epoch=stop.leader_epoch)
        return ErrorCode.fenced_leader_epoch if stale else ErrorCode.none

    def _delete(self, tp: TopicPartition) -> None:
        partition = self._partitions.pop(tp, None)
        if partition is None:
            self._context.probe.replica_deleted(tp)
        else:
            if partition.id is not None:
                self._by_id.pop(partition.id, None)
            partition.stop()
            self._context.purgatory.wake(tp)
            if not any(other.topic == tp.topic for other in self._partitions):
                forget_topic(tp.topic)
        self._pending_deletions.append(tp)
