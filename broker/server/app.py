"""The whole broker: its parts, the order in which they start, and how they end.

Start:

1. The cluster's id and the topics' settings are read from ZooKeeper.
2. Logs are recovered, and the socket listens.
3. The broker registers in ZooKeeper.
4. Only then does it serve requests, and may become controller.

Stop: leaderships are handed over (controlled shutdown), clients are disconnected, and logs are
closed cleanly.

All tasks belong to one group. If one of them fails, which should not happen, the broker stops with
an error instead of continuing with a part missing.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any

from ackproof.broker.config import BrokerConfig, Listener
from ackproof.broker.controller.context import Context as ControllerContext
from ackproof.broker.log.disk import MetaProperties
from ackproof.broker.log.manager import LogManager
from ackproof.broker.replication.replica import Role
from ackproof.broker.server.admin import ConfigAdmin, ConfigChanges, TopicConfigs, Topics
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.controller_coordinator import ControllerCoordinator
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.coordinator import Coordinator
from ackproof.broker.server.environment import Environment, real
from ackproof.broker.server.groups.group_coordinator import GroupCoordinator
from ackproof.broker.server.groups.offsets_topic import OffsetsTopic, count_partitions
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.metrics import (
    ZOOKEEPER_EXPIRES,
    ControllerGauges,
    PartitionGauges,
    Snapshot,
)
from ackproof.broker.server.network.connections import ConnectionConfig, Connections
from ackproof.broker.server.replication.fetch_session_cache import FetchSessionCache
from ackproof.broker.server.replication.fetcher import Fetchers
from ackproof.broker.server.replication.partition import Partition, PartitionContext
from ackproof.broker.server.replication.purgatory import Purgatory
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.requests.dispatch import Dispatcher, served
from ackproof.broker.server.schedule import carry_out_later, every
from ackproof.broker.server.zk.kafka_zk import KafkaZk, ProducerIds
from ackproof.broker.types import BrokerId

logger = logging.getLogger(__name__)


TICK_MS = 100
"""The precision of produce timeouts and ISR checks."""

FLUSH_CHECK_MS = 1_000
"""The precision of ``flush.ms``, unless ``log.flush.scheduler.interval.ms`` is set."""


class App:
    """One broker. ``run`` runs it from start to stop.

    Args:
        environment: the machine it runs on, or None for this one.
    """

    def __init__(self, config: BrokerConfig, environment: Environment | None = None) -> None:
        self._config = config
        self._environment = environment = environment or real()
        self._clock = environment.clock
        self.logs: LogManager | None = None
        """This and the following parts may be read from outside, once the broker has them."""
        self.replicas: ReplicaManager | None = None
        self.groups: GroupCoordinator | None = None
        self.coordinator: Coordinator | None = None
        self.connections: Connections | None = None
        self._zk = KafkaZk(
            config.zookeeper_connect,
            config.zookeeper_session_timeout_ms,
            connection_timeout_ms=config.zookeeper_connection_timeout_ms,
            now_ms=environment.clock.wall_ms,
            new_uuid=environment.new_uuid,
            client=environment.zookeeper,
        )
        self._zk.on_session_expired(ZOOKEEPER_EXPIRES.inc)
        self._topic_configs = TopicConfigs(config, self._zk)
        self._fence = ControlFence()
        self._purgatory = Purgatory()
        self._fetch_sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, environment.random
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: set[asyncio.Task[None]] = set()
        self._halted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then hand over and close.

        Raises:
            OSError: the address is taken, or a log directory cannot be used.
            ForeignLogDirectory: a log directory is another broker's or cluster's.
            ZkError: ZooKeeper cannot be reached, or another broker has our id.
            ExceptionGroup: a part of the broker failed.
        """
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(self._zk.close)
            introduced = asyncio.ensure_future(self._introduced())
            if await self._done(introduced, stop):
                logs = closing.enter_context(self._open_logs(introduced.result()))
                await self._serve(logs, stop)
        logger.info("Broker %d has stopped", self._config.id)

    async def _introduced(self) -> str:
        """Connect to ZooKeeper, read what is needed to open logs, and return the cluster's id."""
        await self._zk.start()
        await nodes.claim(self._config, self._zk.session)
        await self._topic_configs.load_all()
        return await self._zk.cluster_id()

    def held(self) -> dict[str, int]:
        """Return how much is held for others, by kind. Each is 0 now and then when all is quiet.

        Followers wait for new records all the time. Of the waiting requests, only those count that
        belong to no open connection.
        """
        connections = self.connections
        connected = 0 if connections is None else connections.unanswered
        closed = 0 if connections is None else connections.counted - len(connections)
        return {
            "closed connections": abs(closed),
            "requests to ZooKeeper": self._zk.session.requests_in_flight,
            "requests of groups": 0 if self.groups is None else self.groups.waiting,
            "orders": 0 if self.coordinator is None else self.coordinator.waiting,
            "requests without a connection": max(0, self._purgatory.waiting - connected),
        }

    @contextlib.contextmanager
    def _open_logs(self, cluster_id: str) -> Iterator[LogManager]:
        """Yield the recovered logs. Close them cleanly unless something failed."""
        self.logs = logs = LogManager(
            self._config.log_dirs,
            self._topic_configs.log_config,
            unique=lambda: self._environment.new_uuid().hex,
            owner=MetaProperties(self._config.id, cluster_id),
            later=lambda steps: carry_out_later(steps, self._halt, self._under_way),
            files=self._environment.files,
            probe=self._environment.probe,
        )
        try:
            yield logs
        except BaseException:
            logs.close(clean=False)
            raise
        logs.close(clean=True)

    async def _serve(self, logs: LogManager, stop: asyncio.Event) -> None:
        async with contextlib.AsyncExitStack() as closing, asyncio.TaskGroup() as group:
            self.coordinator = coordinator = self._coordinator(group, logs)
            self.replicas = replicas = self._replicas(logs, coordinator, group)
            bound = asyncio.ensure_future(self._bound(replicas, coordinator, group))
            if await self._done(bound, stop):
                connections = bound.result()
                # This includes a broker that halts. It would otherwise serve until its session is
                # closed. Told to follow, it would open a log again that is closed by then, as a new
                # one, and truncate it.
                closing.callback(connections.drop)
                await closing.enter_async_context(self._exposed(replicas, coordinator, connections))
                await self._live(connections, replicas, coordinator, group, logs, stop)
            for task in self._tasks:
                task.cancel()
            # The disk may fail while the broker hands over. If that were ignored, its logs would be
            # marked as closed cleanly, and the next start would not check them.
            if self._halted.done():
                await self._halted
        replicas.checkpoint_high_watermarks()

    async def _live(
        self,
        connections: Connections,
        replicas: ReplicaManager,
        coordinator: Coordinator,
        group: asyncio.TaskGroup,
        logs: LogManager,
        stop: asyncio.Event,
    ) -> None:
        """Join the cluster, serve, and hand over."""
        # Registering takes seconds if a former session must end first. Meanwhile a disk may fail,
        # and without a controller the broker may lead already.
        if await self._done(self._spawn(group, coordinator.join(replicas)), stop):
            # Not earlier: clients that asked meanwhile were told that the broker's partitions do
            # not exist, and gave up.
            connections.accept(partial(self._spawn, group))
            self._spawn(group, coordinator.run())
            self._spawn(group, self._follow_configs(replicas, coordinator))
            self._schedule(group, replicas, logs)
            logger.info("Broker %d serves at %s", self._config.id, self._config.advertised)
            await self._stopped(stop)
        if self._config.controlled_shutdown_enable:
            await coordinator.hand_over()
        await connections.close()

    def _coordinator(self, group: asyncio.TaskGroup, logs: LogManager) -> Coordinator:
        """Return the coordinator. Only here does the kind of coordination matter."""
        spawn, probe = partial(self._spawn, group), self._environment.probe
        if self._config.led_by_leaders:
            # Imported late, because a broker of a cluster with a controller does not need the
            # memory.
            from ackproof.broker.server.coordination.leader_coordinator import LeaderCoordinator

            return LeaderCoordinator(
                self._config, self._zk, self._clock, spawn, probe, clean=logs.clean
            )
        return ControllerCoordinator(self._config, self._zk, self._clock, self._fence, spawn, probe)

    def _replicas(
        self, logs: LogManager, coordinator: Coordinator, group: asyncio.TaskGroup
    ) -> ReplicaManager:
        return ReplicaManager(
            self._config,
            logs,
            self._topic_configs,
            coordinator.metadata,
            Fetchers(
                self._config,
                self._clock,
                partial(_locate, coordinator.metadata),
                partial(self._spawn, group),
            ),
            PartitionContext(
                self._clock,
                self._purgatory,
                coordinator.write_isr,
                self._halt,
                self._environment.probe,
            ),
        )

    def _follow_configs(
        self, replicas: ReplicaManager, coordinator: Coordinator
    ) -> Coroutine[None, None, None]:
        def changed(topics: Collection[str] | None) -> None:
            replicas.configure(topics)
            coordinator.configs_changed(topics)

        changes = ConfigChanges(self._config.id, self._zk, self._topic_configs, changed)
        return changes.follow_forever()

    async def _bound(
        self, replicas: ReplicaManager, coordinator: Coordinator, group: asyncio.TaskGroup
    ) -> Connections:
        topics = Topics(self._config, coordinator.topics, coordinator.metadata)
        context = Context(
            config=self._config,
            cluster_id=await self._zk.cluster_id(),
            clock=self._clock,
            fence=self._fence,
            replicas=replicas,
            metadata=coordinator.metadata,
            purgatory=self._purgatory,
            fetch_sessions=self._fetch_sessions,
            topics=topics,
            new_uuid=self._environment.new_uuid,
            configs=ConfigAdmin(
                self._zk, coordinator.topics, self._topic_configs, coordinator.metadata
            ),
            coordinator=coordinator,
            producer_ids=ProducerIds(self._config.id, self._zk),
            groups=await self._groups(replicas, coordinator, topics, group),
            served=served(orders=coordinator.takes_orders),
            probe=self._environment.probe,
        )
        self.connections = connections = Connections(
            Dispatcher(context), ConnectionConfig.of(self._config), self._environment.listen
        )
        connections.bind(self._config.listeners)
        return connections

    async def _groups(
        self,
        replicas: ReplicaManager,
        coordinator: Coordinator,
        topics: Topics,
        group: asyncio.TaskGroup,
    ) -> GroupCoordinator:
        config = self._config
        partitions = await count_partitions(coordinator.topics, config)
        topic = OffsetsTopic(config, coordinator.metadata, topics, partitions)
        metadata, spawn = coordinator.metadata, partial(self._spawn, group)
        probe = self._environment.probe
        groups = GroupCoordinator(config, self._clock, replicas, topic, metadata, spawn, probe)
        self.groups = groups
        metadata.on_deleted = groups.topics_deleted
        self._spawn(group, every(TICK_MS, groups.tick))
        self._spawn(group, every(config.offsets_retention_check_interval_ms, groups.expire))
        return groups

    @contextlib.asynccontextmanager
    async def _exposed(
        self, replicas: ReplicaManager, coordinator: Coordinator, connections: Connections
    ) -> AsyncIterator[None]:
        """Serve metrics in the context, if there is a ``metrics.listener``."""
        listener = self._config.metrics_listener
        if listener is None:
            yield
            return
        from ackproof.broker.server.metrics import MetricsEndpoint

        def look() -> Snapshot:
            return take_snapshot(
                replicas,
                coordinator.context,
                self._purgatory,
                self._fetch_sessions,
                len(connections),
            )

        endpoint = MetricsEndpoint(look)
        await endpoint.start(listener.host, listener.port)
        try:
            yield
        finally:
            await endpoint.close()

    def _schedule(
        self, group: asyncio.TaskGroup, replicas: ReplicaManager, logs: LogManager
    ) -> None:
        config = self._config
        flush_check_ms = config.log_flush_scheduler_interval_ms or FLUSH_CHECK_MS
        checkpoint_ms = config.replica_high_watermark_checkpoint_interval_ms
        for interval_ms, action in (
            (TICK_MS, replicas.tick),
            (checkpoint_ms, replicas.checkpoint_high_watermarks),
            (config.log_flush_offset_checkpoint_interval_ms, logs.checkpoint_recovery_points),
            (config.log_flush_start_offset_checkpoint_interval_ms, logs.checkpoint_log_starts),
            (config.log_retention_check_interval_ms, replicas.delete_old_segments),
            (flush_check_ms, lambda: logs.flush_if_due(self._clock.now())),
            (
                config.producer_id_expiration_check_interval_ms,
                lambda: logs.expire_producers(
                    self._clock.wall_ms(), config.producer_id_expiration_ms
                ),
            ),
        ):
            self._spawn(group, every(interval_ms, action))

    async def _done(self, step: asyncio.Future[Any], stop: asyncio.Event) -> bool:
        """Wait for a step of the start, and return whether it is done before the broker is told to
        stop. Otherwise cancel it: without ZooKeeper it could take for ever."""
        try:
            await self._stopped(stop, step)
            return step.done()
        finally:
            step.cancel()
            await asyncio.wait((step,))

    async def _stopped(self, stop: asyncio.Event, *ends: asyncio.Future[None]) -> None:
        """Return when told to stop, or when one of ``ends`` is done. Raise the error that makes the
        broker halt."""
        asked: asyncio.Future[Any] = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((asked, self._halted, *ends), return_when=asyncio.FIRST_COMPLETED)
            if self._halted.done():
                await self._halted
        finally:
            asked.cancel()

    def _halt(self, error: Exception) -> None:
        if not self._halted.done():
            self._halted.set_exception(error)
            # Mark the error as retrieved: a task that is killed before it reads it causes no
            # warning.
            self._halted.exception()

    def _spawn(
        self, group: asyncio.TaskGroup, work: Coroutine[None, None, None]
    ) -> asyncio.Task[None]:
        task = group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _locate(metadata: MetadataCache, broker: BrokerId) -> Listener | None:
    known = metadata.brokers.get(broker)
    return known.listener if known else None


