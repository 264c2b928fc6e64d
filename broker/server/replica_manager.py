"""All replicas of this broker: gives them their roles and keeps time for them.

A partition is hosted from its first LeaderAndIsr on, until StopReplica deletes it. It takes over
the log that is there, unless that is a former topic's of the same name (KIP-516): such a log stays
as it is, and the partition is not hosted, until StopReplica has deleted it. The controller is
obeyed whether ZooKeeper can be reached or not; a leader that nobody has told otherwise goes on
leading (as in Kafka: it is the leader epoch that makes a zombie harmless to acks=all).
Not handled: several log directories failing one by one; moving replicas between directories.
"""

import asyncio
import uuid
from collections.abc import Collection, Iterator

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig, TopicConfig
from broker.log.manager import LogManager
from broker.log.partition_metadata import InconsistentTopicId
from broker.replication.config import ReplicaConfig
from broker.replication.events import LeaderAndIsr, Tick
from broker.replication.replica import LogState, Replica, Role, StaleEpoch
from broker.server.fetchers import Fetchers
from broker.server.metadata_cache import LEADER_DURING_DELETE, MetadataCache
from broker.server.metrics.meters import forget_topic
from broker.server.partition import Partition, Surroundings
from broker.server.schedule import carry_out
from broker.server.state_change_log import StateChangeLog
from broker.server.topic_configs import TopicConfigs
from broker.server.topic_names import is_legal
from broker.types import Offset, TopicPartition
from broker.wire.interbroker import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
)

Errors = dict[TopicPartition, ErrorCode]


