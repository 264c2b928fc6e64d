"""The one interface for watching a broker from within: it reports what the broker has just done.

A broker gets its probe with its :class:`~broker.server.environment.Environment`. It calls each
method synchronously, in the middle of its own step. A probe must therefore return at once, must not
change its arguments, and must not raise. The simulation checks a model against these reports. You
can subclass :class:`Probe` to trace or measure a broker without changing it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # every package of the broker reports here, and none may import another for that
    from ackproof.broker.controller.controller import Controller
    from ackproof.broker.controller.events import Effect as ControllerEffect
    from ackproof.broker.controller.events import Event as ControllerEvent
    from ackproof.broker.coordination.coordinator import Coordinator
    from ackproof.broker.coordination.events import Effect as CoordinatorEffect
    from ackproof.broker.coordination.events import Event as CoordinatorEvent
    from ackproof.broker.groups.events import Effect as GroupEffect
    from ackproof.broker.groups.events import Event as GroupEvent
    from ackproof.broker.log.manager import LogManager
    from ackproof.broker.log.partition_log import PartitionLog
    from ackproof.broker.replication.events import Effect, Event
    from ackproof.broker.server.groups.group_coordinator import GroupShard
    from ackproof.broker.server.replication.partition import Partition
    from ackproof.broker.types import TopicPartition
    from ackproof.broker.wire.batch import RecordBatch
    from ackproof.broker.wire.message import Request, Response


class Probe:
    """A receiver of a broker's reports. This one ignores them all; override what you need."""

    # --- logs -------------------------------------------------------------------------------

    def logs_opened(self, logs: "LogManager") -> None:
        """Report that all log directories were read and their logs recovered."""

    def log_created(self, logs: "LogManager", tp: "TopicPartition", log: "PartitionLog") -> None:
        """Report a new, empty log."""

    def log_appended(
        self, log: "PartitionLog", begin: int, batches: "Sequence[RecordBatch]", now_ms: int
    ) -> None:
        """Report an append that began at offset ``begin``, flushed if ``flush.messages`` requires
        it.

        Args:
            batches: as they were given: a leader's log stamps offsets and epochs into copies.
            now_ms: the monotonic time of the append.
        """

    def log_discarded(self, log: "PartitionLog") -> None:
        """Report that the whole log was discarded. It is empty, and begins at its new start."""

    def flushes_started(self, logs: "LogManager", now_ms: int) -> None:
        """Report that every log in which a record has waited for ``flush.ms`` is being flushed."""

    def checkpoint_started(
        self, logs: "LogManager", path: Path, offsets: "Mapping[TopicPartition, int]"
    ) -> None:
        """Report that these offsets are about to be written to the checkpoint file at ``path``."""

    def shutdown_marked(self, logs: "LogManager", directory: Path) -> None:
        """Report that this log directory is about to be marked as closed cleanly."""

    # --- replicas ---------------------------------------------------------------------------

    def replica_hosted(self, partition: "Partition") -> None:
        """Report a replica that this broker begins to host, before its first step."""

    def replica_stepped(
        self, partition: "Partition", event: "Event", effects: "Sequence[Effect]"
    ) -> None:
        """Report a step of a replica, after all its effects were carried out."""

    def replica_failed(self, partition: "Partition") -> None:
        """Report a step whose effects could not all be carried out; the broker is about to halt."""

    def replica_deleted(self, tp: "TopicPartition") -> None:
        """Report the deletion of a replica that was not hosted since the start of the broker. A
        hosted one takes the step ``Stopped`` instead."""

    # --- decisions --------------------------------------------------------------------------

    def controller_stepped(
        self,
        controller: "Controller",
        event: "ControllerEvent",
        effects: "Sequence[ControllerEffect]",
    ) -> None:
        """Report a step of the controller, before its effects are carried out."""

    def coordinator_stepped(
        self,
        coordinator: "Coordinator",
        event: "CoordinatorEvent",
        effects: "Sequence[CoordinatorEffect]",
    ) -> None:
        """Report a step of this broker's coordinator in a cluster without a controller, before its
        effects are carried out."""

    # --- groups -----------------------------------------------------------------------------

    def groups_loaded(self, shard: "GroupShard") -> None:
        """Report that the groups of one partition were read from its log and are served now."""

    def groups_stepped(
        self, shard: "GroupShard", event: "GroupEvent", effects: "Sequence[GroupEffect]"
    ) -> None:
        """Report a step of the groups of one partition, before its effects are carried out."""

    # --- requests ---------------------------------------------------------------------------

    def request_answered(self, request: "Request[Any]", response: "Response | None") -> None:
        """Report the answer to a request, just before it is sent. None means that it gets no
        answer."""


NO_PROBE: Final = Probe()
"""The probe of a broker that is not watched."""
