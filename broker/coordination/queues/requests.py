"""This broker's own state change queue ("On State change"): what was put in is carried out in
order, per partition, and taken out when it is done.

An entry whose broker stops in the middle is carried out again: starting a replica that is started,
and closing one that is closed, are nothing.
"""

from collections import deque
from collections.abc import Callable

from ackproof.broker.coordination.context import Context
from ackproof.broker.coordination.events import (
    Dequeue,
    Fault,
    Lifecycle,
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
from ackproof.broker.types import NO_EPOCH, TopicPartition


class OwnQueue:
    """The entries that are not done yet.

    ``start``, ``close`` and ``look`` do to a replica what a request says; ``drained`` is called
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
        """Look what there is."""
        if self._reading:
            self._again = True
        else:
            self._reading = True
            self._context.outbox.read_queue(self._context.me, self.take_on)

    def forget(self) -> None:
        """The session is over: in the next one everything is read again."""
        self._known.clear()
        self._waiting.clear()
        self._reading = self._again = False

    def take_on(self, entries: tuple[QueuedRequest, ...]) -> None:
        """Take on what is new; what is done but still listed is not."""
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
        """Anew for each request: what is decided on must not be older than the request."""
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
        """ "if a follower is slow, and reads a state change request queued up by a previous leader,
        it ignores the request"; "leader for r.partition doesn't exist" is so for new ones."""
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
