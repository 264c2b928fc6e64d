"""The order of events for :mod:`broker.coordination`, and their sessions.

One task feeds one event after the other. The effects on this broker's replicas run beside it,
partition by partition (:class:`Lanes`). The news that a leader has changed thus waits neither for
other news nor for the start of other replicas, which reads ZooKeeper and syncs files (*Design V2*:
leader changes "are not queued up on any other notifications"). Answers from a session that is over
are dropped. Its end is fed before all waiting events.
"""

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from functools import partial, singledispatchmethod
from typing import Any, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.coordination import admin as steps
from ackproof.broker.coordination import events
from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.effects import partition_of
from ackproof.broker.coordination.events import (
    Effect,
    Event,
    Lifecycle,
    Progress,
    Refused,
    RegisterBroker,
    SessionExpired,
    SessionStarted,
    Tick,
    Write,
)
from ackproof.broker.coordination.nodes import Kind, Node
from ackproof.broker.log.partition_metadata import InconsistentTopicId
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.replication.events import IsrWriteFailed, IsrWritten
from ackproof.broker.replication.replica import Role
from ackproof.broker.server import metrics
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.coordination.zk_nodes import UNKNOWN, Reader, Settings, Writer
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.server.replication.replica_manager import ReplicaManager
from ackproof.broker.server.replication.roles import BecomeLeaderOrFollower, Origin, StopReplica
from ackproof.broker.server.schedule import Clock, Spawn
from ackproof.broker.server.zk.session import (
    Callback,
    SessionNumber,
    ZkClosed,
    ZkSession,
)
from ackproof.broker.server.zk.session import (
    SessionExpired as ZkSessionExpired,
)
from ackproof.broker.types import BrokerId, Millis, TopicPartition

logger = logging.getLogger(__name__)


ANY_SESSION = SessionNumber(-1)


CarryOut = Callable[[Effect], Awaitable[None]]


class Lanes:
    """The running effects: one after the other for each partition, and in parallel for different
    ones.

    An effect that fails is logged, and costs only itself. The next event has news, or a restart
    begins again.
    """

    def __init__(self, carry_out: CarryOut, group: asyncio.TaskGroup) -> None:
        self._carry_out = carry_out
        self._group = group
        self._lanes: dict[TopicPartition, deque[Effect | asyncio.Future[None]]] = {}

    @property
    def busy(self) -> list[TopicPartition]:
        """The partitions with running effects."""
        return list(self._lanes)

    async def attempt(self, effect: Effect) -> None:
        """Carry out an effect now."""
        try:
            await self._carry_out(effect)
        except Exception:
            logger.exception("coordination: %s could not be carried out", effect)

    def put(self, tp: TopicPartition, effect: Effect) -> None:
        """Carry out an effect after the earlier ones of its partition."""
        self._lane(tp).append(effect)

    def after(
        self,
        partitions: Iterable[TopicPartition],
        effect: Effect,
        is_due: Callable[[], bool] = lambda: True,
    ) -> None:
        """Carry out an effect after all earlier ones for ``partitions``, if it is still due by
        then."""
        self._group.create_task(self._after([self._mark(tp) for tp in partitions], effect, is_due))

    async def _after(
        self, marks: list[asyncio.Future[None]], effect: Effect, is_due: Callable[[], bool]
    ) -> None:
        await asyncio.gather(*marks)
        if is_due():
            await self.attempt(effect)

    def _mark(self, tp: TopicPartition) -> asyncio.Future[None]:
        mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lane(tp).append(mark)
        return mark

    def _lane(self, tp: TopicPartition) -> deque[Effect | asyncio.Future[None]]:
        if tp not in self._lanes:
            self._lanes[tp] = deque()
            self._group.create_task(self._drain(tp))
        return self._lanes[tp]

    async def _drain(self, tp: TopicPartition) -> None:
        lane = self._lanes[tp]
        while lane:
            due = lane.popleft()
            if isinstance(due, asyncio.Future):
                due.set_result(None)
            else:
                await self.attempt(due)
        del self._lanes[tp]


