"""The interface of the coordination of partitions to the rest of the broker.

There are two implementations (``ackproof.coordination``), and :class:`~broker.server.app.App`
chooses: a controller for all partitions (:mod:`broker.server.controller.controller_coordinator`),
or each partition's own leader (:mod:`broker.server.coordination`).
:mod:`broker.server.replication.roles` has the roles that they give to replicas.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Outcome
from ackproof.broker.replication.events import WriteIsr
from ackproof.broker.server.admin import TopicStore
from ackproof.broker.server.metadata_cache import MetadataCache
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)

Outcomes = Mapping[TopicPartition, Outcome]
"""The outcome for each requested partition."""


class Coordinator(Protocol):
    """A broker's part in coordinating its cluster. ``run`` runs it."""

    @property
    def metadata(self) -> MetadataCache:
        """The broker's knowledge of the cluster."""

    @property
    def topics(self) -> TopicStore:
        """The store of topics."""

    @property
    def takes_orders(self) -> bool:
        """Whether requests tell this broker the roles of its replicas."""

    @property
    def active(self) -> bool:
        """Whether this broker serves requests that need a controller, such as creating topics."""

    @property
    def context(self) -> Context | None:
        """The state of the controller, or None if this broker is not the controller."""

    @property
    def waiting(self) -> int:
        """The number of this broker's unanswered orders and questions."""

    def write_isr(self, partition: Partition, effect: WriteIsr) -> None:
        """Start the write. Its outcome is fed to the partition."""

    async def join(self, replicas: ReplicaManager) -> None:
        """Register this broker in the cluster, and return when that is done.

        Raises:
            BrokerIdInUse: another broker has our id.
        """

    async def run(self) -> None:
        """Coordinate until cancelled, from :meth:`join` on."""

    async def hand_over(self) -> None:
        """Give leaderships to other brokers before this one stops
        (``controlled.shutdown.enable``)."""

    def configs_changed(self, topics: Collection[str] | None) -> None:
        """Take over changed settings of these topics, or with None possibly of all."""

    async def elect_leaders(
        self, partitions: tuple[TopicPartition, ...] | None, *, unclean: bool
    ) -> Outcomes | None:
        """Elect preferred leaders, or unclean ones for partitions without a leader.

        ``partitions`` is None for all. Return the outcomes, or None when another broker must be
        asked.
        """

    async def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    ) -> Outcomes | None:
        """Begin to move partitions. A target of None cancels a reassignment.

        Return what was begun, or None when another broker must be asked.
        """

    async def remove_broker(self, broker: BrokerId) -> Outcome:
        """Forget a broker that will not come back."""

    async def controlled_shutdown(
        self, request: ControlledShutdownRequest
    ) -> ControlledShutdownResponse:
        """Move leaderships away from a broker that is about to stop."""
