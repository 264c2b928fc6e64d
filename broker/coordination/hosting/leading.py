"""The leader's part of a partition: "Become leader" from its wait on, the ISR in ZooKeeper, and
``checkLoadBalancing``.

Replication itself is the :class:`~broker.replication.replica.Replica`'s; here is what the
document's leader does in ZooKeeper. :meth:`Leading.act` does what is due, one thing at a time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ackproof.broker.coordination.events import (
    Check,
    Delete,
    Progress,
    Result,
    Tell,
    WatchProgress,
    Written,
)
from ackproof.broker.coordination.hosting.reassignment import reassignment
from ackproof.broker.coordination.nodes import ANY_VERSION, Kind, Node, PartitionView
from ackproof.broker.replication.epochs import UNKNOWN_OFFSET
from ackproof.broker.replication.events import (
    IsrRefused,
    IsrWriteFailed,
    IsrWritten,
    ReplicasChanged,
    StartServing,
    WriteIsr,
)
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, Offset, ZkVersion

if TYPE_CHECKING:
    from ackproof.broker.coordination.hosting.partition import HostedPartition


class Leading:
    """The leadership of one epoch, from the claim on.

    ``isr`` and ``version`` are what ``ISR`` holds as far as is known. As printed the version is no
    znode's: it counts what the replica was told.
    """

    def __init__(
        self,
        partition: "HostedPartition",
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
        """AR."""
        return self.view.assigned

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        """All whose fetches count."""
        return self.view.all_replicas

    @property
    def next_tick(self) -> Millis | None:
        """When the wait ends, what was refused is tried again, or the leadership is offered again
        to the preferred replica, which did not claim it: to an idle partition nothing else happens
        at which it would be."""
        if self.partition.busy:
            return None
        if not self.serves:
            return self._wait_until
        again = (self.partition.retry_at, self.partition.give_back_after)
        return min((at for at in again if at > self._context.now), default=None)

    def begin(self) -> None:
        """``becomeLeader``: followers are served from now on, clients when the wait is over."""
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
        """Whom to wait for: those who are live when the wait begins, and stay so. And who of the
        ISR is gone."""
        self._live = live if self._live is None else self._live & live
        if self._context.variant.drops_who_is_gone:
            self._gone = frozenset(self.isr) - live - {self._context.me}
        self.act()

    def progressed(self, progress: Progress) -> None:
        """Followers have fetched."""
        if progress.leader_epoch == self.epoch:
            self.progress = progress
            self._reassignment.progressed()
            self.act()

    def reconcile(self, view: PartitionView) -> None:
        """``leader`` is ours still: take over what changed beside it."""
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
        """What became of a write whose answer was lost; and a member that left by itself."""
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
        """Do what is due and can be done now."""
        if self.partition.busy or self.partition.leading is not self:
            return
        if not self.serves:
            self._maybe_serve()
        elif self._asked is not None:
            self._write_isr(self._asked)
        elif self._gone.intersection(self.isr):
            self._drop_who_is_gone()
        elif not self._reassignment.act():
            self._balance()

    # --- the wait -------------------------------------------------------------------------------

    def _caught_up(self) -> frozenset[BrokerId]:
        """Live replicas "whose leo == r.hw": nothing is appended while the leader waits."""
        if self.progress is None or self._live is None:
            return frozenset()
        ends: Mapping[BrokerId, Offset] = self.progress.ends
        return frozenset(
            broker
            for broker in self._live
            if broker in self.assigned and ends.get(broker, -1) >= self.progress.log_end
        )

    def _maybe_serve(self) -> None:
        """``wait until every live replica in AR catches up or a KeepInSyncTime has passed``."""
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
        """``this enables reads/writes to this partition on this broker``."""
        news = version != self.version
        self.isr, self.version, self.serves = isr, version, True
        if news:
            self._assume()
        started = StartServing(leader_epoch=self.epoch, now=self._context.now)
        self._context.outbox.put(Tell(partition=self.partition.tp, event=started))
        self.watch_progress()
        self.act()

    def watch_progress(self) -> None:
        """While there is somebody to wait for."""
        wanted = not self.serves or self.view.reassigned is not None
        self._context.outbox.put(WatchProgress(partition=self.partition.tp, wanted=wanted))

    # --- the ISR --------------------------------------------------------------------------------

    def isr_asked(self, asked: WriteIsr) -> None:
        """The replica wants another ISR."""
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
        """What was tried once may have been carried out all the same: it stands, and is asked for
        again."""
        self._asked = None
        if asked == self._tried:
            self._tell_failed(asked, conflict=False)
        else:
            refused = IsrRefused(leader_epoch=self.epoch)
            self._context.outbox.put(Tell(partition=self.partition.tp, event=refused))

    def _drop_who_is_gone(self) -> None:
        """Nobody else does it while the partition is idle: who died level with the leader's log is
        level for ever. A record would wait for it, and ``min.insync.replicas`` count it.

        Who fetches all the same, without its registration, is back with its next fetch.
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
        """``checkLoadBalancing``: ``delete leader in ZK``, if the preferred replica is in the ISR.

        Not again within KeepInSyncTime: one that is in the ISR and does not claim would keep the
        partition without a leader for most of the time.
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
