"""The probe of one process of a broker. It reports to the model unless the process is dead."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ackproof.broker.controller.controller import Controller
from ackproof.broker.controller.events import Effect as ControllerEffect
from ackproof.broker.controller.events import Event as ControllerEvent
from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.events import Effect as CoordinatorEffect
from ackproof.broker.coordination.events import Event as CoordinatorEvent
from ackproof.broker.groups.events import Effect as GroupEffect
from ackproof.broker.groups.events import Event as GroupEvent
from ackproof.broker.log.disk import RECOVERY_POINTS
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.probe import Probe
from ackproof.broker.replication.events import Effect, Event
from ackproof.broker.server.groups.group_coordinator import GroupShard
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import RecordBatch
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.metadata import MetadataResponse
from simulation.loop import SimulatedProcess
from simulation.machines.disk import SimulatedDisk
from simulation.machines.node import BrokerNode
from simulation.model import storage
from simulation.model.observer import ClusterObserver, assert_invariants, check_reported_leaders
from simulation.model.storage import CleanShutdowns
from simulation.plans.coverage import (
    CONTROLLER_EFFECT,
    CONTROLLER_EVENT,
    COORDINATION_EFFECT,
    COORDINATION_EVENT,
    GROUP_EFFECT,
    GROUP_EVENT,
    REPLICA_EFFECT,
    REPLICA_EVENT,
)
from simulation.violation import Violation


class ProbeFactory:
    """The factory of probes for each process of each broker."""

    def __init__(self, observer: ClusterObserver) -> None:
        self._observer = observer
        self._shutdowns: dict[int, CleanShutdowns] = {}

    def __call__(self, node: BrokerNode, process: SimulatedProcess) -> Probe:
        """Return the probe of a new process."""
        disk = node.disk
        assert isinstance(disk, SimulatedDisk), (
            "the model looks at what a power failure would leave"
        )
        shutdowns = self._shutdowns.setdefault(node.id, CleanShutdowns(node, disk))
        self._observer.settings.properties[node.id] = node.config
        return BrokerProbe(self._observer, node, process, disk, shutdowns)


class BrokerProbe(Probe):
    """The probe of one process."""

    def __init__(
        self,
        observer: ClusterObserver,
        node: BrokerNode,
        process: SimulatedProcess,
        disk: SimulatedDisk,
        shutdowns: CleanShutdowns,
    ) -> None:
        self._observer = observer
        self._node = node
        self._process = process
        self._disk = disk
        self._shutdowns = shutdowns

    def _judge(self, check: Callable[..., None], *reported: Any) -> None:
        if self._process.is_dead:
            return  # the rest of its coroutines is being tidied up
        try:
            check(*reported)
        except Violation as violation:
            self._observer.fail(violation)

    def _count(self, rooms: tuple[str, str], event: object, effects: Sequence[object]) -> None:
        coverage = self._observer.coverage
        coverage[rooms[0], type(event).__name__] += 1
        for effect in effects:
            coverage[rooms[1], type(effect).__name__] += 1

    # --- logs -------------------------------------------------------------------------------

    def logs_opened(self, logs: LogManager) -> None:
        """Judge the end of the previous process, and what a power failure may bring back of it."""

        def check() -> None:
            self._shutdowns.check_opened(self._process.incarnation, logs)
            for log in logs.logs.values():
                storage.check_removed(log.directory, self._disk)

        self._judge(check)

    def log_created(self, logs: LogManager, tp: TopicPartition, log: PartitionLog) -> None:
        """Judge a new log."""
        self._judge(storage.check_new_log, self._disk, logs, tp, log)

    def log_appended(
        self, log: PartitionLog, begin: int, _batches: Sequence[RecordBatch], now_ms: int
    ) -> None:
        """Judge an append."""
        self._judge(self._observer.flushes.appended, log, begin, now_ms)

    def log_discarded(self, log: PartitionLog) -> None:
        """Judge a log that was deleted and started again."""
        self._judge(storage.check_restarted_log, self._disk, log)

    def flushes_started(self, logs: LogManager, now_ms: int) -> None:
        """Judge the records that still wait for the disk."""
        for log in logs.logs.values():
            self._judge(self._observer.flushes.started, log, now_ms)

    def checkpoint_started(
        self, logs: LogManager, path: Path, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Judge recovery points that are about to be written."""
        for tp, offset in offsets.items() if path.name == RECOVERY_POINTS else ():
            log, partition = logs.get(tp), self._observer.find(tp)
            deleted = offset if partition is None else partition.deleted_below
            if log is not None:
                self._judge(storage.check_recovery_point, self._disk, log, offset, deleted)

    def shutdown_marked(self, logs: LogManager, directory: Path) -> None:
        """Judge the checkpoints of an orderly end."""

        def watermark_of(tp: TopicPartition, log: PartitionLog) -> int:
            known = self._observer.hosted(self._node.id, tp)
            if known is not None and known.log is log:
                return known.replica.high_watermark
            return logs.high_watermark(tp)

        incarnation = self._process.incarnation
        self._judge(self._shutdowns.check_mark, incarnation, logs, directory, watermark_of)

    # --- replicas ---------------------------------------------------------------------------

    def replica_hosted(self, partition: Partition) -> None:
        """Judge the log that a new replica has opened."""
        self._judge(self._observer.replica_hosted, self._node.id, partition, self._disk)

    def replica_stepped(
        self, partition: Partition, event: Event, effects: Sequence[Effect]
    ) -> None:
        """Judge a step."""
        role = self._observer.role_before(partition).value
        coverage = self._observer.coverage
        coverage[REPLICA_EVENT, f"{role}: {type(event).__name__}"] += 1
        for effect in effects:
            coverage[REPLICA_EFFECT, type(effect).__name__] += 1
        stepped = self._observer.replica_stepped
        self._judge(stepped, self._node.id, partition, event, effects, self._disk)

    def replica_failed(self, partition: Partition) -> None:
        """Note a step that could not be carried out."""
        self._judge(self._observer.replica_failed, self._node.id, partition)

    def replica_deleted(self, tp: TopicPartition) -> None:
        """Judge a deletion."""
        self._judge(self._observer.replica_deleted, self._node.id, tp)

    # --- decisions, groups, requests ----------------------------------------------------------

    def controller_stepped(
        self, controller: Controller, event: ControllerEvent, effects: Sequence[ControllerEffect]
    ) -> None:
        """Judge a step of the controller."""
        self._count((CONTROLLER_EVENT, CONTROLLER_EFFECT), event, effects)
        if controller.context is not None:
            self._judge(assert_invariants, controller.context)
            self._judge(self._observer.controllers.stepped, controller.context, effects)

    def coordinator_stepped(
        self,
        _coordinator: Coordinator,
        event: CoordinatorEvent,
        effects: Sequence[CoordinatorEffect],
    ) -> None:
        """Count a step without a controller."""
        self._count((COORDINATION_EVENT, COORDINATION_EFFECT), event, effects)

    def groups_loaded(self, shard: GroupShard) -> None:
        """Judge the groups that a coordinator begins with."""
        self._judge(self._observer.groups.loaded, self._node.id, shard)

    def groups_stepped(
        self, shard: GroupShard, event: GroupEvent, effects: Sequence[GroupEffect]
    ) -> None:
        """Judge a step of a coordinator of groups."""
        self._count((GROUP_EVENT, GROUP_EFFECT), event, effects)
        self._judge(assert_invariants, shard.groups)
        self._judge(self._observer.groups.stepped, shard, event, effects)

    def request_answered(self, _request: Request[Any], response: Response | None) -> None:
        """Judge the leaders in an answer to a client."""
        if isinstance(response, MetadataResponse):
            self._judge(check_reported_leaders, response, self._observer.ever_led)
