"""How an observer gets to see what all brokers of a process do: their steps are wrapped."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from broker.controller.context import Context as ControllerContext
from broker.controller.controller import Controller
from broker.controller.events import AnswerShutdown
from broker.coordination.coordinator import Coordinator
from broker.coordination.hosting.partition import HostedPartition
from broker.groups.groups import Groups
from broker.log import manager
from broker.log.disk.checkpoints import RECOVERY_POINTS, mark_clean_shutdown, offsets_in
from broker.log.disk.files import Directory
from broker.log.flushing import Flushing
from broker.log.manager import LogManager
from broker.log.partition_log import PartitionLog
from broker.replication.events import Effect, Event, Fetched
from broker.replication.replica import Replica
from broker.server.controller.runtime import ControllerRuntime
from broker.server.coordination.zk_metadata import ZkMetadata
from broker.server.groups.shard import GroupShard
from broker.server.metrics.meters import CONSUMER
from broker.server.replication import partition as server
from broker.server.replication.fetch_session_cache import FetchSession, FetchSessionCache
from broker.server.replication.replica_manager import ReplicaManager
from broker.server.requests import describe_groups, metadata
from broker.server.requests.context import Context
from broker.server.zk.producer_ids import ProducerIds
from broker.types import Millis, ProducerId, TopicPartition
from broker.wire.messages.fetch import FetchRequest
from simulation.loop.ownership import PROCESS, Process
from simulation.machines.disk import MemoryDisk
from simulation.machines.node import Disk, Node
from simulation.observer.coordinators import Coordinators, buried
from simulation.observer.coverage import (
    CONTROLLER_EFFECT,
    CONTROLLER_EVENT,
    COORDINATION_EFFECT,
    COORDINATION_EVENT,
    GROUP_EFFECT,
    GROUP_EVENT,
    REPLICA_EFFECT,
    REPLICA_EVENT,
    Coverage,
)
from simulation.observer.groups import described, view, watch
from simulation.observer.logs import begun_anew, epochs, flushed
from simulation.observer.logs.good_ends import GoodEnds
from simulation.observer.logs.unflushed import Unflushed
from simulation.observer.moments import following_on, handing_over, resigning, suspecting, told
from simulation.observer.moments.counting import Counting
from simulation.observer.moments.roles_told import RolesTold
from simulation.observer.moments.suspecting import Bounced
from simulation.observer.observer import Observer
from simulation.observer.untold import asked
from simulation.violation import Violation

Opened = WeakKeyDictionary[Process, LogManager]
"""The logs of each life of a broker."""


@contextlib.contextmanager
def watching(observer: Observer, nodes: Mapping[int, Node]) -> Iterator[None]:
    """``nodes``: by the id of the broker there."""
    brokers = {node.host: broker for broker, node in nodes.items()}
    disks = {node.host: node.disk for node in nodes.values()}
    observer.settings.properties.update({b: node.config for b, node in nodes.items()})
    opened_by: Opened = WeakKeyDictionary()
    with contextlib.ExitStack() as undo:
        _watch_partitions(undo, observer, brokers)
        _watch_fetches(undo, observer)
        _watch_sessions(undo, observer)
        _watch_deletions(undo, observer)
        coverage = observer.coverage
        _count(undo, Controller, coverage, CONTROLLER_EVENT, CONTROLLER_EFFECT)
        _watch_answers(undo, observer)
        _watch_offices(undo, observer)
        _watch_checkpoints(undo, observer, disks, opened_by)
        _watch_beginnings(undo, observer, disks)
        _watch_flushes(undo, observer)
        _watch_openings(undo, observer, nodes, opened_by)
        _count(undo, Coordinator, coverage, COORDINATION_EVENT, COORDINATION_EFFECT)
        _watch_coordinators(undo, observer)
        _count(undo, Groups, coverage, GROUP_EVENT, GROUP_EFFECT)
        _watch_groups(undo, observer, brokers)
        _watch_metadata(undo, observer)
        _watch_views(undo, observer)
        _watch_descriptions(undo, observer)
        _watch_producer_ids(undo, observer)
        yield


def _replace(undo: contextlib.ExitStack, owner: Any, name: str, other: Any) -> None:
    undo.callback(setattr, owner, name, owner.__dict__[name])
    setattr(owner, name, other)


def _living() -> Process | None:
    """Whose step this is; nobody's, where its process was killed in the middle of it."""
    process = PROCESS.get()
    return None if process is None or process.is_dead else process


def _count(
    undo: contextlib.ExitStack, owner: Any, coverage: Coverage, event_room: str, effect_room: str
) -> None:
    original = owner.step

    def step(self: Any, event: Any, *args: Any) -> Any:
        coverage[event_room, type(event).__name__] += 1
        effects = original(self, event, *args)
        for effect in effects:
            coverage[effect_room, type(effect).__name__] += 1
        return effects

    _replace(undo, owner, "step", step)


