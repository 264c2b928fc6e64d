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
from ackproof.broker.server.admin.topics import TopicStore
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.runtime import ControllerRuntime
from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.metrics import meters
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.schedule import Clock, Spawn
from ackproof.broker.server.zk.isr_write import IsrWriteOutcome
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired, ZkClosed
from ackproof.broker.types import NO_LEADER, BrokerId, Millis, TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

logger = logging.getLogger(__name__)


# --- registration ---------------------------------------------------------------------------------
#
# Being in ``/brokers/ids`` for as long as this broker lives.
#
# The znode goes with its session. When the session has expired, the broker goes on serving as it
# believes (it may be a zombie leader by then), and registers anew as soon as it has another one.
# Only a registered broker may contest the office of controller: one that is not would take itself
# for dead as soon as it is elected.


class Registration:
    """Registers, and again after each expiry."""

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
        # Until the first registration, which will be later than all that ZooKeeper has told of,
        # what names an earlier one is meant for a former life. It may have led, with a log whose
        # end is lost by now: obeyed, it would lead on in that very epoch.
        fence.broker_epoch = zk.session.last_zxid + 1
        zk.on_session_expired(self._registered.clear)
        zk.on_session_established(self._renewed.set)

    async def register(self) -> None:
        """Returns when the broker is registered, however many sessions that takes.

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
        """Returns when the broker is registered in the current session."""
        await self._registered.wait()

    async def renew_forever(self) -> None:
        """Registers in each new session."""
        while True:
            await self._renewed.wait()
            await self.register()


# --- ISR changes ----------------------------------------------------------------------------------
#
# ISR changes on their way to ZooKeeper and to the controller.
#
# A leader's new ISR goes to the partition's state znode; what became of it is fed back to the
# replica. The controller is told through ``/isr_change_notification``, not at once but gathered, to
# spare it (seed 002, 1.2): looked at every 2.5 s, sent when no ISR has changed for 5 s, or when
# nothing was sent for 60 s.


PROPAGATION_CHECK_MS = 2_500
QUIET_MS = 5_000
PROPAGATION_MAX_MS = 60_000


class IsrChanges:
    """Writes ISRs for one broker and tells the controller of them."""

    def __init__(self, broker: BrokerId, zk: KafkaZk, clock: Clock, spawn: Spawn) -> None:
        self._broker = broker
        self._zk = zk
        self._clock = clock
        self._spawn = spawn
        self._unsent: set[TopicPartition] = set()
        self._unknown: dict[TopicPartition, WriteIsr] = {}
        """Writes of which nobody knows whether they happened; they come again."""
        self._last_change = clock.now()
        self._last_sent = clock.now()

    def write(self, partition: Partition, effect: WriteIsr) -> None:
        """Starts the write; the partition hears of the outcome."""
        self._spawn(self._write(partition, effect))

    async def propagate_forever(self) -> None:
        """The task ``isr-change-propagation``."""
        while True:
            await asyncio.sleep(PROPAGATION_CHECK_MS / 1000)
            if self.is_due(self._clock.now()):
                await self._propagate()

    def is_due(self, now: Millis) -> bool:
        """Whether changes are waiting, and have waited as long as the rules say."""
        quiet = self._last_change + QUIET_MS < now
        overdue = self._last_sent + PROPAGATION_MAX_MS < now
        return bool(self._unsent) and (quiet or overdue)

    def changed(self, tp: TopicPartition) -> None:
        """Notes that the ISR of ``tp`` in ZooKeeper is a new one."""
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
            meters.FAILED_ISR_UPDATES.inc()
            conflict = result.outcome is IsrWriteOutcome.CONFLICT
            if not conflict:
                self._unknown[partition.tp] = effect
            partition.step(IsrWriteFailed(leader_epoch=effect.leader_epoch, conflict=conflict))
            return
        self.changed(partition.tp)
        meters.isr_changed(size_before, len(effect.isr))
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
# Handing leaderships over before stopping (``controlled.shutdown.enable``).
#
# The broker asks the controller to let other replicas lead its partitions, and stops when none is
# left or when it has asked often enough. Without success it stops all the same: then the others
# find out by its session.


async def hand_over(config: BrokerConfig, fence: ControlFence, metadata: MetadataCache) -> bool:
    """Asks up to 1 + ``controlled.shutdown.max.retries`` times; True when nothing is led.

    Each time in the name of the present registration, as Kafka's ``KafkaServer`` does: a session
    may end meanwhile, and this broker register anew.

    Who has not heard of any controller yet, since it is still registering, leads nothing: roles are
    told after who is live.
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
# Coordination by a controller (seeds 002 and 003): one broker decides for all partitions.
#
# This broker registers, contests the office, and writes the ISRs of the partitions it leads; what
# it is told comes in requests (:mod:`broker.server.requests.control_requests` and its kin).


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
        """What this broker knows as the controller; None if it is none."""
        return self._controller.context

    @property
    def waiting(self) -> int:
        """The number of answers of the controller that are waited for."""
        return self._controller.waiting

    async def join(self, _replicas: ReplicaManager) -> None:
        """Registers: the controller tells the replicas the rest, by way of requests."""
        await self._registration.register()

    async def run(self) -> None:
        """Stays registered, contests the office, tells the controller of new ISRs."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._registration.renew_forever(), name="registration")
            group.create_task(self._controller.run(), name="controller")
            group.create_task(self._isr_changes.propagate_forever(), name="isr-change-propagation")

    async def hand_over(self) -> None:
        """Asks the controller to let others lead."""
        await hand_over(self._config, self._fence, self.metadata)

    def configs_changed(self, topics: Collection[str] | None) -> None:
        """The controller needs to know where unclean elections are allowed."""
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
        """With a controller nothing is left of a broker that is not registered."""
        return Outcome(ErrorCode.unsupported_version)

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """See :meth:`ControllerRuntime.controlled_shutdown`."""
        return await self._controller.controlled_shutdown(request)
