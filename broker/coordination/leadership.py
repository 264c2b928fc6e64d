"""The leader's part of a partition: "Become leader" from its wait on, the ISR in ZooKeeper, and
``checkLoadBalancing``.

The :class:`~broker.replication.replica.Replica` does the replication. This module does what the
document's leader does in ZooKeeper. :meth:`Leading.act` does what is due, one action at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from ackproof.broker.coordination.context import Context
from ackproof.broker.coordination.events import (
    Check,
    Delete,
    Op,
    Progress,
    PutAssigned,
    PutIsr,
    Result,
    Tell,
    WatchProgress,
    Written,
)
from ackproof.broker.coordination.nodes import (
    ANY_VERSION,
    Change,
    Kind,
    Node,
    PartitionView,
    QueuedRequest,
    StateChangeRequest,
)
from ackproof.broker.coordination.queues import Requests
from ackproof.broker.replication.events import (
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    ReplicasChanged,
    StartServing,
    WriteIsr,
)
from ackproof.broker.replication.local import UNKNOWN_OFFSET
from ackproof.broker.types import (
    BrokerId,
    LeaderEpoch,
    Millis,
    Offset,
    TopicPartition,
    ZkVersion,
)


class LedPartition(Protocol):
    """The led partition, as its leadership uses it. It reads and writes one thing at a time, and
    tells the replica its role."""

    tp: TopicPartition
    context: Context
    leading: "Leading | None"
    retry_at: Millis
    give_back_after: Millis

    @property
    def busy(self) -> bool:
        """Whether a read or write of the partition is pending."""
        ...

    def look(self) -> None:
        """Read the partition and act on it, as soon as no other operation is pending."""
        ...

    def write(self, ops: tuple[Op, ...], then: Callable[[Written], None]) -> None:
        """Write ``ops``, and call ``then`` with the outcome."""
        ...

    def send(
        self,
        requests: Requests,
        with_ops: tuple[Op, ...],
        then: Callable[[Written], None],
        before: Callable[[], None] = ...,
    ) -> None:
        """Put requests into the queues of other brokers, together with ``with_ops``."""
        ...

    def give_up(self) -> None:
        """Stop serving. The znode ``leader`` still belongs to this broker and must be deleted."""
        ...

    def assume(
        self,
        *,
        leader: BrokerId,
        epoch: LeaderEpoch,
        isr: tuple[BrokerId, ...],
        version: ZkVersion,
        replicas: tuple[BrokerId, ...],
        serves: bool = True,
    ) -> None:
        """Tell the replica its role."""
        ...


class Leading:
    """The leadership of one epoch, from the claim on.

    ``isr`` and ``version`` are the last known content of ``ISR``. As printed, the version is no
    znode's: it counts what the replica was told.
    """

    def __init__(
        self,
        partition: LedPartition,
        *,
        epoch: LeaderEpoch,
        isr: tuple[BrokerId, ...],
        version: ZkVersion,
        view: PartitionView,
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.isr = isr
        self.version = version
        self.view = view
        self.progress: Progress | None = None
        self.serves = False
        self._context = partition.context
        self._wait_until = Millis(self._context.now + self._context.settings.keep_in_sync_ms)
        self._live: frozenset[BrokerId] | None = None
        self._gone: frozenset[BrokerId] = frozenset()
        self._asked: WriteIsr | None = None
        self._tried: WriteIsr | None = None
        self._reassignment = reassignment(self)

    @property
    def assigned(self) -> tuple[BrokerId, ...]:
        """AR, the assigned replicas."""
        return self.view.assigned

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        """All replicas whose fetches count."""
        return self.view.all_replicas

    @property
    def next_tick(self) -> Millis | None:
        """The time at which the wait ends or a rejected request is tried again. It is also the time
        to offer the leadership again to a preferred replica that did not claim it, because an idle
        partition has no other event for that."""
        if self.partition.busy:
            return None
        if not self.serves:
            return self._wait_until
        again = (self.partition.retry_at, self.partition.give_back_after)
        return min((at for at in again if at > self._context.now), default=None)

    def begin(self) -> None:
        """Do ``becomeLeader``. Followers are served from now on, and clients when the wait is
        over."""
        self._assume()
        self._context.outbox.put(WatchProgress(partition=self.partition.tp, wanted=True))
        self._context.ask_for_brokers()
        self._context.listen_to_reassignments()
        if self._context.orders.get(self.partition.tp) != self.view.reassigned:
            self.partition.look()

    def _assume(self) -> None:
        me = self._context.me
        isr = self.isr if me in self.isr else (me, *self.isr)
        self.partition.assume(
            leader=me,
            epoch=self.epoch,
            isr=isr,
            version=self.version,
            replicas=self.replicas,
            serves=self.serves,
        )

    # --- what happens ---------------------------------------------------------------------------

    def brokers_read(self, live: frozenset[BrokerId]) -> None:
        """Take over the live brokers. The leader waits for those that are live at the beginning and
        stay so. It also notes the members of the ISR that are gone."""
        self._live = live if self._live is None else self._live & live
        if self._context.variant.drops_who_is_gone:
            self._gone = frozenset(self.isr) - live - {self._context.me}
        self.act()

    def progressed(self, progress: Progress) -> None:
        """Take over the progress of followers."""
        if progress.leader_epoch == self.epoch:
            self.progress = progress
            self._reassignment.progressed()
            self.act()

    def reconcile(self, view: PartitionView) -> None:
        """Take over changes of other nodes, while ``leader`` is still ours."""
        replicas, moving = self.replicas, self.view.moving_to
        self.view = view
        if view.isr is not None and not self._context.variant.believes_its_isr:
            self._adopt(view.isr.isr, view.isr.version)
        if self.replicas != replicas:
            changed = ReplicasChanged(leader_epoch=self.epoch, replicas=self.replicas)
            self._context.outbox.put(Tell(partition=self.partition.tp, event=changed))
        if view.moving_to != moving:
            self.watch_progress()

    def _adopt(self, isr: tuple[BrokerId, ...], version: ZkVersion) -> None:
        """Take over the ISR that was read: the outcome of a write whose answer was lost, or a
        member that left by itself."""
        asked, self._asked = self._asked, None
        news = version != self.version
        self.isr, self.version = isr, version
        if news and asked is not None and asked.isr == isr:
            self._tell_written()
            return
        if asked is not None:
            self._tell_failed(asked, conflict=news)
        if news:
            self._assume()

    def act(self) -> None:
        """Do what is due and possible now."""
        if self.partition.busy or self.partition.leading is not self:
            return
        if not self.serves:
            self._maybe_serve()
        elif self._asked is not None:
            self._write_isr(self._asked)
        elif self._gone.intersection(self.isr):
            self._drop_absent_replicas()
        elif not self._reassignment.act():
            self._balance()

    # --- the wait -------------------------------------------------------------------------------

    def _caught_up(self) -> frozenset[BrokerId]:
        """Return the live replicas "whose leo == r.hw". Nothing is appended while the leader
        waits."""
        if self.progress is None or self._live is None:
            return frozenset()
        ends: Mapping[BrokerId, Offset] = self.progress.ends
        return frozenset(
            broker
            for broker in self._live
            if broker in self.assigned and ends.get(broker, -1) >= self.progress.log_end
        )

    def _maybe_serve(self) -> None:
        """Do ``wait until every live replica in AR catches up or a KeepInSyncTime has passed``."""
        me = self._context.me
        waited_for = None if self._live is None else self._live & set(self.assigned) - {me}
        caught_up = self._caught_up()
        waits = waited_for is None or not waited_for <= caught_up
        if waits and self._context.now < self._wait_until:
            return
        log_end = UNKNOWN_OFFSET if self.progress is None else self.progress.log_end
        isr = self._context.variant.in_sync(me, self.isr, caught_up, log_end)
        ops = self._context.variant.write_isr(self.partition.tp, isr, self.epoch, self.version)
        if self._context.variant.believes_its_isr:
            self._context.write(ops)
            self._serve(isr, ZkVersion(self.version + 1))
        elif isr == self.isr:
            self._serve(isr, self.version)
        else:
            self.partition.write(ops, lambda event: self._isr_decided(isr, event))

    def _isr_decided(self, isr: tuple[BrokerId, ...], event: Written) -> None:
        version = event.versions.get(Node(Kind.ISR, self.partition.tp))
        if event.result is Result.DONE and version is not None:
            self._serve(isr, version)
        else:
            self.partition.look()

    def _serve(self, isr: tuple[BrokerId, ...], version: ZkVersion) -> None:
        """Begin to serve: ``this enables reads/writes to this partition on this broker``."""
        news = version != self.version
        self.isr, self.version, self.serves = isr, version, True
        if news:
            self._assume()
        started = StartServing(leader_epoch=self.epoch, now=self._context.now)
        self._context.outbox.put(Tell(partition=self.partition.tp, event=started))
        self.watch_progress()
        self.act()

    def watch_progress(self) -> None:
        """Watch the progress of brokers as long as there are any to wait for."""
        wanted = not self.serves or self.view.reassigned is not None
        self._context.outbox.put(WatchProgress(partition=self.partition.tp, wanted=wanted))

    # --- the ISR --------------------------------------------------------------------------------

    def isr_asked(self, asked: WriteIsr) -> None:
        """Process the replica's request for another ISR."""
        if asked.leader_epoch != self.epoch:
            self._tell_failed(asked, conflict=True)
        elif self._context.variant.believes_its_isr:
            self.isr, self.version = asked.isr, ZkVersion(max(self.version, asked.zk_version) + 1)
            self._tell_written()
            ops = self._context.variant.write_isr(
                self.partition.tp, asked.isr, self.epoch, self.version
            )
            self._context.write(ops)
            self.act()
        else:
            self._asked = asked
            self.act()

    def _write_isr(self, asked: WriteIsr) -> None:
        if asked.zk_version != self.version:
            self._asked = None
            self._tell_failed(asked, conflict=True)
            self._assume()
            return
        if not self._reassignment.lets_in(asked.isr):
            self._refuse(asked)
            return
        self._tried = asked
        ops = self._context.variant.write_isr(
            self.partition.tp, asked.isr, self.epoch, self.version
        )

        def written(event: Written) -> None:
            version = event.versions.get(Node(Kind.ISR, self.partition.tp))
            if event.result is Result.DONE and version is not None:
                self._asked = None
                self.isr, self.version = asked.isr, version
                self._tell_written()
                return
            if event.result is Result.REFUSED:
                self._asked = None
                self._tell_failed(asked, conflict=True)
            self.partition.look()

        self.partition.write(ops, written)

    def _refuse(self, asked: WriteIsr) -> None:
        """Reject a request for another ISR. If it was tried before, it may have been carried out:
        the proposal then stands, and is requested again."""
        self._asked = None
        if asked == self._tried:
            self._tell_failed(asked, conflict=False)
        else:
            refused = IsrRefused(leader_epoch=self.epoch)
            self._context.outbox.put(Tell(partition=self.partition.tp, event=refused))

    def _drop_absent_replicas(self) -> None:
        """Remove brokers that are gone from the ISR.

        While the partition is idle, no other step does it: a broker that died with a log as long as
        the leader's counts as caught up for ever. A record would wait for it, and
        ``min.insync.replicas`` would count it. A broker that fetches without a registration joins
        again with its next fetch.
        """
        isr = tuple(broker for broker in self.isr if broker not in self._gone)
        ops = self._context.variant.write_isr(self.partition.tp, isr, self.epoch, self.version)

        def written(event: Written) -> None:
            version = event.versions.get(Node(Kind.ISR, self.partition.tp))
            if event.result is Result.DONE and version is not None:
                self._gone = frozenset()
                self.isr, self.version = isr, version
                self._assume()
            else:
                self.partition.look()

        self.partition.write(ops, written)

    def _tell_written(self) -> None:
        event = IsrWritten(leader_epoch=self.epoch, isr=self.isr, zk_version=self.version)
        self._context.outbox.put(Tell(partition=self.partition.tp, event=event))

    def _tell_failed(self, asked: WriteIsr, *, conflict: bool) -> None:
        event = IsrWriteFailed(leader_epoch=asked.leader_epoch, conflict=conflict)
        self._context.outbox.put(Tell(partition=self.partition.tp, event=event))

    # --- the preferred replica --------------------------------------------------------------------

    def _balance(self) -> None:
        """Do ``checkLoadBalancing``: ``delete leader in ZK``, if the preferred replica is in the
        ISR.

        This is not repeated within KeepInSyncTime. Otherwise a preferred replica that is in the ISR
        and does not claim would leave the partition without a leader for most of the time.
        """
        wanted = (
            self._context.settings.load_balancing
            and self._context.now >= self.partition.give_back_after
        )
        preferred = self.assigned[0] if self.assigned else self._context.me
        if not wanted or preferred == self._context.me or preferred not in self.isr:
            return
        self.partition.give_back_after = Millis(
            self._context.now + self._context.settings.keep_in_sync_ms
        )
        leader = Node(Kind.LEADER, self.partition.tp)
        ops: tuple[Delete | Check, ...] = (Delete(node=leader, expected=ANY_VERSION),)
        if not self._context.variant.believes_its_isr:
            ops += (Check(node=Node(Kind.ISR, self.partition.tp), expected=self.version),)
        self.partition.give_up()
        self.partition.write(ops, lambda _event: self.partition.look())