# --- state for the metrics ------------------------------------------------------------------------
#
# The state of the broker for the metrics, read when they are requested.
#
# Events are counted where they happen (:mod:`broker.server.metrics`).


def take_snapshot(
    partitions: Iterable[Partition],
    controller: ControllerContext | None,
    purgatory: Purgatory,
    sessions: FetchSessionCache,
    connections: int,
) -> Snapshot:
    """Return the present state.

    Args:
        controller: the controller's context, if this broker is the controller.
        connections: the number of open connections.
    """
    return Snapshot(
        partitions=tuple(map(_view, partitions)),
        controller=ControllerGauges() if controller is None else _controller_view(controller),
        waiting_fetches=purgatory.waiting,
        fetch_sessions=len(sessions),
        session_partitions=sum(map(len, sessions)),
        connections=connections,
    )


def _view(partition: Partition) -> PartitionGauges:
    replica, log = partition.replica, partition.log
    return PartitionGauges(
        tp=partition.tp,
        leads=replica.role is Role.LEADER,
        offline=replica.role is Role.OFFLINE,
        replicas=len(replica.replicas),
        isr=len(replica.isr),
        min_isr=partition.config.min_insync_replicas,
        size=log.size,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        segments=len(log.segment_base_offsets),
        waiting_producers=partition.waiting_producers,
    )


def _controller_view(context: ControllerContext) -> ControllerGauges:
    offline = imbalanced = 0
    partitions = tuple(context.partitions())
    for tp in partitions:
        state, assignment = context.states.get(tp), context.assignment(tp)
        if context.deletes(tp.topic) or assignment is None:
            continue
        leader = None if state is None else state.leader
        offline += leader not in context.live
        imbalanced += bool(assignment.replicas) and leader != assignment.replicas[0]
    return ControllerGauges(
        activecontrollercount=1,
        offlinepartitionscount=offline,
        preferredreplicaimbalancecount=imbalanced,
        globaltopiccount=len(context.topics),
        globalpartitioncount=len(partitions),
        topicstodeletecount=sum(map(context.deletes, context.deletions)),
        activebrokercount=len(context.live),
    )