class ReplicaManager:
    """The map from partitions to replicas, and the only one who changes it."""

    def __init__(
        self,
        config: BrokerConfig,
        logs: LogManager,
        topics: TopicConfigs,
        metadata: MetadataCache,
        fetchers: Fetchers,
        surroundings: Surroundings,
    ) -> None:
        self._config = config
        self._logs = logs
        self._topics = topics
        self._metadata = metadata
        self._fetchers = fetchers
        self._surroundings = surroundings
        self._partitions: dict[TopicPartition, Partition] = {}
        self._one_at_a_time = asyncio.Lock()
        self._doomed: list[TopicPartition] = []
        self._state_changes = StateChangeLog(config.id)

    def __iter__(self) -> Iterator[Partition]:
        return iter(tuple(self._partitions.values()))

    def hosted(self, tp: TopicPartition) -> Partition | ErrorCode:
        """The partition, or what to tell a client that believed it to be here."""
        partition = self._partitions.get(tp)
        if partition is not None:
            return partition
        if tp in self._metadata:
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_topic_or_partition

    # --- time -------------------------------------------------------------------------------

    def tick(self) -> None:
        """Lets every leader look at the clock: waiting producers, followers that lag."""
        event = Tick(now=self._surroundings.clock.now())
        for partition in self:
            if partition.replica.role is Role.LEADER:
                partition.step(event)

    def checkpoint_high_watermarks(self) -> None:
        """Writes ``replication-offset-checkpoint``."""
        self._logs.checkpoint_high_watermarks(
            {tp: partition.replica.high_watermark for tp, partition in self._partitions.items()}
        )

    def delete_old_segments(self) -> None:
        """Applies retention, on every replica by itself as in Kafka."""
        for partition in self:
            partition.delete_old_segments()

    # --- LeaderAndIsr -----------------------------------------------------------------------

    async def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> Errors:
        """Each partition takes the role it is told; an error code for each."""
        async with self._one_at_a_time:
            errors: Errors = {}
            for topic in request.topic_states:
                for state in topic.partition_states:
                    tp = TopicPartition(topic.topic_name, state.partition_index)
                    errors[tp] = await self._assume(tp, topic.topic_id, state, request)
            return errors

    async def _assume(
        self,
        tp: TopicPartition,
        topic_id: uuid.UUID | None,
        state: LeaderAndIsrPartitionState,
        request: LeaderAndIsrRequest,
    ) -> ErrorCode:
        self._record("received", tp, state, request)
        if self._config.id not in state.replicas:
            self._record("rejected", tp, state, request, error="not a replica of this partition")
            return ErrorCode.unknown_topic_or_partition
        if not is_legal(tp.topic) or tp.partition < 0:
            self._record("rejected", tp, state, request, error="no partition can be called so")
            return ErrorCode.invalid_topic_exception
        try:
            partition = await self._host(tp, topic_id)
        except InconsistentTopicId as error:
            self._record("rejected", tp, state, request, error=str(error))
            return ErrorCode.inconsistent_topic_id
        try:
            self._take_role(partition, state)
        except (StaleEpoch, ValueError) as error:
            self._record("rejected", tp, state, request, error=str(error))
            return ErrorCode.stale_controller_epoch
        self._record("completed", tp, state, request)
        return ErrorCode.none

    def _take_role(self, partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        epoch_before = partition.replica.leader_epoch
        partition.step(
            LeaderAndIsr(
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=state.isr,
                replicas=state.replicas,
                zk_version=state.zk_version,
                now=self._surroundings.clock.now(),
            )
        )
        if partition.replica.leader_epoch == epoch_before:
            return  # who fetches goes on: to begin anew with each ISR change would be to lag
        if partition.replica.role is Role.FOLLOWER:
            self._fetchers.follow(partition)
        else:
            self._fetchers.unfollow(partition.tp)
        self._surroundings.purgatory.wake(partition.tp)

    async def _host(self, tp: TopicPartition, topic_id: uuid.UUID | None) -> Partition:
        """The partition, from now on if not before; raises InconsistentTopicId."""
        hosted = self._partitions.get(tp)
        if hosted is not None:
            await carry_out(hosted.log.metadata.assign_steps(topic_id))
            return hosted
        config = await self._topics.load(tp.topic)
        log = self._logs.create(tp)
        await carry_out(log.metadata.assign_steps(topic_id))
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
        partition = Partition(tp, replica, log, config, self._surroundings)
        self._partitions[tp] = partition
        return partition

    def _replica_config(self, config: TopicConfig) -> ReplicaConfig:
        return ReplicaConfig(
            min_insync_replicas=config.min_insync_replicas,
            replica_lag_time_max_ms=self._config.replica_lag_time_max_ms,
            replica_lag_max_messages=self._config.replica_lag_max_messages,
            truncation=self._config.truncation,
        )

    def configure(self, topics: Collection[str] | None) -> None:
        """The settings of these topics were read anew (None: of all), and count from now on."""
        for partition in self:
            if topics is None or partition.tp.topic in topics:
                config = self._topics.get(partition.tp.topic)
                partition.configure(config, self._replica_config(config))

    def _record(
        self,
        event: str,
        tp: TopicPartition,
        state: LeaderAndIsrPartitionState,
        request: LeaderAndIsrRequest,
        error: str | None = None,
    ) -> None:
        self._state_changes.record(
            event,
            "LeaderAndIsr",
            tp,
            controller=request.controller_id,
            controller_epoch=request.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            error=error,
        )

    # --- StopReplica ------------------------------------------------------------------------

    async def stop(self, request: StopReplicaRequest) -> Errors:
        """Stops following, and deletes where told so; an error code for each partition."""
        async with self._one_at_a_time:
            errors = {
                tp: self._stop(tp, state, request)
                for topic in request.topic_states
                for state in topic.partition_states
                for tp in [TopicPartition(topic.topic_name, state.partition_index)]
            }
            # Before the answer: a controller that was told so does not ask again.
            doomed, self._doomed = self._doomed, []
            await carry_out(self._logs.delete_steps(doomed))
            return errors

    def _stop(
        self, tp: TopicPartition, state: StopReplicaPartitionState, request: StopReplicaRequest
    ) -> ErrorCode:
        partition = self._partitions.get(tp)
        current = partition.replica.leader_epoch if partition else -1
        stale = LEADER_DURING_DELETE != state.leader_epoch < current and state.leader_epoch != -1
        if not stale:
            self._fetchers.unfollow(tp)
            if state.delete_partition:
                self._delete(tp)
        self._state_changes.record(
            "rejected" if stale else "completed",
            "StopReplica",
            tp,
            controller=request.controller_id,
            controller_epoch=request.controller_epoch,
            leader_epoch=state.leader_epoch,
        )
        return ErrorCode.fenced_leader_epoch if stale else ErrorCode.none

    def _delete(self, tp: TopicPartition) -> None:
        partition = self._partitions.pop(tp, None)
        if partition is not None:
            partition.stop()
            self._surroundings.purgatory.wake(tp)
            if not any(other.topic == tp.topic for other in self._partitions):
                forget_topic(tp.topic)
        self._doomed.append(tp)