class EventLoop:
    """The loop that feeds ``core``."""

    def __init__(
        self, core: Coordinator, clock: Clock, session: ZkSession, probe: Probe = NO_PROBE
    ) -> None:
        self._core = core
        self._clock = clock
        self._session = session
        self._probe = probe
        self._waiting: deque[tuple[SessionNumber, Event]] = deque()
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._ticking = False
        session.expired_callbacks.append(self._expired)
        session.established_callbacks.append(self.start_session)

    def put(self, event: Event, session: SessionNumber = ANY_SESSION) -> None:
        """Queue an event, to be dropped if ``session`` is over when its turn comes."""
        self._waiting.append((session, event))
        self._woken.set()

    def start_session(self) -> None:
        """Feed the current session: the first one, or a new one."""
        if self._session.session_id is not None:
            self.put(SessionStarted(session=self._session.session_id), self._session.number)

    async def run(self, carry_out: CarryOut) -> None:
        """Feed events for ever. ``carry_out`` carries out the effects."""
        try:
            async with asyncio.TaskGroup() as group:
                lanes = Lanes(carry_out, group)
                while True:
                    while self._waiting:
                        session, event = self._waiting.popleft()
                        if session in (ANY_SESSION, self._session.number):
                            await self._step(event, lanes)
                    self._woken.clear()
                    self._set_timer()
                    await self._woken.wait()
        finally:
            self._stop_timer()

    async def _step(self, event: Event, lanes: Lanes) -> None:
        """Feed one event. If the step fails, that is logged, and costs only the event."""
        if isinstance(event, Tick):
            self._ticking = False
        try:
            effects = self._core.step(event, self._clock.now())
        except Exception:
            logger.exception("coordination: %s failed", event)
            return
        self._probe.coordinator_stepped(self._core, event, effects)
        touched: dict[TopicPartition, None] = {}
        for effect in effects:
            tp = partition_of(effect)
            if tp is not None:
                touched[tp] = None
                lanes.put(tp, effect)
            elif isinstance(effect, Write):
                lanes.after(touched, effect)
            elif isinstance(effect, RegisterBroker):
                # Not in a later session, which repeats the start-up.
                lanes.after(lanes.busy, effect, partial(self._is_current, self._session.number))
            else:
                await lanes.attempt(effect)

    def _is_current(self, session: SessionNumber) -> bool:
        return session == self._session.number

    def _expired(self) -> None:
        """Feed the expiry before everything else: other brokers may lead already what this one
        leads."""
        self._waiting.appendleft((ANY_SESSION, SessionExpired()))
        self._woken.set()

    def _set_timer(self) -> None:
        self._stop_timer()
        due = self._core.next_tick
        if due is not None and not self._ticking:
            loop = asyncio.get_running_loop()
            wait_ms = max(Millis(1), due - self._clock.now())
            self._timer = loop.call_later(wait_ms / 1000, self._tick)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._ticking = True
        self.put(Tick())


# --- effects --------------------------------------------------------------------------------------
#
# They are carried out, and their outcomes are fed back as events.


# --- progress of followers ------------------------------------------------------------------------
#
# The progress of followers, for a leader that waits for them before it serves (``becomeLeader``).


CHECK_INTERVAL_S = 0.5
"""The interval at which progress is reported even if no follower fetches."""


