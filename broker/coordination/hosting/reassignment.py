"""``onPartitionsReassigned``, ``checkReassignedReplicas`` and ``completePartitionsReassignment``:
how a leader moves its partition to other brokers, or has it deleted (an empty RAR).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ackproof.broker.coordination.events import (
    Check,
    Delete,
    Op,
    PutAssigned,
    PutIsr,
    Result,
    Written,
)
from ackproof.broker.coordination.nodes import (
    ANY_VERSION,
    Change,
    Kind,
    Node,
    QueuedRequest,
    StateChangeRequest,
)
from ackproof.broker.coordination.queues.sending import Requests
from ackproof.broker.types import BrokerId, Millis

if TYPE_CHECKING:
    from ackproof.broker.coordination.hosting.leading import Leading

RETRY_MS = 1_000
"""After what was refused: a full queue, an unknown broker."""

LOOK_AGAIN_MS = 100
"""After a look into the queue of a broker that wants to join the ISR."""

Replicas = tuple[BrokerId, ...]


class Order(NamedTuple):
    """RAR, and the transaction that ordered it."""

    target: Replicas
    created: int


class Reassignment(ABC):
    """The reassignment of one partition in its leader's eyes, for one epoch."""

    def __init__(self, leading: "Leading") -> None:
        self._leading = leading
        self._partition = leading.partition
        self._context = leading.partition.context

    @abstractmethod
    def act(self) -> bool:
        """Do what is due; False if nothing was."""

    def progressed(self) -> None:  # noqa: B027
        """Followers have fetched."""

    def lets_in(self, isr: Replicas) -> bool:  # noqa: ARG002
        """Whether all of ``isr``, which the replica asks for, may be in it by now."""
        return True

    @property
    def _target(self) -> Replicas | None:
        return self._leading.view.moving_to

    def _node(self, kind: Kind) -> Node:
        return Node(kind, self._partition.tp)

    def _requests(self, change: Change, brokers: Iterable[BrokerId]) -> Requests:
        request = StateChangeRequest(
            change=change,
            partition=self._partition.tp,
            leader=self._context.me,
            epoch=self._leading.epoch,
        )
        return tuple((broker, request) for broker in brokers)