# --- reassignment ---------------------------------------------------------------------------------
#
# ``onPartitionsReassigned``, ``checkReassignedReplicas`` and ``completePartitionsReassignment``:
# how a leader moves its partition to other brokers, or has it deleted (an empty RAR).


RETRY_MS = 1_000
"""The wait after a rejection because of a full queue or an unknown broker."""

LOOK_AGAIN_MS = 100
"""The wait after a look into the queue of a broker that wants to join the ISR."""

Replicas = tuple[BrokerId, ...]


class Order(NamedTuple):
    """RAR, and the transaction that created it."""

    target: Replicas
    created: int


class Reassignment(ABC):
    """The reassignment of one partition, as its leader sees it in one epoch."""

    def __init__(self, leading: Leading) -> None:
        self._leading = leading
        self._partition = leading.partition
        self._context = leading.partition.context

    @abstractmethod
    def act(self) -> bool:
        """Do what is due. Return False if nothing was."""

    def progressed(self) -> None:  # noqa: B027
        """Take over the progress of followers."""

    def lets_in(self, isr: Replicas) -> bool:  # noqa: ARG002
        """Return whether all of the requested ``isr`` may be in it by now."""
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
    """A reassignment that writes its first requests in one write, and its end in another."""

    def __init__(self, leading: Leading) -> None:
        super().__init__(leading)
        self._requested: Order | None = None
        """The order for which start-replica or close-replica was sent."""
        self._drained: set[BrokerId] = set()
        """The brokers that were sent start-replica and have carried out their requests."""
        self._look_again_at = Millis(0)

    def lets_in(self, isr: Replicas) -> bool:
        """Return whether the requested ``isr`` may be written.

        A member of RAR may not join while a request for the partition waits in its queue. Suppose
        the partition was moved away from broker 2, which has just read that its close-replica is
        due. The partition is moved to it again, and it has fetched all the time. If it joined the
        ISR for that, it would delete its log while in the ISR. Its start-replica is behind the
        close-replica in the queue.
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
        """The present order: RAR and the transaction that created it.

        RAR alone is not enough. Suppose there is a move to 3, then one to 4, then to 3 again, and
        the leader has seen only the first and the last. Broker 3 was started again in between, was
        not named by any node, and hosts no replica. By RAR alone it would count as started.
        """
        found = self._leading.view.reassigned
        return None if found is None else Order(found.replicas, found.created)

    def _look_into_queue(self, broker: BrokerId, drained: set[BrokerId]) -> None:
        def listed(entries: tuple[QueuedRequest, ...]) -> None:
            if all(entry.request.partition != self._partition.tp for entry in entries):
                drained.add(broker)

        self._context.outbox.read_queue(broker, listed)

    def _has_requested(self, order: Order | None) -> None:
        """Note the requests as sent. Earlier reads of the queues say nothing about them."""
        self._requested, self._drained = order, set()

    def act(self) -> bool:
        """Begin, complete, or cancel the reassignment."""
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
        """Do ``sendStateChange("start-replica", ...)``, or for a deletion ``close-replica``.

        Sending the close-replicas raises the version of ``partitions_reassigned``. This tells the
        admin command what to wait for.
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
        """Complete the move, because all of RAR are in the ISR.

        ISR and AR become RAR. The old replicas are closed, and those of reassignments that this one
        has replaced. As printed, the old replicas are closed first, while they are in the ISR and
        in AR. One that is started again meanwhile has an empty log, and may lead by the ISR. Here
        they are in neither when they are told.

        A leader that must go, or is not the preferred one, is removed in the same write, and stops
        serving before it.
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
        """Undo a reassignment that is gone, or was cancelled by one to AR.

        A broker that is in the ISR or ``removing``, and is not assigned, leaves the ISR and is
        closed, once others are in the ISR. The leader does not wait for members of AR outside the
        ISR: they may be down, and the move may have been cancelled for that.

        The write checks the version of AR, which each order raises. The version of the reassignment
        is 0 again when a move to 3 takes its place. By that version the new order would be removed,
        and broker 3, by the earlier read, told to close what it is just being told to start.
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
    """A reassignment line by line, as printed. An empty RAR (a deletion) does not count as one
    whose replicas have all caught up, and neither does a missing RAR, although the lines would let
    both through."""

    def __init__(self, leading: Leading) -> None:
        super().__init__(leading)
        self._requested: Replicas | None = None
        """The RAR for which start-replica or close-replica was sent."""
        self._sent_close = False

    def act(self) -> bool:
        """Do ``onPartitionsReassigned``."""
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
        """Do ``checkReassignedReplicas`` at each fetch, instead of at each commit."""
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
        """Do ``completePartitionsReassignment``. If the leader stays, ``partitions_reassigned`` is
        not removed, because the printed deletion is inside the condition."""
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


def reassignment(leading: Leading) -> Reassignment:
    """Return the reassignment of the variant."""
    staged = leading.partition.context.variant.staged_reassignment
    return PrintedReassignment(leading) if staged else FencedReassignment(leading)


def _nothing() -> None:
    return


def _nothing_more(_event: Written) -> None:
    return
