"""What admin commands write, and what they wait for (seed 001, "Admin commands")."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass

from ackproof.broker.coordination.administration.admin_steps import (
    AdminWrite,
    AdminWritten,
    Answer,
    AwaitChange,
    ReadNodes,
    ReadQueues,
    Step,
    Waited,
)
from ackproof.broker.coordination.administration.hold import Hold, held
from ackproof.broker.coordination.events import (
    Dequeue,
    Enqueue,
    Fault,
    Lifecycle,
    Op,
    Refused,
    Result,
    Stage,
)
from ackproof.broker.coordination.nodes import (
    ABSENT,
    ANY_VERSION,
    Change,
    PartitionView,
    QueuedRequest,
    StateChangeRequest,
)
from ackproof.broker.coordination.queues.queue import superfluous
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion

Replicas = tuple[BrokerId, ...]
Names = dict[BrokerId, set[str]]
Sending = Generator[Step, Answer, "Names | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminWrites:
    """As printed a line at a time; fenced, what belongs together is one write. ``queue_max`` as in
    :class:`Settings`."""

    fenced: bool = True
    queue_max: int = 1_000

    @property
    def absent(self) -> ZkVersion:
        """Of a node that is to be created; printed, whatever is there is written over."""
        return ABSENT if self.fenced else ANY_VERSION

    def write(self, *ops: Op, hold: Hold | None = None) -> Generator[Step, Answer, Result]:
        """In one write, or as printed one after the other."""
        if self.fenced:
            return (yield from self.write_together(ops, hold))
        for op in ops:
            yield AdminWrite(ops=(op,))
        return Result.DONE

    def write_together(
        self, ops: tuple[Op, ...], hold: Hold | None
    ) -> Generator[Step, Answer, Result]:
        """In one write, in the hold of its topic, if there is one."""
        written: AdminWritten = yield AdminWrite(ops=held(hold, ops))
        if hold and written.result is Result.DONE:
            hold.moved_on()
        return written.result

    def send(
        self,
        requests: list[tuple[BrokerId, StateChangeRequest]],
        with_ops: tuple[Op, ...],
        hold: Hold | None,
    ) -> Sending:
        """``sendStateChange`` for each, and ``with_ops`` before them. The names of the entries;
        None: a queue is full, and (fenced) nothing was written, or it was refused.

        Fenced, a full queue is waited for, as long as a command waits: a topic with more partitions
        than there is room for would be refused each time that it is tried.
        """
        brokers = tuple(dict.fromkeys(broker for broker, _ in requests))
        while (full := (yield from self._without_room(brokers))) is not None:
            request = dict(requests)[full]
            if not self.fenced or not (yield from self._change(request.partition, brokers)):
                yield Refused(fault=Fault.QUEUE_FULL, request=request, broker=full)
                return None
        puts = tuple(Enqueue(broker=broker, request=request) for broker, request in requests)
        names: Names = {}
        if self.fenced:
            written: AdminWritten = yield AdminWrite(ops=held(hold, (*with_ops, *puts)))
            if written.result is not Result.DONE:
                return None
            if hold:
                hold.moved_on()
            queued = written.queued
        else:
            yield from self.write(*with_ops)
            queued = ()
            for put in puts:
                one: AdminWritten = yield AdminWrite(ops=(put,))
                queued += one.queued
        for (broker, request), name in zip(requests, queued, strict=False):
            names.setdefault(broker, set()).add(name)
            yield Lifecycle(stage=Stage.REQUESTED, request=request, broker=broker)
        return names

    def _without_room(
        self, brokers: tuple[BrokerId, ...]
    ) -> Generator[Step, Answer, BrokerId | None]:
        queues: Mapping[BrokerId, tuple[QueuedRequest, ...]] = yield ReadQueues(brokers=brokers)
        for broker in brokers:
            if not (yield from self._has_room(broker, queues[broker])):
                return broker
        return None

    def _has_room(
        self, broker: BrokerId, entries: tuple[QueuedRequest, ...]
    ) -> Generator[Step, Answer, bool]:
        if len(entries) < self.queue_max:
            return True
        dropped = superfluous(entries, keeps_all_kinds=self.fenced)
        if dropped:
            names = tuple(Dequeue(broker=broker, name=name) for name in dropped)
            yield AdminWrite(ops=names)
        return len(entries) - len(dropped) < self.queue_max

    def consumed(
        self, tp: TopicPartition, brokers: Replicas, names: Names
    ) -> Generator[Step, Answer, bool]:
        """``waitTillStateChangeRequestConsumed``. Printed, whatever changes in a queue is taken for
        it: the topic may be there before anybody has started its replicas. (Where the queues are
        empty before the watch is there, the printed wait would be for nothing: it is left out.)"""
        while True:
            queues: Mapping[BrokerId, tuple[QueuedRequest, ...]] = yield ReadQueues(brokers=brokers)
            left = any(
                entry.name in names.get(broker, set())
                for broker, entries in queues.items()
                for entry in entries
            )
            if not left if self.fenced else not any(queues.values()):
                return True
            changed = yield from self._change(tp, brokers)
            if not changed or not self.fenced:
                return changed

    def closed(self, tp: TopicPartition, brokers: Replicas) -> Generator[Step, Answer, bool]:
        """The same for close-replicas, which the leader sends. Fenced: first it must have sent
        them (the version of ``partitions_reassigned`` says so), then none may be left."""
        while True:
            view: PartitionView = yield ReadNodes(partition=tp)
            queues: Mapping[BrokerId, tuple[QueuedRequest, ...]] = yield ReadQueues(brokers=brokers)
            left = any(
                entry.request.partition == tp and entry.request.change is Change.CLOSE_REPLICA
                for entries in queues.values()
                for entry in entries
            )
            sent = view.reassigned is not None and view.reassigned.version > 0
            if self.fenced and ((sent and not left) or view == PartitionView()):
                return True
            changed = yield from self._change(tp, brokers)
            if not changed or not self.fenced:
                return changed

    def _change(self, tp: TopicPartition, brokers: Replicas) -> Generator[Step, Answer, bool]:
        """Whether it is worth another look; False: time is up. Printed, until a watch fires: who
        took a look for that would delete a topic's paths before its leader has read that it is to
        be deleted, and leave the logs for good."""
        while True:
            waited: Waited = yield AwaitChange(brokers=brokers, partition=tp)
            if self.fenced or waited is not Waited.NOTHING_SEEN:
                return waited is not Waited.TIME_IS_UP