def _watch_partitions(
    undo: contextlib.ExitStack, observer: Observer, brokers: dict[str, int]
) -> None:
    decide, carry_out = Replica.step, server.Partition.step
    coverage = observer.coverage
    seen: list[Effect] = []
    names: dict[tuple[object, type], tuple[str, str]] = {}

    def replica_step(self: Replica, event: Event) -> Any:
        key = (self.role, type(event))
        name = names.get(key)
        if name is None:
            name = names[key] = REPLICA_EVENT, f"{self.role.value}: {type(event).__name__}"
        coverage[name] += 1
        effects = decide(self, event)
        if effects:
            seen.extend(effects)
            for effect in effects:
                coverage[REPLICA_EFFECT, type(effect).__name__] += 1
        return effects

    def partition_step(self: server.Partition, event: Event) -> None:
        if (process := _living()) is None:
            carry_out(self, event)
            return
        broker = brokers[process.host]
        with observer.failing():
            observer.before_step(broker, self)
        outer, epoch = seen[:], self.replica.leader_epoch
        seen.clear()
        try:
            carry_out(self, event)
        except server.ReplicaFailed:
            observer.step_failed(broker, self)
            raise
        else:
            with observer.failing():
                if self.replica.leader_epoch < epoch and not getattr(event, "as_printed", False):
                    raise Violation(
                        "EpochNeverBack",
                        f"{self.tp}: broker {broker} was in leader epoch {epoch}, and obeys a word "
                        f"of {self.replica.leader_epoch}",
                    )
                observer.after_step(broker, self, event, seen[:])
        finally:
            seen[:] = outer

    _replace(undo, Replica, "step", replica_step)
    _replace(undo, server.Partition, "step", partition_step)