class ProgressWatch:
    """Reports the progress of watched partitions to ``put``."""

    def __init__(self, replicas: ReplicaManager, put: Callable[[Progress], None]) -> None:
        self._replicas = replicas
        self._put = put
        self._watched: dict[TopicPartition, Progress | None] = {}

    def watch(self, tp: TopicPartition, *, wanted: bool) -> None:
        """Begin or stop to watch a partition."""
        partition = self._replicas.hosted(tp)
        if wanted:
            self._watched[tp] = None
            self._report(tp)
        else:
            self._watched.pop(tp, None)
        if isinstance(partition, Partition):
            partition.on_fetch = partial(self._report, tp, only_changed=True) if wanted else None

    async def poll_forever(self) -> None:
        """Report progress regularly, because time passes even if no follower fetches."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            for tp in tuple(self._watched):
                self._report(tp)

    def _report(self, tp: TopicPartition, *, only_changed: bool = False) -> None:
        """Report a partition's progress. With ``only_changed`` an unchanged one is not reported,
        because followers fetch often."""
        partition = self._replicas.hosted(tp)
        if not isinstance(partition, Partition) or partition.replica.role is not Role.LEADER:
            return
        replica = partition.replica
        progress = Progress(
            partition=tp,
            leader_epoch=replica.leader_epoch,
            log_end=replica.log_end_offset,
            high_watermark=replica.high_watermark,
            ends=replica.follower_ends,
        )
        if only_changed and progress == self._watched.get(tp):
            return
        self._watched[tp] = progress
        self._put(progress)


# --- effects --------------------------------------------------------------------------------------
#
# Carries out the effects of :mod:`broker.coordination`, and feeds back their outcomes.


state_change = logging.getLogger("state.change.logger")

Put = Callable[[events.Event, SessionNumber], None]
Register = Callable[[], Awaitable[None]]

ROLE = Origin(change="LeaderChange", by={})
CLOSE = Origin(change="close-replica", by={})


class EffectExecutor:
    """The executor of one broker's effects.

    Args:
        writer: carries out writes.
        put: takes events, with the session that they belong to.
        register: registers the broker, in the current session.
    """

    def __init__(
        self,
        me: BrokerId,
        session: ZkSession,
        writer: Writer,
        put: Put,
        register: Register,
        spawn: Spawn,
    ) -> None:
        self._me = me
        self._session = session
        self._put = put
        self._register = register
        self._spawn = spawn
        self._reader = Reader(session)
        self._writer = writer
        self._progress: ProgressWatch | None = None
        self._replicas: ReplicaManager | None = None
        self._watches: dict[TopicPartition, Callback] = {}
        self._queue_made: asyncio.Future[None] | None = None
        self._reassigned = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        """Held while a log is created or deleted. Many at once would block the disk for all other
        work."""

    def take(self, replicas: ReplicaManager, progress: ProgressWatch) -> None:
        """Set the replicas that are told their roles, and the watch of their progress."""
        self._replicas = replicas
        self._progress = progress

    async def __call__(self, effect: events.Effect) -> None:
        """Begin an effect on ZooKeeper, or carry out one on this broker's replicas."""
        await self._carry_out(effect)

    @property
    def _hosts(self) -> ReplicaManager:
        assert self._replicas is not None
        return self._replicas

    @singledispatchmethod
    async def _carry_out(self, effect: Any) -> None:
        raise TypeError(f"unknown effect {effect!r}")

    # --- ZooKeeper --------------------------------------------------------------------------

    def _begin(self, work: Coroutine[None, None, events.Event | None]) -> None:
        """Begin work beside everything else, as long as the session lasts."""
        self._spawn(self._fed(work, self._session.number))

    async def _fed(
        self, work: Coroutine[None, None, events.Event | None], session: SessionNumber
    ) -> None:
        with contextlib.suppress(ZkClosed, ZkSessionExpired):
            event = await work
            if event is not None:
                self._put(event, session)

    @_carry_out.register
    async def _(self, effect: events.Write) -> None:
        self._spawn(self._write(effect))

    async def _write(self, effect: events.Write) -> None:
        """Write, and answer whatever happens to the session."""
        session = None if effect.session is None else self._session.number
        if effect.session not in (None, self._session.session_id):
            outcome = UNKNOWN
        else:
            try:
                outcome = await self._writer.write(effect.ops, session)
            except ZkClosed:
                return
        written = events.Written(
            token=effect.token, result=outcome.result, versions=outcome.versions
        )
        self._put(written, ANY_SESSION)

    @_carry_out.register
    async def _(self, _effect: events.CreateQueue) -> None:
        if self._queue_made is not None:
            self._queue_made.cancel()  # the answers of a former session no longer matter
        self._queue_made = asyncio.get_running_loop().create_future()
        self._begin(self._create_queue(self._queue_made))

    async def _create_queue(self, made: asyncio.Future[None]) -> None:
        await self._session.ensure(nodes.REASSIGNED)
        await self._session.ensure(nodes.queue(self._me))
        if not made.done():
            made.set_result(None)

    @_carry_out.register
    async def _(self, effect: events.ReadQueue) -> None:
        self._begin(self._read_queue(effect))

    async def _read_queue(self, effect: events.ReadQueue) -> events.Event:
        watch = None
        if effect.broker == self._me:
            assert self._queue_made is not None, "a queue is made before it is read"
            await self._queue_made
            watch = self._queue_changed
        entries = await self._reader.queue(effect.broker, watch)
        return events.QueueRead(token=effect.token, entries=entries)

    def _queue_changed(self) -> None:
        self._put(events.QueueChanged(), self._session.number)

    @_carry_out.register
    async def _(self, effect: events.ReadQueueSize) -> None:
        self._begin(self._read_queue_size(effect.broker))

    async def _read_queue_size(self, broker: BrokerId) -> events.Event:
        return events.QueueSizeRead(broker=broker, size=await self._reader.queue_size(broker))

    @_carry_out.register
    async def _(self, _effect: events.ReadAssignments) -> None:
        self._begin(self._read_assignments())

    async def _read_assignments(self) -> events.Event:
        return events.AssignmentsRead(mine=await self._reader.naming(self._me))

    @_carry_out.register
    async def _(self, effect: events.ReadPartition) -> None:
        self._begin(self._read_partition(effect))

    async def _read_partition(self, effect: events.ReadPartition) -> events.Event:
        tp = effect.partition
        watch = self._watches.setdefault(tp, partial(self._changed, tp))
        return events.PartitionRead(
            token=effect.token, view=await self._reader.partition(tp, watch)
        )

    def _changed(self, tp: TopicPartition) -> None:
        if tp in self._watches:
            self._put(events.PartitionChanged(partition=tp), self._session.number)

    @_carry_out.register
    async def _(self, _effect: events.ReadBrokers) -> None:
        self._begin(self._read_brokers())

    async def _read_brokers(self) -> events.Event:
        return events.BrokersRead(live=await self._reader.live())

    @_carry_out.register
    async def _(self, _effect: events.WatchReassignments) -> None:
        self._begin(self._follow_reassignments(self._session.number))

    async def _follow_reassignments(self, session: SessionNumber) -> None:
        look = asyncio.Event()
        self._reassigned = look
        while session == self._session.number:
            look.clear()
            orders = await self._reader.reassignments(look.set)
            self._put(events.ReassignmentsRead(orders=orders), session)
            await look.wait()

    @_carry_out.register
    async def _(self, _effect: events.RegisterBroker) -> None:
        self._begin(self._registered())

    async def _registered(self) -> events.Event | None:
        """Register, and create the queue again if this broker was removed while it was starting."""
        await self._register()
        if await self._reader.exists(nodes.queue(self._me)) is not None:
            return None
        await self._session.ensure(nodes.queue(self._me))
        return events.QueueChanged()

    def session_over(self) -> None:
        """Stop to follow the watches of the session."""
        self._reassigned.set()

    # --- replicas ---------------------------------------------------------------------------

    @_carry_out.register
    async def _(self, effect: events.StartReplica) -> None:
        tp = effect.partition
        async with self._one_at_a_time:
            try:
                await self._hosts.ready(tp, effect.topic_id)
            except InconsistentTopicId as error:
                # A broker that was down while its topic was deleted may find that the next one of
                # that name is assigned to it, while its close-replica is stale. It would refuse
                # every role for good. The id that was read is the newer one: it was read after this
                # session began, and the log's writer was told its id before.
                logger.warning("%s: %s; deleted", tp, error)
                await self._delete(tp)
                await self._hosts.ready(tp, effect.topic_id)

    async def _delete(self, tp: TopicPartition) -> None:
        await self._hosts.stop_replicas([StopReplica(partition=tp, delete=True)], CLOSE)

    @_carry_out.register
    async def _(self, effect: events.Assume) -> None:
        state = effect.state
        role = BecomeLeaderOrFollower(
            partition=effect.partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            replicas=state.replicas,
            zk_version=state.zk_version,
            serves=state.serves,
            as_printed=state.as_printed,
            topic_id=effect.topic_id,
        )
        try:
            error = (await self._hosts.become_leader_or_follower([role], ROLE))[effect.partition]
        except Exception:
            logger.exception("%s cannot take its role", effect.partition)
            error = ErrorCode.kafka_storage_error
        if error is not ErrorCode.none:
            refused = events.RoleRefused(
                partition=effect.partition, leader_epoch=state.leader_epoch
            )
            self._put(refused, ANY_SESSION)

    @_carry_out.register
    async def _(self, effect: events.Tell) -> None:
        self._count(effect)
        self._hosts.step(effect.partition, effect.event)

    def _count(self, effect: events.Tell) -> None:
        """Count ISR changes before the replica hears of them, while it still has the old ISR."""
        partition = self._hosts.hosted(effect.partition)
        if isinstance(effect.event, IsrWriteFailed):
            metrics.FAILED_ISR_UPDATES.inc()
        if isinstance(effect.event, IsrWritten) and isinstance(partition, Partition):
            metrics.isr_changed(len(partition.replica.isr), len(effect.event.isr))

    @_carry_out.register
    async def _(self, effect: events.StopReplica) -> None:
        self._watches.pop(effect.partition, None)
        async with self._one_at_a_time:
            await self._delete(effect.partition)

    @_carry_out.register
    async def _(self, effect: events.WatchProgress) -> None:
        assert self._progress is not None
        self._progress.watch(effect.partition, wanted=effect.wanted)

    # --- the log ----------------------------------------------------------------------------

    @_carry_out.register
    async def _(self, effect: events.Lifecycle) -> None:
        record(effect)

    @_carry_out.register
    async def _(self, effect: events.Refused) -> None:
        refuse(effect)


