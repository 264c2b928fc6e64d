"""Who says what becomes of partitions: what the rest of the broker asks of it.

There are two (``ackproof.coordination``), and :class:`~broker.server.app.App` chooses: a controller
for all partitions (:mod:`broker.server.controller.controller_coordinator`), or each partition's own
leader (:mod:`broker.server.coordination`). What they tell replicas is
:mod:`broker.server.replication.roles`'.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Outcome
from ackproof.broker.replication.events import WriteIsr
from ackproof.broker.server.admin.topics import TopicStore
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

Outcomes = Mapping[TopicPartition, Outcome]
"""What became of each partition that was asked about."""


class Coordinator(Protocol):
    """A broker's part in coordinating its cluster. ``run`` is its life."""

    @property
    def metadata(self) -> MetadataCache:
        """What this broker knows of the cluster."""

    @property
    def topics(self) -> TopicStore:
        """Where topics are written down."""

    @property
    def takes_orders(self) -> bool:
        """Whether requests tell this broker what to do with its replicas."""

    @property
    def active(self) -> bool:
        """Whether this broker serves what needs a controller: creating topics and the like."""

    @property
    def context(self) -> Context | None:
        """What this broker knows as the controller; None if it is none."""

    @property
    def waiting(self) -> int:
        """The number of orders and questions of this broker that are not answered yet."""

    def write_isr(self, partition: Partition, effect: WriteIsr) -> None:
        """Starts the write; the partition hears of the outcome."""

    async def join(self, replicas: ReplicaManager) -> None:
        """Makes this broker one of the cluster's; returns when it is registered.

        Raises:
            BrokerIdInUse: another broker has our id.
        """

    async def run(self) -> None:
        """Coordinates until cancelled, from :meth:`join` on."""

    async def hand_over(self) -> None:
        """Gives leaderships up, before the broker stops (``controlled.shutdown.enable``)."""

    def configs_changed(self, topics: Collection[str] | None) -> None:
        """The settings of these topics changed; None: those of all may have."""

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> Outcomes | None:
        """Elect preferred leaders, or unclean ones where nobody leads; ``partitions`` None: all.

        Returns what came of it; None when another broker has to be asked.
        """

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> Outcomes | None:
        """Begin to move partitions; a target of None takes a reassignment back.

        Returns what was begun; None when another broker has to be asked.
        """

    async def remove_broker(self, broker: BrokerId) -> Outcome:
        """Forget a broker that will not come back."""

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """Move leaderships away from a broker that is about to stop."""
