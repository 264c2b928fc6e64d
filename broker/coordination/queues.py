"""State change queues ("State change communication"): this broker's own, and those of others."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ackproof.broker.coordination.context import Context
from ackproof.broker.coordination.events import (
    Dequeue,
    Enqueue,
    Fault,
    Lifecycle,
    Op,
    QueueSizeRead,
    ReadQueueSize,
    Refused,
    Result,
    Stage,
    Written,
)
from ackproof.broker.coordination.nodes import (
    Change,
    PartitionView,
    QueuedRequest,
    StateChangeRequest,
)
from ackproof.broker.types import NO_EPOCH, BrokerId, TopicPartition

# --- superfluous requests -------------------------------------------------------------------------
#
# The logic of ``/brokers/state/N`` ("State change communication"): what to drop when full.
#
# ``stateChangeQ.shrink`` "retains only one close-replica request for a partition, the one with the
# latest epoch", so that a broker that comes back deletes what it hosted. Start-replica requests
# need not be kept, because a broker finds its replicas by itself when it starts.
#
# A broker that is up but slow does not do that. With room for two, the third partition of a topic
# would remove the first two's requests from the queues of brokers that are about to carry them out.
# These partitions would have no followers until the brokers are started again. Fenced, the latest
# request of each partition is kept.


def superfluous(entries: Iterable[QueuedRequest], *, keeps_all_kinds: bool) -> tuple[str, ...]:
    """Return the names that ``shrink`` deletes, in order.

    Of equal epochs the latest entry stays, because admin commands all send -1. With
    ``keeps_all_kinds``, the latest of the requests other than close-replica stays as well, for each
    partition and kind. It stays whatever its epoch is, because a topic that is created again begins
    at 0.
    """
    kept: dict[TopicPartition, QueuedRequest] = {}
    others: dict[tuple[TopicPartition, Change], str] = {}
    dropped: list[str] = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.request.change is not Change.CLOSE_REPLICA:
            of = entry.request.partition, entry.request.change
            former = others.get(of) if keeps_all_kinds else entry.name
            if former is not None:
                dropped.append(former)
            others[of] = entry.name
            continue
        rival = kept.get(entry.request.partition)
        if rival is not None and rival.request.epoch > entry.request.epoch:
            dropped.append(entry.name)
            continue
        if rival is not None:
            dropped.append(rival.name)
        kept[entry.request.partition] = entry
    return tuple(sorted(dropped))


# --- queues of others -----------------------------------------------------------------------------
#
# ``sendStateChange``: puts requests into other brokers' queues, unless these are full.
#
# The size of a queue is read first. A full queue is read and shrunk. If it is still full, the
# request is rejected (``FollowerStateChangeQueueFull``). Others put and take at the same time, so
# that the limit can be exceeded by the pending requests.


Sent = Callable[[Written], None]
Requests = tuple[tuple[BrokerId, StateChangeRequest], ...]

_NOTHING_SENT = Written(token=-1, result=Result.REFUSED)
_SENT_BLINDLY = Written(token=-1, result=Result.DONE)


@dataclass(slots=True, eq=False)
class _Job:
    requests: Requests
    with_ops: tuple[Op, ...]
    then: Sent
    before: Callable[[], None]
    unknown: set[BrokerId]
    full: set[BrokerId] = field(default_factory=set)


class Sender:
    """The requests that wait for the sizes of their queues."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._jobs: list[_Job] = []

    def send(
        self,
        requests: Requests,
        with_ops: tuple[Op, ...],
        then: Sent,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Put ``requests`` into the queues, together with ``with_ops``, all or nothing. ``before``
        is called when there is room for all of them.

        As printed, each is written separately, ``with_ops`` is left out (they are checks), and the
        outcome is not reported.
        """
        brokers = list(dict.fromkeys(broker for broker, _ in requests))
        job = _Job(requests, with_ops, then, before, set(brokers))
        if not brokers:
            self._write(job)
            return
        asked = self.waits_for
        self._jobs.append(job)
        for broker in brokers:
            if broker not in asked:
                self._context.outbox.put(ReadQueueSize(broker=broker))

    @property
    def waits_for(self) -> frozenset[BrokerId]:
        """The brokers whose queues are being counted."""
        return frozenset(broker for job in self._jobs for broker in job.unknown)

    def forget(self) -> None:
        """Drop all requests, because the session is over."""
        self._jobs.clear()

    def size_read(self, event: QueueSizeRead) -> None:
        """Take over the size of a queue. A full one is read and shrunk."""
        if not any(event.broker in job.unknown for job in self._jobs):
            return
        if event.size < self._context.settings.state_change_queue_max:
            self._known(event.broker, full=False)
        else:
            self._context.outbox.read_queue(
                event.broker, lambda entries: self._shrink(event.broker, entries)
            )

    def _shrink(self, broker: BrokerId, entries: tuple[QueuedRequest, ...]) -> None:
        """Shrink a full queue."""
        dropped = superfluous(entries, keeps_all_kinds=self._context.variant.keeps_all_kinds)
        if dropped:
            names = (Dequeue(broker=broker, name=name) for name in dropped)
            self._context.write(tuple(names))
        left = len(entries) - len(dropped)
        self._known(broker, full=left >= self._context.settings.state_change_queue_max)

    def _known(self, broker: BrokerId, *, full: bool) -> None:
        for job in self._jobs:
            if broker in job.unknown:
                job.unknown.discard(broker)
                if full:
                    job.full.add(broker)
        ready = [job for job in self._jobs if not job.unknown]
        self._jobs = [job for job in self._jobs if job.unknown]
        for job in ready:
            self._write(job)

    def _write(self, job: _Job) -> None:
        for broker, request in job.requests:
            if broker in job.full:
                self._refuse(broker, request)
        if not self._context.variant.sends_together:
            self._write_each(job)
        elif job.full:
            job.then(_NOTHING_SENT)
        else:
            self._write_together(job)

    def _refuse(self, broker: BrokerId, request: StateChangeRequest) -> None:
        refused = Refused(fault=Fault.QUEUE_FULL, request=request, broker=broker)
        self._context.outbox.put(refused)

    def _write_each(self, job: _Job) -> None:
        for broker, request in job.requests:
            if broker not in job.full:
                self._context.write((Enqueue(broker=broker, request=request),))
                self._log(broker, request)
        job.then(_SENT_BLINDLY)

    def _write_together(self, job: _Job) -> None:
        job.before()
        puts = (Enqueue(broker=broker, request=request) for broker, request in job.requests)

        def written(event: Written) -> None:
            if event.result is Result.DONE:
                for broker, request in job.requests:
                    self._log(broker, request)
            job.then(event)

        self._context.write((*job.with_ops, *puts), written)

    def _log(self, broker: BrokerId, request: StateChangeRequest) -> None:
        line = Lifecycle(stage=Stage.REQUESTED, request=request, broker=broker)
        self._context.outbox.put(line)


# --- this broker's queue --------------------------------------------------------------------------
#
# This broker's own state change queue ("On State change"): requests are carried out in order, per
# partition, and removed when done.
#
# If the broker stops in the middle, the entry is carried out again. To start a started replica, or
# to close a closed one, has no effect.


class OwnQueue:
    """The entries that are not done yet.

    ``start``, ``close`` and ``look`` do what a request says to a replica. ``drained`` is called
    when everything that was read is done.
    """

    def __init__(
        self,
        context: Context,
        *,
        start: Callable[[TopicPartition, PartitionView], None],
        close: Callable[[TopicPartition, PartitionView], None],
        look: Callable[[TopicPartition], None],
        drained: Callable[[], None],
    ) -> None:
        self._context = context
        self._start, self._close, self._look = start, close, look
        self._drained = drained
        self._known: set[str] = set()
        self._waiting: dict[TopicPartition, deque[QueuedRequest]] = {}
        self._reading = self._again = False

    def read(self) -> None:
        """Read the queue."""
        if self._reading:
            self._again = True
        else:
            self._reading = True
            self._context.outbox.read_queue(self._context.me, self.take_on)

    def forget(self) -> None:
        """Drop all entries, because the session is over. The next one reads everything again."""
        self._known.clear()
        self._waiting.clear()
        self._reading = self._again = False

    def take_on(self, entries: tuple[QueuedRequest, ...]) -> None:
        """Take over new entries, but not those that are done and still listed."""
        self._reading = False
        self._known &= {entry.name for entry in entries}
        for entry in entries:
            if entry.name not in self._known:
                self._known.add(entry.name)
                self._take(entry)
        if self._again:
            self._again = False
            self.read()
        self._tell_when_drained()

    def _take(self, entry: QueuedRequest) -> None:
        self._log(Stage.RECEIVED, entry.request)
        tp = entry.request.partition
        waiting = self._waiting.setdefault(tp, deque())
        waiting.append(entry)
        if len(waiting) == 1:
            self._read(tp)

    def _read(self, tp: TopicPartition) -> None:
        """Read the partition, for each request again: the view must not be older than the
        request."""
        self._context.outbox.read(tp, lambda view: self._partition_read(tp, view))

    def _partition_read(self, tp: TopicPartition, view: PartitionView) -> None:
        waiting = self._waiting[tp]
        entry = waiting.popleft()
        if waiting:
            self._read(tp)
        else:
            del self._waiting[tp]
        fault = self._carry_out(entry.request, view)
        if fault is None:
            self._log(Stage.COMPLETED, entry.request)
        else:
            me = self._context.me
            self._context.outbox.put(Refused(fault=fault, request=entry.request, broker=me))
        self._take_out(entry.name)
        self._tell_when_drained()

    def _carry_out(self, request: StateChangeRequest, view: PartitionView) -> Fault | None:
        tp = request.partition
        match request.change:
            case Change.CLOSE_REPLICA:
                if not self._context.variant.close_is_due(self._context.me, view):
                    return Fault.STALE_CLOSE
                self._close(tp, view)
            case Change.START_REPLICA:
                return self._carry_out_start(request, view)
            case Change.ISR_CHANGED:
                self._look(tp)
        return None

    def _carry_out_start(self, request: StateChangeRequest, view: PartitionView) -> Fault | None:
        """Carry out a start-replica, unless it is stale.

        "if a follower is slow, and reads a state change request queued up by a previous leader, it
        ignores the request"; "leader for r.partition doesn't exist" is true of new ones.
        """
        if not view.hosts(self._context.me):
            return Fault.NOT_REPLICA
        latest = view.isr.epoch if view.isr is not None else NO_EPOCH
        if view.leader is not None and request.epoch != latest:
            return Fault.STALE_START
        self._start(request.partition, view)
        return None

    def _take_out(self, name: str) -> None:
        def taken_out(event: Written) -> None:
            if event.result is Result.UNKNOWN:
                self._take_out(name)

        ops = (Dequeue(broker=self._context.me, name=name),)
        self._context.write(ops, taken_out)

    def _tell_when_drained(self) -> None:
        if not self._waiting and not self._reading:
            self._drained()

    def _log(self, stage: Stage, request: StateChangeRequest) -> None:
        me = self._context.me
        self._context.outbox.put(Lifecycle(stage=stage, request=request, broker=me))
