"""Coordination by leaders: a broker of a cluster without a controller (*Design V2*)."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller.cluster import BrokerInfo, Endpoint
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Outcome
from ackproof.broker.coordination.admin import Admin
from ackproof.broker.coordination.context import Settings
from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.events import BrokersRead, IsrAsked, ShutdownAsked
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.events import WriteIsr
from ackproof.broker.server import metrics
from ackproof.broker.server.coordination.elections import Elections
from ackproof.broker.server.coordination.event_loop import (
    Commands,
    EffectExecutor,
    EventLoop,
    ProgressWatch,
)
from ackproof.broker.server.coordination.topics import LedTopics
from ackproof.broker.server.coordination.zk_metadata import ZkMetadata
from ackproof.broker.server.coordination.zk_nodes import Reader, Writer
from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.schedule import Clock, Spawn
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

logger = logging.getLogger(__name__)


CHECK_INTERVAL_S = 5.0
"""The interval at which a broker reads the nodes on which it has no watch."""


class LeaderCoordinator:
    """This broker's part of the coordination. ``clean`` says whether its logs were closed cleanly
    the last time."""

    def __init__(
        self,
        config: BrokerConfig,
        zk: KafkaZk,
        clock: Clock,
        spawn: Spawn,
        probe: Probe = NO_PROBE,
        *,
        clean: bool,
    ) -> None:
        self._config = config
        self._zk = zk
        self._spawn = spawn
        self._reader = Reader(zk.session)
        writer = self._writer = Writer(zk.session, config.id, zk.new_uuid)
        commands = Commands(self._reader, writer)
        self.metadata = ZkMetadata(zk, self._reader)
        admin = Admin(
            fenced=config.ackproof_coordination_variant == "fenced",
            queue_max=config.ackproof_state_change_queue_max,
        )
        self.topics = LedTopics(config.id, self._reader, commands, admin, spawn)
        self.takes_orders = False
        self._orders = Elections(self._reader, writer, commands, admin)
        self._core = Coordinator(_settings(config, clean), config.ackproof_coordination_variant)
        self._feed = EventLoop(self._core, clock, zk.session, probe)
        self._hands = EffectExecutor(
            config.id, zk.session, writer, self._feed.put, self._register, spawn
        )
        self._registered = asyncio.Event()
        zk.on_session_expired(self._registered.clear)
        zk.on_session_expired(self._hands.session_over)

    @property
    def active(self) -> bool:
        """True: every broker serves what elsewhere needs a controller."""
        return True

    @property
    def context(self) -> Context | None:
        """Return None: no broker is the controller."""
        return None

    @property
    def waiting(self) -> int:
        """The number of topics that are being created or deleted, and of running commands."""
        return self.topics.waiting

    def write_isr(self, partition: Partition, effect: WriteIsr) -> None:
        """Start the write. This broker leads the partition, and decides how it may be written."""
        logger.info("ISR of %s to %s", partition.tp, effect.isr)
        self._feed.put(IsrAsked(partition=partition.tp, asked=effect))

    async def join(self, replicas: ReplicaManager) -> None:
        """Do the document's ``brokerStartup``: drain the queue, start replicas, then register."""
        progress = ProgressWatch(replicas, self._feed.put)
        self._hands.take(replicas, progress)
        await asyncio.gather(*map(self._writer.give_id, await self._reader.topics()))
        await self.metadata.read_brokers()
        self.metadata.on_registered = self._brokers_changed
        for work in (
            self._feed.run(self._hands),
            progress.poll_forever(),
            self.metadata.follow_brokers(),
            self.metadata.follow_topics(),
            self._poll_nodes(),
        ):
            self._spawn(work)
        self._feed.start_session()
        await self._registered.wait()

    async def run(self) -> None:
        """Return at once: all work was begun by ``join``."""

    async def hand_over(self) -> None:
        """Delete this broker's leader nodes, one by one. Wait as long as for a controller
        (``controlled.shutdown.max.retries`` and ``.retry.backoff.ms``)."""
        config = self._config
        self._feed.put(ShutdownAsked())
        tries = 1 + config.controlled_shutdown_max_retries
        patience_s = max(1, tries * config.controlled_shutdown_retry_backoff_ms) / 1000
        try:
            async with asyncio.timeout(patience_s):
                while self._core.leading:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            logger.warning("Still leading %s, stopping all the same", self._core.leading)

    def configs_changed(self, topics: Collection[str] | None) -> None:
        """Ignore the change: no setting of a topic matters here."""

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> Outcomes | None:
        """See :class:`~broker.server.coordination.elections.Elections`."""
        return await self._orders.elect(partitions, unclean=unclean)

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> Outcomes | None:
        """See :class:`~broker.server.coordination.elections.Elections`."""
        return await self._orders.reassign(targets)

    async def remove_broker(self, broker: BrokerId) -> Outcome:
        """See :class:`~broker.server.coordination.elections.Elections`."""
        return await self._orders.remove_broker(broker)

    async def controlled_shutdown(
        self, _request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """Reject the request. A broker that stops gives up its leaderships by itself."""
        error = ErrorCode.not_controller
        return ControlledShutdownResponse(error_code=error, remaining_partitions=())

    def _brokers_changed(self, registered: frozenset[BrokerId]) -> None:
        self._feed.put(BrokersRead(live=registered))

    async def _register(self) -> None:
        host, port = self._config.advertised
        info = BrokerInfo(
            broker_id=self._config.id,
            endpoints=(Endpoint(host=host, port=port),),
            rack=self._config.broker_rack,
        )
        session = self._zk.session.number
        with contextlib.suppress(SessionExpired):
            await self._zk.register_broker(info)
            if session == self._zk.session.number:
                self._registered.set()

    async def _poll_nodes(self) -> None:
        """Read what has no watch: the lengths of the queues, and which topics are gone."""
        while True:
            metrics.queues_seen(await self._reader.depths())
            await self.metadata.refresh(())
            await asyncio.sleep(CHECK_INTERVAL_S)


def _settings(config: BrokerConfig, clean: bool) -> Settings:
    return Settings(
        broker=config.id,
        preferred_replica_wait_ms=config.ackproof_preferred_replica_wait_ms,
        keep_in_sync_ms=config.keep_in_sync_ms,
        state_change_queue_max=config.ackproof_state_change_queue_max,
        load_balancing=config.auto_leader_rebalance_enable,
        unclean_start=not clean,
    )
