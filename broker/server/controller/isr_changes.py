"""ISR changes on their way to ZooKeeper and to the controller.

A leader's new ISR goes to the partition's state znode; what became of it is fed back to the
replica. The controller is told through ``/isr_change_notification``, not at once but gathered, to
spare it (seed 002, 1.2): looked at every 2.5 s, sent when no ISR has changed for 5 s, or when
nothing was sent for 60 s.
"""

import asyncio
import logging

from ackproof.broker.replication.events import IsrWriteFailed, IsrWritten, WriteIsr
from ackproof.broker.server.clock import Clock
from ackproof.broker.server.metrics import meters
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.server.zk.isr_write import IsrWriteOutcome
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import SessionExpired, ZkClosed
from ackproof.broker.types import BrokerId, Millis, TopicPartition

logger = logging.getLogger(__name__)

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
