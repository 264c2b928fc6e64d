"""``sendStateChange``: puts requests into other brokers' queues, unless these are full.

A queue is counted first. One that is full is read, and shrunk; if it is full still, the request is
refused (``FollowerStateChangeQueueFull``). Others put and take at the same time, so that the bound
is kept to within what is under way.
"""

from collections.abc import Callable
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
from ackproof.broker.coordination.nodes import QueuedRequest, StateChangeRequest
from ackproof.broker.coordination.queues.queue import superfluous
from ackproof.broker.types import BrokerId

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
    """The requests that wait to hear how full their queues are."""

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
        """Put ``requests`` in, together with ``with_ops``, all or nothing; ``before`` is called
        when there is room for all of them.

        As printed, each by itself and ``with_ops`` left out (they are checks), and nobody hears
        what became of it.
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
        """The session is over."""
        self._jobs.clear()

    def size_read(self, event: QueueSizeRead) -> None:
        """A queue with room, or one to be read and shrunk."""
        if not any(event.broker in job.unknown for job in self._jobs):
            return
        if event.size < self._context.settings.state_change_queue_max:
            self._known(event.broker, full=False)
        else:
            self._context.outbox.read_queue(
                event.broker, lambda entries: self._shrink(event.broker, entries)
            )

    def _shrink(self, broker: BrokerId, entries: tuple[QueuedRequest, ...]) -> None:
        """A full queue."""
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
