"""Leader coordination on one broker: events in, effects out (*Design V2*).

Every broker runs one coordinator. It hosts partitions (:mod:`~broker.coordination.partition`) and
leads some (:mod:`~broker.coordination.leadership`). It takes requests out of its own queue, and
puts others into those of its followers (:mod:`~broker.coordination.queues`). This module has
``brokerStartup`` and the dispatch of events.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ackproof.broker.coordination.context import Context, Settings
from ackproof.broker.coordination.events import (
    AssignmentsRead,
    BrokersRead,
    CreateQueue,
    Delete,
    Effect,
    Event,
    IsrAsked,
    PartitionChanged,
    PartitionRead,
    Progress,
    QueueChanged,
    QueueRead,
    QueueSizeRead,
    ReadAssignments,
    ReassignmentsRead,
    RegisterBroker,
    RoleRefused,
    SessionExpired,
    SessionStarted,
    ShutdownAsked,
    StartReplica,
    StopReplica,
    Tell,
    Tick,
    Written,
)
from ackproof.broker.coordination.nodes import ANY_VERSION, Kind, Node, PartitionView
from ackproof.broker.coordination.partition import HostedPartition
from ackproof.broker.coordination.queues import OwnQueue, Sender
from ackproof.broker.coordination.variants import VARIANTS, Variant
from ackproof.broker.replication.events import IsrWriteFailed
from ackproof.broker.types import BrokerId, Millis, TopicPartition


class Coordinator:
    """The coordination of one broker; see the module's docstring.

    Args:
        settings: of this broker.
        variant: of ``VARIANTS``, by the value of ``ackproof.coordination.variant``.
    """

    def __init__(self, settings: Settings, variant: Variant | str = "fenced") -> None:
        if isinstance(variant, str):
            variant = VARIANTS[variant]()
        self._context = Context(settings=settings, variant=variant)
        self._sender = Sender(self._context)
        self._hosted: dict[TopicPartition, HostedPartition] = {}
        self._queue = OwnQueue(
            self._context,
            start=self._start_replica,
            close=self._close_replica,
            look=self._look,
            drained=self._queue_drained,
        )
        self._draining = False
        self._finding: dict[TopicPartition, bool] = {}
        """The partitions that are being read for the first time, and whether they changed
        meanwhile."""
        self._starting: set[TopicPartition] | None = None

    def step(self, event: Event, now: Millis) -> tuple[Effect, ...]:
        """Process one event; see :mod:`broker.coordination.events` for the contract."""
        self._context.now = max(self._context.now, now)
        STEPS[type(event)](self, event)
        self._maybe_register()
        return self._context.outbox.drain()

    # --- looking ------------------------------------------------------------------------------

    @property
    def next_tick(self) -> Millis | None:
        """The latest time for the next :class:`Tick`, or None if only another event can make a
        difference."""
        ticks = (hosted.next_tick for hosted in self._hosted.values())
        return min((tick for tick in ticks if tick is not None), default=None)

    @property
    def leading(self) -> tuple[TopicPartition, ...]:
        """The partitions whose ``leader`` is this broker's, or may be, in order."""
        return tuple(sorted(tp for tp, hosted in self._hosted.items() if hosted.holds_leader))

    @property
    def hosted(self) -> tuple[TopicPartition, ...]:
        """The partitions of which this broker has a started replica, in order."""
        return tuple(sorted(self._hosted))

    @property
    def counting(self) -> frozenset[BrokerId]:
        """The brokers whose queue sizes are pending."""
        return self._sender.waits_for

    # --- start-up -----------------------------------------------------------------------------

    def _session_started(self, event: SessionStarted) -> None:
        """Do ``create /brokers/state/[broker_id]``, listen to it, and ``drain the state change
        queue``."""
        self._context.begin_session(event.session)
        self._context.outbox.put(CreateQueue())
        self._draining = True
        self._queue.read()

    def _queue_drained(self) -> None:
        """Do ``get replica info from ZK and compute AR``, once in a session."""
        if self._draining:
            self._draining = False
            self._context.outbox.put(ReadAssignments())

    def _assignments_read(self, event: AssignmentsRead) -> None:
        """Do ``for each r in AR: subscribe to leader changes, startReplica(r)``."""
        self._starting = set(event.mine)
        for _, hosted in sorted(self._hosted.items()):
            hosted.look()
        for tp in sorted(event.mine - self._hosted.keys()):
            self._find(tp)

    def _find(self, tp: TopicPartition) -> None:
        """Start a partition's replica, unless it must be closed, which was done or will be.

        The watch that the read sets may fire before its answer arrives.
        """
        self._finding[tp] = False

        def found(view: PartitionView) -> None:
            changed = self._finding.pop(tp, False)
            if tp in self._hosted:
                return
            if view.is_closing or not view.hosts(self._context.me):
                if self._starting is not None:
                    self._starting.discard(tp)
                return
            self._host(tp, view).begin(view)
            if changed:
                self._look(tp)

        self._context.outbox.read(tp, found)

    def _maybe_register(self) -> None:
        """Do ``register its broker_id in /brokers/ids/[broker_id]``, as the last step."""
        if self._starting is None:
            return
        hosted = (self._hosted.get(tp) for tp in self._starting)
        if all(one is not None and one.seen for one in hosted):
            self._starting = None
            self._context.outbox.put(RegisterBroker())

    def _session_expired(self, _event: SessionExpired) -> None:
        self._context.end_session()
        self._sender.forget()
        self._queue.forget()
        self._draining, self._starting = False, None
        self._finding.clear()
        for _, hosted in sorted(self._hosted.items()):
            hosted.session_over()

    # --- replicas -----------------------------------------------------------------------------

    def _host(self, tp: TopicPartition, view: PartitionView) -> HostedPartition:
        """Host a partition. However it comes to be hosted, after an unclean stop its log is suspect
        the first time: a session may end, and another begin, before a replica was checked."""
        hosted = self._hosted.get(tp)
        if hosted is None:
            suspect = self._context.settings.unclean_start
            hosted = HostedPartition(
                tp, view.topic_id, self._context, self._sender, self._replace, suspect=suspect
            )
            self._hosted[tp] = hosted
            self._context.outbox.put(StartReplica(partition=tp, topic_id=view.topic_id))
        return hosted

    def _start_replica(self, tp: TopicPartition, view: PartitionView) -> None:
        """Do ``startReplica``."""
        self._host(tp, view).look()

    def _close_replica(self, tp: TopicPartition, view: PartitionView) -> None:
        """Do ``close and delete r``. Fenced, delete its leadership with it."""
        hosted = self._hosted.pop(tp, None)
        if hosted is not None:
            hosted.close()
        if self._starting is not None:
            self._starting.discard(tp)
        self._context.outbox.put(StopReplica(partition=tp))
        ours = view.leader is not None and view.leader.owner == self._context.session
        if hosted is not None and ours and self._context.variant.sends_together:
            leader = Node(Kind.LEADER, tp)
            self._context.write((Delete(node=leader, expected=ANY_VERSION),))

    def _replace(self, tp: TopicPartition, view: PartitionView) -> None:
        """Replace the hosted partition, which belongs to a former topic."""
        self._close_replica(tp, view)
        if view.hosts(self._context.me):
            self._start_replica(tp, view)

    def _look(self, tp: TopicPartition) -> None:
        if tp in self._finding:
            self._finding[tp] = True
        if tp in self._hosted:
            self._hosted[tp].look()

    # --- who is told what ---------------------------------------------------------------------

    def _queue_changed(self, _event: QueueChanged) -> None:
        self._queue.read()

    def _queue_read(self, event: QueueRead) -> None:
        self._context.outbox.queue_read(event)

    def _queue_size_read(self, event: QueueSizeRead) -> None:
        self._sender.size_read(event)

    def _partition_changed(self, event: PartitionChanged) -> None:
        self._look(event.partition)

    def _partition_read(self, event: PartitionRead) -> None:
        self._context.outbox.partition_read(event)

    def _reassignments_read(self, event: ReassignmentsRead) -> None:
        self._context.orders = dict(event.orders)
        for tp, hosted in sorted(self._hosted.items()):
            if hosted.leading is None:
                continue
            if event.orders.get(tp) != hosted.leading.view.reassigned:
                hosted.look()

    def _brokers_read(self, event: BrokersRead) -> None:
        self._context.brokers_read()
        for _, hosted in sorted(self._hosted.items()):
            if hosted.leading is not None:
                hosted.leading.brokers_read(event.live)

    def _written(self, event: Written) -> None:
        self._context.outbox.written(event)

    def _isr_asked(self, event: IsrAsked) -> None:
        hosted = self._hosted.get(event.partition)
        if hosted is not None and hosted.leading is not None:
            hosted.leading.isr_asked(event.asked)
            return
        failed = IsrWriteFailed(leader_epoch=event.asked.leader_epoch, conflict=True)
        self._context.outbox.put(Tell(partition=event.partition, event=failed))

    def _progress(self, event: Progress) -> None:
        hosted = self._hosted.get(event.partition)
        if hosted is not None and hosted.leading is not None:
            hosted.leading.progressed(event)

    def _role_refused(self, event: RoleRefused) -> None:
        if event.partition in self._hosted:
            self._hosted[event.partition].refused(event.leader_epoch)

    def _shutdown_asked(self, _event: ShutdownAsked) -> None:
        self._context.stopping = True
        for _, hosted in sorted(self._hosted.items()):
            hosted.stop()

    def _tick(self, _event: Tick) -> None:
        for _, hosted in sorted(self._hosted.items()):
            hosted.tick()


Step = Callable[[Coordinator, Any], None]

STEPS: Final[Mapping[type[Event], Step]] = {
    SessionStarted: Coordinator._session_started,
    SessionExpired: Coordinator._session_expired,
    QueueChanged: Coordinator._queue_changed,
    QueueRead: Coordinator._queue_read,
    QueueSizeRead: Coordinator._queue_size_read,
    AssignmentsRead: Coordinator._assignments_read,
    PartitionChanged: Coordinator._partition_changed,
    PartitionRead: Coordinator._partition_read,
    ReassignmentsRead: Coordinator._reassignments_read,
    BrokersRead: Coordinator._brokers_read,
    Written: Coordinator._written,
    IsrAsked: Coordinator._isr_asked,
    Progress: Coordinator._progress,
    RoleRefused: Coordinator._role_refused,
    ShutdownAsked: Coordinator._shutdown_asked,
    Tick: Coordinator._tick,
}
