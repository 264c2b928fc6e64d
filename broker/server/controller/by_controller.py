"""Coordination by a controller (seeds 002 and 003): one broker decides for all partitions.

This broker registers, contests the office, and writes the ISRs of the partitions it leads; what it
is told comes in requests (:mod:`broker.server.requests.control_requests` and its kin).
"""

import asyncio
from collections.abc import Callable, Collection, Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Outcome
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.events import WriteIsr
from ackproof.broker.server.admin.topics import TopicStore
from ackproof.broker.server.clock import Clock
from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.hand_over import hand_over
from ackproof.broker.server.controller.isr_changes import IsrChanges
from ackproof.broker.server.controller.registration import Registration
from ackproof.broker.server.controller.runtime import ControllerRuntime
from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


class ByController:
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
