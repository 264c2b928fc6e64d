"""Coordination by a controller: this broker registers, obeys the controller, proposes ISRs, and
hands its leaderships over before it stops. It may become the controller itself."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller.cluster import BrokerInfo, Endpoint
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Outcome
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.events import IsrWriteFailed, IsrWritten, WriteIsr
from ackproof.broker.server import metrics
from ackproof.broker.server.admin import TopicStore
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.runtime import ControllerRuntime
from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.schedule import Clock, Spawn
from ackproof.broker.server.zk.kafka_zk import IsrWriteOutcome, KafkaZk
from ackproof.broker.server.zk.session import SessionExpired, ZkClosed
from ackproof.broker.types import NO_LEADER, BrokerId, Millis, TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

logger = logging.getLogger(__name__)


# --- registration ---------------------------------------------------------------------------------
#
# The registration in ``/brokers/ids`` for as long as this broker lives.
#
# The znode vanishes with its session. When the session has expired, the broker continues to serve
# with what it knows (it may be a zombie leader by then), and registers again as soon as it has
# another session. Only a registered broker may compete to become controller. Without a registration
# it would consider itself dead as soon as it is elected.


class Registration:
    """The registration of this broker, repeated after each expiry."""

    def __init__(self, config: BrokerConfig, zk: KafkaZk, fence: ControlFence) -> None:
        host, port = config.advertised
        self._info = BrokerInfo(
            broker_id=config.id,
            endpoints=(Endpoint(host=host, port=port),),
            rack=config.broker_rack,
        )
        self._zk = zk
        self._fence = fence
        self._renewed = asyncio.Event()
        self._registered = asyncio.Event()
        # Until the first registration, any earlier registration named in a request is of a former
        # life of this broker. The first one will be later than everything that ZooKeeper has
        # reported. The broker may have led then, with a log whose end is lost by now. If it obeyed,
        # it would continue to lead in that very epoch.
        fence.broker_epoch = zk.session.last_zxid + 1
        zk.on_session_expired(self._registered.clear)
        zk.on_session_established(self._renewed.set)

    async def register(self) -> None:
        """Return when the broker is registered, however many sessions that takes.

        Raises:
            BrokerIdInUse: another broker has our id.
        """
        while True:
            self._renewed.clear()
            session = self._zk.session.number
            with contextlib.suppress(SessionExpired):
                epoch = await self._zk.register_broker(self._info)
                if session == self._zk.session.number:
                    self._fence.broker_epoch = epoch
                    self._registered.set()
                    return
            await self._renewed.wait()

    async def registered(self) -> None:
        """Return when the broker is registered in the current session."""
        await self._registered.wait()

    async def renew_forever(self) -> None:
        """Register in each new session."""
        while True:
            await self._renewed.wait()
            await self.register()


# --- ISR changes ----------------------------------------------------------------------------------
#
# The way of ISR changes to ZooKeeper and to the controller.
#
# A leader's new ISR goes to the partition's state znode, and the outcome is fed back to the
# replica. The controller is told through ``/isr_change_notification``. To spare it, changes are
# collected (*Reliability*, section 1.2). They are checked every 2.5 s, and sent when no ISR has
# changed for 5 s, or when nothing was sent for 60 s.


PROPAGATION_CHECK_MS = 2_500
QUIET_MS = 5_000
PROPAGATION_MAX_MS = 60_000


class IsrChanges:
    """Writes ISRs for one broker and announces them to the controller."""

    def __init__(self, broker: BrokerId, zk: KafkaZk, clock: Clock, spawn: Spawn) -> None:
        self._broker = broker
        self._zk = zk
        self._clock = clock
        self._spawn = spawn
        self._unsent: set[TopicPartition] = set()
        self._unknown: dict[TopicPartition, WriteIsr] = {}
        """The writes whose outcome is unknown. They are requested again."""
        self._last_change = clock.now()
        self._last_sent = clock.now()

    def write(self, partition: Partition, effect: WriteIsr) -> None:
        """Start the write. Its outcome is fed to the partition."""
        self._spawn(self._write(partition, effect))

    async def propagate_forever(self) -> None:
        """Run the task ``isr-change-propagation``."""
        while True:
            await asyncio.sleep(PROPAGATION_CHECK_MS / 1000)
            if self.is_due(self._clock.now()):
                await self._propagate()

    def is_due(self, now: Millis) -> bool:
        """Return whether changes are waiting, and have waited as long as the rules say."""
        quiet = self._last_change + QUIET_MS < now
        overdue = self._last_sent + PROPAGATION_MAX_MS < now
        return bool(self._unsent) and (quiet or overdue)

    def changed(self, tp: TopicPartition) -> None:
        """Note that the ISR of ``tp`` in ZooKeeper is a new one."""
        self._unsent.add(tp)
        self._last_change = self._clock.now()

    async def _write(self, partition: Partition, effect: WriteIsr) -> None:
        size_before = len(partition.replica.isr)
        again = self._unknown.pop(partition.tp, None) == effect
        try:
            result = await self._zk.write_isr(
                partition.tp,
                leader=self._broker,
                leader_epoch=effect.leader_epoch,
                controller_epoch=partition.controller_epoch,
                isr=effect.isr,
                zk_version=effect.zk_version,
                again=again,
            )
        except ZkClosed:
            return
        logger.info("ISR of %s to %s: %s", partition.tp, effect.isr, result.outcome.name)
        if result.zk_version is None:
            metrics.FAILED_ISR_UPDATES.inc()
            conflict = result.outcome is IsrWriteOutcome.CONFLICT
            if not conflict:
                self._unknown[partition.tp] = effect
            partition.step(IsrWriteFailed(leader_epoch=effect.leader_epoch, conflict=conflict))
            return
        self.changed(partition.tp)
        metrics.isr_changed(size_before, len(effect.isr))
        partition.step(
            IsrWritten(
                leader_epoch=effect.leader_epoch, isr=effect.isr, zk_version=result.zk_version
            )
        )

    async def _propagate(self) -> None:
        sending, self._unsent = self._unsent, set()
        try:
            await self._zk.notify_isr_change(sending)
        except SessionExpired:
            self._unsent |= sending
            return
        self._last_sent = self._clock.now()


# --- controlled shutdown --------------------------------------------------------------------------
#
# The handover of leaderships before the broker stops (``controlled.shutdown.enable``).
#
# The broker asks the controller to let other replicas lead its partitions. It stops when none is
# left, or after the last attempt. Without success the others notice the end of its session.


async def hand_over(config: BrokerConfig, fence: ControlFence, metadata: MetadataCache) -> bool:
    """Ask up to 1 + ``controlled.shutdown.max.retries`` times. Return True when nothing is led.

    Each attempt names the present registration, as Kafka's ``KafkaServer`` does. A session may end
    meanwhile, and this broker register again. A broker that is still registering, and has not heard
    of any controller, leads nothing: roles are sent after the live brokers.
    """
    if metadata.controller == NO_LEADER:
        return True
    for attempt in range(1 + config.controlled_shutdown_max_retries):
        if attempt:
            await asyncio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)
        try:
            if await _ask(config, fence.broker_epoch, metadata):
                return True
        except Disconnected as error:
            logger.warning("Controlled shutdown: %s", error)
    logger.warning("Controlled shutdown did not succeed, stopping all the same")
    return False


async def _ask(config: BrokerConfig, broker_epoch: int, metadata: MetadataCache) -> bool:
    controller = metadata.brokers.get(metadata.controller)
    if controller is None:
        raise Disconnected("no controller is known")
    connection = BrokerConnection(
        controller.listener.host, controller.listener.port, f"broker-{config.id}-shutdown"
    )
    try:
        response = await connection.call(
            ControlledShutdownRequest(broker_id=config.id, broker_epoch=broker_epoch),
            config.controller_socket_timeout_ms / 1000,
        )
    finally:
        await connection.close()
    remaining = [f"{p.topic_name}-{p.partition_index}" for p in response.remaining_partitions]
    logger.info("Controlled shutdown: %s, still led: %s", response.error_code.name, remaining)
    return response.error_code is ErrorCode.none and not remaining


# --- the coordinator ------------------------------------------------------------------------------
#
# Coordination by a controller (*Reliability*, *Failover*): one broker decides for all partitions.
#
# This broker registers, competes to become controller, and writes the ISRs of the partitions that
# it leads. Its orders come in requests (:mod:`broker.server.requests.control_requests`).


class ControllerCoordinator:
    """A broker of a cluster that has a controller, which may be this one."""

    def __init__(
        self,
        config: BrokerConfig,
        zk: KafkaZk,
        clock: Clock,
        fence: ControlFence,
        spawn: Spawn,
        probe: Probe = NO_PROBE,
    ) -> None:
        self._config = config
        self._fence = fence
        self.metadata = MetadataCache()
        self.topics: TopicStore = zk
        self.takes_orders = True
        self._registration = Registration(config, zk, fence)
        self._controller = ControllerRuntime(config, zk, self._registration.registered, probe)
        self._isr_changes = IsrChanges(config.id, zk, clock, spawn)
        self.write_isr: Callable[[Partition, WriteIsr], None] = self._isr_changes.write

    @property
    def active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._controller.active

    @property
    def context(self) -> Context | None:
        """The state of the controller, or None if this broker is not the controller."""
        return self._controller.context

    @property
    def waiting(self) -> int:
        """The number of pending answers of the controller."""
        return self._controller.waiting

    async def join(self, _replicas: ReplicaManager) -> None:
        """Register. The controller then sends the roles of the replicas in requests."""
        await self._registration.register()

    async def run(self) -> None:
        """Stay registered, compete to become controller, and announce new ISRs to the
        controller."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registration.renew_forever(), name="registration")
            group.create_task(self._controller.run(), name="controller")
            group.create_task(self._isr_changes.propagate_forever(), name="isr-change-propagation")

    async def hand_over(self) -> None:
        """Ask the controller to let others lead."""
        await hand_over(self._config, self._fence, self.metadata)

    def configs_changed(self, topics: Collection[str] | None) -> None:
        """Tell the controller, which must know where unclean elections are allowed."""
        self._controller.configs_changed(topics)

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> Outcomes | None:
        """See :meth:`ControllerRuntime.elect_leaders`."""
        return await self._controller.elect_leaders(partitions, unclean=unclean)

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> Outcomes | None:
        """See :meth:`ControllerRuntime.alter_reassignments`."""
        return await self._controller.alter_reassignments(targets)

    async def remove_broker(self, _broker: BrokerId) -> Outcome:
        """Reject the request: with a controller, an unregistered broker leaves nothing to
        remove."""
        return Outcome(ErrorCode.unsupported_version)

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """See :meth:`ControllerRuntime.controlled_shutdown`."""
        return await self._controller.controlled_shutdown(request)