def record(line: events.Lifecycle) -> None:
    """Log a line of the document's "explicit monitoring", with its words in ``text``."""
    asked = line.request
    state_change.info(
        json.dumps(
            {
                "event": line.stage.value,
                "change": asked.change.value,
                "broker": line.broker,
                "partition": str(asked.partition),
                "leader": asked.leader,
                "leader_epoch": asked.epoch,
                "text": str(line),
            }
        )
    )


def refuse(refused: events.Refused) -> None:
    """Log a request that was not put into a queue, or was taken out and not carried out."""
    full = refused.fault is events.Fault.QUEUE_FULL
    if full:
        metrics.QUEUES_FULL.inc()
    asked = refused.request
    logger.log(
        logging.ERROR if full else logging.WARNING,
        "%s: %s of %s for broker %d, from leader %d, epoch %d",
        refused.fault.value,
        asked.change.value,
        asked.partition,
        refused.broker,
        asked.leader,
        asked.epoch,
    )


# --- admin commands -------------------------------------------------------------------------------
#
# Any broker runs any command (:mod:`broker.coordination.admin`). A command continues when its
# client has disconnected. An interrupted command would leave its clean-up to the next one.


R = TypeVar("R")
Command = Generator[steps.Step, Any, R]

COMMAND_CHECK_INTERVAL_S = 1.0
"""The interval at which a waiting command checks for a change that it may have missed."""