def _watch_fetches(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = server.Partition.step

    def step(self: server.Partition, event: Event) -> None:
        try:
            original(self, event)
        except ValueError as error:
            if type(event) is Fetched:
                with observer.failing():
                    following_on.refused(self, event, error)
            raise

    _replace(undo, server.Partition, "step", step)


def _watch_sessions(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = FetchSessionCache.session_of

    def session_of(
        self: FetchSessionCache, request: FetchRequest, now: Millis
    ) -> FetchSession | None:
        session = original(self, request, now)
        if session is not None and request.replica_id != CONSUMER:
            with observer.failing():
                asked(observer, session, request.replica_id)
        return session

    _replace(undo, FetchSessionCache, "session_of", session_of)


def _watch_answers(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = Controller.step
    told: WeakKeyDictionary[ControllerContext, RolesTold] = WeakKeyDictionary()
    bounced: WeakKeyDictionary[ControllerContext, Bounced] = WeakKeyDictionary()

    def step(self: Controller, event: Any) -> Any:
        effects = original(self, event)
        context = self.context
        if context is None:
            return effects
        with observer.failing():
            told.setdefault(context, RolesTold()).stepped(context, effects)
            bounced.setdefault(context, Bounced()).stepped(context)
            for effect in effects:
                if type(effect) is AnswerShutdown:
                    handing_over.check(context, effect)
        return effects

    _replace(undo, Controller, "step", step)


def _watch_coordinators(undo: contextlib.ExitStack, observer: Observer) -> None:
    original, counting, host = Coordinator.step, Counting(), HostedPartition.__init__

    def step(self: Coordinator, event: Any, now: Millis) -> Any:
        suspects = self.suspects
        effects = original(self, event, now)
        with observer.failing():
            counting.stepped(self, event, effects)
            suspecting.stepped(event, suspects, self.suspects)
        return effects

    def hosted(self: HostedPartition, *args: Any, suspect: bool) -> None:
        host(self, *args, suspect=suspect)
        with observer.failing():
            unclean = self.context.settings.unclean_start
            suspecting.hosted(self.tp, unclean=unclean, suspect=suspect)

    _replace(undo, HostedPartition, "__init__", hosted)
    _replace(undo, Coordinator, "step", step)


def _watch_offices(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = ControllerRuntime._resign

    def resign(self: ControllerRuntime) -> None:
        original(self)
        with observer.failing():
            resigning.of_office(self._config.id, self._questions.values())

    _replace(undo, ControllerRuntime, "_resign", resign)


def _watch_groups(
    undo: contextlib.ExitStack, observer: Observer, brokers: Mapping[str, int]
) -> None:
    coordinators = Coordinators()
    make, close, decide = GroupShard.__init__, GroupShard.close, Groups.step

    def made(self: GroupShard, *args: Any) -> None:
        make(self, *args)
        if (process := _living()) is not None:
            with observer.failing():
                coordinators.loaded(brokers[process.host], self)

    def closed(self: GroupShard) -> None:
        waiting = [future for _, future in self._waiting.values()]
        close(self)
        with observer.failing():
            coordinators.closed(self, waiting)

    def step(self: Groups, event: Any) -> Any:
        before, known = coordinators.stable(self, event), watch.before(self, event)
        effects = decide(self, event)
        with observer.failing():
            watch.check(self, event, effects, known)
            coordinators.stepped(self, event, effects, before)
        observer.group_ends.update(buried(effects))
        return effects

    _replace(undo, GroupShard, "__init__", made)
    _replace(undo, GroupShard, "close", closed)
    _replace(undo, Groups, "step", step)


def _watch_metadata(undo: contextlib.ExitStack, observer: Observer) -> None:
    respond = metadata._respond

    def responded(*args: Any) -> Any:
        answer = respond(*args)
        with observer.failing():
            told.leaders(answer, observer.ever_led)
        return answer

    _replace(undo, metadata, "_respond", responded)


def _watch_views(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = ZkMetadata._read

    async def read(self: ZkMetadata, topic: str) -> None:
        await original(self, topic)
        with observer.failing():
            told.known(topic, self._topics.get(topic, {}), observer.ever_led)

    _replace(undo, ZkMetadata, "_read", read)


def _watch_descriptions(undo: contextlib.ExitStack, observer: Observer) -> None:
    original = describe_groups._describe

    def describe(group_id: str, context: Context) -> Any:
        answer, shard = original(group_id, context), context.groups.shard(group_id)
        if isinstance(shard, GroupShard):
            group = shard.groups.by_id.get(group_id)
            with observer.failing():
                described.check(answer, None if group is None else view.of(group))
        return answer

    _replace(undo, describe_groups, "_describe", describe)


def _watch_producer_ids(undo: contextlib.ExitStack, observer: Observer) -> None:
    take, give = ProducerIds._take_block, ProducerIds.next

    async def take_block(self: ProducerIds) -> range | None:
        block = await take(self)
        with observer.failing():
            observer.producer_ids.taken(self._broker, block)
        return block

    async def given(self: ProducerIds) -> ProducerId:
        producer = await give(self)
        with observer.failing():
            observer.producer_ids.given(self._broker, producer)
        return producer

    _replace(undo, ProducerIds, "_take_block", take_block)
    _replace(undo, ProducerIds, "next", given)


def _watch_checkpoints(
    undo: contextlib.ExitStack, observer: Observer, disks: Mapping[str, Disk], opened: Opened
) -> None:
    original = Directory.replace_steps

    def replace_steps(self: Directory, name: str, content: bytes) -> Any:
        process = _living()
        if name == RECOVERY_POINTS and process is not None:
            disk, logs = disks[process.host], opened.get(process)
            if isinstance(disk, MemoryDisk):
                with observer.failing():
                    flushed.check(disk, self.path, content)
                    for tp, offset in offsets_in(content, self.path / name).items():
                        log = None if logs is None else logs.get(tp)
                        if log is not None:
                            epochs.noted(disk, log, offset)
        return original(self, name, content)

    _replace(undo, Directory, "replace_steps", replace_steps)


def _watch_beginnings(
    undo: contextlib.ExitStack, observer: Observer, disks: Mapping[str, Disk]
) -> None:
    original = PartitionLog.truncate_fully

    def truncate_fully(self: PartitionLog, offset: int) -> None:
        original(self, offset)
        disk = None if (process := _living()) is None else disks[process.host]
        if isinstance(disk, MemoryDisk):
            with observer.failing():
                begun_anew.check(disk, self)

    _replace(undo, PartitionLog, "truncate_fully", truncate_fully)


def _watch_flushes(undo: contextlib.ExitStack, observer: Observer) -> None:
    unflushed, append, look = Unflushed(), PartitionLog.append, LogManager.flush_if_due

    def appended(self: PartitionLog, batches: Any, base: int, epoch: Any, now_ms: int) -> None:
        begin = self.log_end_offset
        append(self, batches, base, epoch, now_ms)
        with observer.failing():
            unflushed.appended(self, begin, now_ms)

    def looked(self: LogManager, now_ms: int) -> None:
        look(self, now_ms)
        with observer.failing():
            for log in self.logs.values():
                unflushed.looked(log, now_ms)

    _replace(undo, PartitionLog, "append", appended)
    _replace(undo, LogManager, "flush_if_due", looked)
    _replace(undo, Flushing, "steps", unflushed.counted(Flushing.steps))


def _watch_openings(
    undo: contextlib.ExitStack, observer: Observer, nodes: Mapping[int, Node], opened_by: Opened
) -> None:
    original, ends = LogManager.__init__, GoodEnds({node.host: node for node in nodes.values()})

    def opened(self: LogManager, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if (process := _living()) is not None:
            with observer.failing():
                ends.opened(process, self)
            opened_by[process] = self

    def marked(directory: Directory) -> None:
        if (process := _living()) is not None:
            with observer.failing():
                ends.closed(process, opened_by.get(process), directory.path)
        mark_clean_shutdown(directory)

    _replace(undo, LogManager, "__init__", opened)
    _replace(undo, manager, "mark_clean_shutdown", marked)


def _watch_deletions(undo: contextlib.ExitStack, observer: Observer) -> None:
    delete = ReplicaManager._delete

    def observed(self: ReplicaManager, tp: TopicPartition) -> None:
        opened = tp in self._partitions
        delete(self, tp)
        if not opened:
            observer.deleted(self._config.id, tp)

    _replace(undo, ReplicaManager, "_delete", observed)