class FencedReassignment(Reassignment):
    """In one write each: the requests that a reassignment begins with, and its end."""

    def __init__(self, leading: "Leading") -> None:
        super().__init__(leading)
        self._requested: Order | None = None
        """That for which start-replica or close-replica went out."""
        self._drained: set[BrokerId] = set()
        """Those that start-replica went out to, and have carried out what they were sent."""
        self._look_again_at = Millis(0)

    def lets_in(self, isr: Replicas) -> bool:
        """Nobody of RAR joins while a request for the partition waits in its queue.

        2 was moved away, and has just read that its close-replica is due. It is moved to again,
        and has fetched all the time: let into the ISR by that, it would delete its log in it. Its
        start-replica is behind the close-replica in the queue.
        """
        leading = self._leading
        new = set(isr).difference(leading.isr, leading.assigned)
        if self._requested != self._order:
            return not new
        if new <= self._drained:
            return True
        if self._context.now >= self._look_again_at:
            self._look_again_at = Millis(self._context.now + LOOK_AGAIN_MS)
            for broker in sorted(new - self._drained):
                self._look_into_queue(broker, self._drained)
        return False

    @property
    def _order(self) -> Order | None:
        """A move to 3, then one to 4, then to 3 again, of which the leader has seen the first and
        the last alone: 3 was started again in between, found itself named by nothing, and hosts no
        replica. By RAR alone it would count as started."""
        found = self._leading.view.reassigned
        return None if found is None else Order(found.replicas, found.created)

    def _look_into_queue(self, broker: BrokerId, drained: set[BrokerId]) -> None:
        def listed(entries: tuple[QueuedRequest, ...]) -> None:
            if all(entry.request.partition != self._partition.tp for entry in entries):
                drained.add(broker)

        self._context.outbox.read_queue(broker, listed)

    def _has_requested(self, order: Order | None) -> None:
        """What was seen of the queues before says nothing about these requests."""
        self._requested, self._drained = order, set()

    def act(self) -> bool:
        """Begin, complete, or take back."""
        if self._context.now < self._partition.retry_at:
            return False
        target = self._target
        if target != () and target in (None, self._leading.assigned):
            return self._take_back()
        if self._requested != self._order:
            return self._begin(target)
        if target and set(target) <= set(self._leading.isr):
            self._complete(target)
            return True
        return False

    def _begin(self, target: Replicas) -> bool:
        """``sendStateChange("start-replica", ...)``, or for a deletion ``close-replica``.

        That the close-replicas are out shows in ``partitions_reassigned``, whose version they
        raise: so the admin command knows what it waits for.
        """
        self._leading.watch_progress()
        assigned, order = self._leading.assigned, self._order
        node, found = self._node(Kind.REASSIGNED), self._leading.view.reassigned
        assert found is not None
        if not target and found.version > 0:
            self._has_requested(order)
            return False
        guard: Op = Check(node=node, expected=found.version)
        requests = self._requests(
            Change.START_REPLICA, (broker for broker in target if broker not in assigned)
        )
        if not target:
            removing = found.removing
            guard = PutAssigned(node=node, replicas=(), removing=removing, expected=found.version)
            hosts = dict.fromkeys((*assigned, *self._leading.isr, *removing))
            requests = self._requests(Change.CLOSE_REPLICA, hosts)
        if not requests:
            self._has_requested(order)
            return False

        def sent(event: Written) -> None:
            if event.result is Result.DONE:
                self._has_requested(order)
            else:
                self._failed(event)

        ops = (*self._context.variant.as_leader(self._partition.tp), guard)
        self._partition.send(requests, ops, sent)
        return True

    def _failed(self, event: Written) -> None:
        if event.result is Result.REFUSED:
            self._partition.retry_at = Millis(self._context.now + RETRY_MS)
        self._partition.look()

    def _complete(self, target: Replicas) -> None:
        """All of RAR are in the ISR: ISR and AR become RAR, and the old replicas are closed, those
        of reassignments that this one has replaced, too.

        Printed, the old ones are closed first, while they are in the ISR and in AR: one that is
        started again meanwhile has an empty log, and may lead by the ISR. Here they are in neither
        when they hear of it. A leader that is to go, or is not the preferred one, goes with the
        same write, and stops serving before it.
        """
        leading, view = self._leading, self._leading.view
        assert view.replicas is not None
        assert view.reassigned is not None
        me, leader = self._context.me, self._node(Kind.LEADER)
        goes = target[0] != me
        hosts = dict.fromkeys((*view.assigned, *leading.isr, *view.removing))
        old = [broker for broker in hosts if broker not in target]
        ops: tuple[Op, ...] = (
            Delete(node=leader, expected=ANY_VERSION)
            if goes
            else Check(node=leader, expected=ANY_VERSION),
            PutIsr(
                partition=self._partition.tp,
                isr=target,
                epoch=leading.epoch,
                expected=leading.version,
            ),
            PutAssigned(
                node=self._node(Kind.REPLICAS), replicas=target, expected=view.replicas.version
            ),
            Delete(node=self._node(Kind.REASSIGNED), expected=view.reassigned.version),
        )

        def written(event: Written) -> None:
            self._requested = None
            self._failed(event)

        before = self._partition.give_up if goes else _nothing
        self._partition.send(self._requests(Change.CLOSE_REPLICA, old), ops, written, before)

    def _take_back(self) -> bool:
        """No reassignment is left, or one to AR, which takes back what there was: who is in the ISR
        or removing, and is not assigned, leaves the ISR and is closed, once others are in it. For
        who of AR is not in the ISR nobody waits: it may be down, and the move taken back for that.

        Under the version of AR, which each order moves on. That of the reassignment is 0 again when
        a move to 3 takes its place: that would be removed, and 3, by what was read before, told to
        close what it is just being told to start.
        """
        leading, view = self._leading, self._leading.view
        self._requested = None
        hosts = dict.fromkeys((*leading.isr, *view.removing))
        strays = [broker for broker in hosts if broker not in view.assigned]
        kept = tuple(broker for broker in leading.isr if broker in view.assigned)
        if not kept or (view.reassigned is None and not strays):
            return False
        ops = self._context.variant.write_isr(
            self._partition.tp, kept, leading.epoch, leading.version
        )
        if view.reassigned is not None and view.replicas is not None:
            assigned, moving = self._node(Kind.REPLICAS), self._node(Kind.REASSIGNED)
            ops += (
                Check(node=assigned, expected=view.replicas.version),
                Delete(node=moving, expected=view.reassigned.version),
            )
        goes = self._context.me in strays
        if goes:
            ops += (Delete(node=self._node(Kind.LEADER), expected=ANY_VERSION),)
        before = self._partition.give_up if goes else _nothing
        self._partition.send(
            self._requests(Change.CLOSE_REPLICA, strays), ops, self._failed, before
        )
        return True