class Commands:
    """Runs commands, several at once if necessary."""

    def __init__(self, reader: Reader, writer: Writer) -> None:
        self._reader = reader
        self._writer = writer
        self._waiting: dict[asyncio.Event, None] = {}

    @property
    def waiting(self) -> int:
        """The number of running commands."""
        return len(self._waiting)

    async def run(
        self, command: Command[R], timeout_s: float, settings: Settings | None = None
    ) -> R:
        """Run a command to its end, and return its result.

        If it waits, and has written nothing for ``timeout_s``, it is told that its time is up.
        ``settings`` are those of the topics that it creates. Raise what the command raises.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        with self._listening() as changed, contextlib.closing(command):
            answer: object = None
            while True:
                try:
                    step = command.send(answer)
                except StopIteration as done:
                    result: R = done.value
                    return result
                answer = await self._answer(step, changed, deadline, settings or {})
                if isinstance(step, steps.AdminWrite):
                    deadline = loop.time() + timeout_s

    @contextlib.contextmanager
    def _listening(self) -> Iterator[asyncio.Event]:
        changed = asyncio.Event()
        self._waiting[changed] = None
        try:
            yield changed
        finally:
            self._waiting.pop(changed)

    def _changed(self) -> None:
        for waiting in self._waiting:
            waiting.set()

    async def _answer(
        self, step: steps.Step, changed: asyncio.Event, deadline: float, settings: Settings
    ) -> object:
        match step:
            case steps.ReadTopic():
                return await self._reader.topic(step.topic)
            case steps.ReadQueues():
                return await self._queues(step, changed)
            case steps.ReadNodes():
                return await self._reader.partition(step.partition)
            case steps.ReadReassigned():
                return await self._reader.reassigned_topics()
            case steps.AdminWrite():
                outcome = await self._writer.write(step.ops, None, settings)
                return steps.AdminWritten(result=outcome.result, queued=outcome.queued)
            case steps.AwaitChange():
                return await self._await_change(step, changed, deadline)
            case Lifecycle():
                record(step)
            case Refused():
                refuse(step)
        return None

    async def _queues(self, step: steps.ReadQueues, changed: asyncio.Event) -> Mapping[Any, Any]:
        """Read queues. Changes after this count, because the watch is set with the read."""
        changed.clear()
        read = (self._reader.queue(broker, self._changed) for broker in step.brokers)
        return dict(zip(step.brokers, await asyncio.gather(*read), strict=True))

    async def _await_change(
        self, step: steps.AwaitChange, changed: asyncio.Event, deadline: float
    ) -> steps.Waited:
        """Wait for a change. The queues are watched since they were read, and the partition's node
        from now on."""
        loop = asyncio.get_running_loop()
        left = deadline - loop.time()
        if left <= 0:
            return steps.Waited.TIME_IS_UP
        where = nodes.path(Node(Kind.REASSIGNED, step.partition))
        await self._reader.exists(where, self._changed)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left, COMMAND_CHECK_INTERVAL_S)):
                await changed.wait()
        return steps.Waited.CHANGED if changed.is_set() else steps.Waited.NOTHING_SEEN