class PrintedReassignment(Reassignment):
    """Line by line. An empty RAR (a deletion) is not taken for one whose replicas have all caught
    up, and neither is no RAR at all, although the lines would let both through."""

    def __init__(self, leading: "Leading") -> None:
        super().__init__(leading)
        self._requested: Replicas | None = None
        """The RAR for which start-replica or close-replica went out."""
        self._sent_close = False

    def act(self) -> bool:
        """``onPartitionsReassigned``."""
        target = self._target
        if target is None or target == self._requested:
            return False
        self._requested = target
        self._leading.watch_progress()
        assigned = self._leading.assigned
        requests = self._requests(Change.START_REPLICA, [b for b in target if b not in assigned])
        if not target:
            requests = self._requests(Change.CLOSE_REPLICA, assigned)
        self._partition.send(requests, (), _nothing_more)
        return True

    def progressed(self) -> None:
        """``checkReassignedReplicas``, in place of with each commit: with each fetch."""
        leading, progress, target = self._leading, self._leading.progress, self._target
        if progress is None or not target or not leading.serves or self._partition.busy:
            return
        me = self._context.me
        ends = {**progress.ends, me: progress.log_end}
        if not all(ends.get(broker, -1) >= progress.high_watermark for broker in target):
            return
        old = [broker for broker in leading.assigned if broker not in target]
        others = [broker for broker in old if broker != me]
        if not self._sent_close:
            self._sent_close = True
            self._partition.send(self._requests(Change.CLOSE_REPLICA, others), (), _nothing_more)
        elif not any(broker in leading.isr for broker in others):
            self._sent_close = False
            self._complete(target, stop_commit_thread=me in old)

    def _complete(self, target: Replicas, *, stop_commit_thread: bool) -> None:
        """``completePartitionsReassignment``. Where the leader stays, ``partitions_reassigned`` is
        not removed: its deletion stands inside the condition."""
        context, leading, tp = self._context, self._leading, self._partition.tp
        isr = (*target, *(broker for broker in leading.isr if broker not in target))
        context.write(context.variant.write_isr(tp, isr, leading.epoch, leading.version))
        replicas = self._node(Kind.REPLICAS)
        context.write((PutAssigned(node=replicas, replicas=target, expected=ANY_VERSION),))
        leading.isr = isr
        if not stop_commit_thread and target[0] == context.me:
            self._partition.look()
            return
        if context.me not in target:
            closes = self._requests(Change.CLOSE_REPLICA, (context.me,))
            self._partition.send(closes, (), _nothing_more)
        for kind in (Kind.REASSIGNED, Kind.LEADER):
            context.write((Delete(node=self._node(kind), expected=ANY_VERSION),))
        self._partition.give_up()
        self._partition.look()


def reassignment(leading: "Leading") -> Reassignment:
    """As the variant has it."""
    staged = leading.partition.context.variant.staged_reassignment
    return PrintedReassignment(leading) if staged else FencedReassignment(leading)


def _nothing() -> None:
    return


def _nothing_more(_event: Written) -> None:
    return
