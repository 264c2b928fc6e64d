"""One partition on a broker that hosts it, and its leadership ("Leader election", "Leader change",
"Become follower", the beginning of "Become leader").

Every decision is made on a view that was just read. After a watch fires, a write is rejected, or
its outcome is unknown, the partition is read again. At most one read or write of a partition is
pending. Events that arrive meanwhile are processed after it.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from ackproof.broker.coordination.context import NEVER, NO_SESSION, Context
from ackproof.broker.coordination.events import (
    Assume,
    Check,
    Delete,
    Enqueue,
    Op,
    PutIsr,
    Result,
    SetLeader,
    Tell,
    WatchProgress,
    Written,
)
from ackproof.broker.coordination.leadership import RETRY_MS, Leading
from ackproof.broker.coordination.nodes import (
    ANY_VERSION,
    Change,
    Kind,
    LeaderNode,
    Node,
    PartitionView,
)
from ackproof.broker.coordination.nodes import StateChangeRequest as Request
from ackproof.broker.coordination.queues import Requests, Sender
from ackproof.broker.coordination.variants import hosting
from ackproof.broker.replication.events import LeaderAndIsr, Resigned
from ackproof.broker.types import (
    NO_CONTROLLER_EPOCH,
    NO_EPOCH,
    BrokerId,
    LeaderEpoch,
    Millis,
    TopicPartition,
    ZkVersion,
)


@dataclass(frozen=True, slots=True)
class _Wait:
    """The wait for PreferredReplicaTime before a claim."""

    until: Millis
    view: PartitionView


class HostedPartition:
    """A partition of which this broker has a started replica.

    ``topic_id`` is the topic of the partition as long as it is hosted. If the topic is created
    again it has another id, and ``another`` is called. ``suspect`` says that its log may have lost
    its end since the last stop.
    """

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: uuid.UUID | None,
        context: Context,
        sender: Sender,
        another: Callable[[TopicPartition, PartitionView], None],
        *,
        suspect: bool,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.context = context
        self.leading: Leading | None = None
        self.seen = False
        """Whether a view was acted on since the session began."""
        self.retry_at = Millis(0)
        """The time until which the reassignment is left alone, because a request about it was
        rejected."""
        self.give_back_after = Millis(0)
        """The time until which the leadership is not offered to the preferred replica again."""
        self._sender = sender
        self._another = another
        self.is_suspect = suspect and context.variant.leaves_isr_when_unclean
        """Whether its log may have lost its end while it may be in the ISR."""
        self._refused_until = NEVER
        """The time until which it leads nothing, because its role was refused; NEVER if it
        was not."""
        self._known_epoch: LeaderEpoch = NO_EPOCH
        self._following: tuple[BrokerId, LeaderEpoch] | None = None
        self._waiting: _Wait | None = None
        self._claimed_isr: tuple[BrokerId, ...] = ()
        self._gave_up: LeaderEpoch | None = None
        self._busy = self._again = self._closed = False

    # --- one thing at a time -------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a read or write of it is pending."""
        return self._busy

    @property
    def holds_leader(self) -> bool:
        """Whether its ``leader`` is this broker's, or may be."""
        return self.leading is not None or self._gave_up is not None

    def look(self) -> None:
        """Read the partition and act on it, as soon as no other operation is pending."""
        if self._busy:
            self._again = True
        else:
            self._busy = True
            self.context.outbox.read(self.tp, self._partition_read)

    def write(self, ops: tuple[Op, ...], then: Callable[[Written], None]) -> None:
        """Have ``ops`` written. Nothing else happens to the partition until the outcome is
        known."""
        self._busy = True
        self.context.write(ops, self._freeing(then))

    def send(
        self,
        requests: Requests,
        with_ops: tuple[Op, ...],
        then: Callable[[Written], None],
        before: Callable[[], None] = lambda: None,
    ) -> None:
        """Do ``sendStateChange``; see :meth:`Sender.send`."""
        self._busy = True
        self._sender.send(requests, with_ops, self._freeing(then), before)

    def _freeing(self, then: Callable[[Written], None]) -> Callable[[Written], None]:
        def done(event: Written) -> None:
            if self._closed:
                return
            self._busy = False
            then(event)
            self._continue()

        return done

    def _continue(self) -> None:
        if self._busy:
            return
        if self._again:
            self._again = False
            self.look()
        elif self.leading is not None:
            self.leading.act()

    def begin(self, view: PartitionView) -> None:
        """Act on the view that was just read for it."""
        self._busy = True
        self._partition_read(view)

    # --- events --------------------------------------------------------------------------------

    def _partition_read(self, view: PartitionView) -> None:
        """Act on a view."""
        if self._closed:
            return
        self._busy = False
        if None not in (self.topic_id, view.topic_id) and self.topic_id != view.topic_id:
            # Its close-replica is stale if it is read after the next topic of that name was
            # created. A broker that fetches by the former id is rejected, and never joins the ISR.
            self._another(self.tp, view)
        else:
            self._reconcile(view)
            self.seen = self.seen or not self.is_suspect
            self._continue()

    def session_over(self) -> None:
        """End the session: our ephemeral nodes are gone, and other brokers may lead already.

        The printed leader continues. The document has a session expiration listener, but does not
        say what it does. The leader acknowledges records that its successor does not have.
        """
        self._busy = self._again = self.seen = False
        self._waiting = self._gave_up = None
        self._refused_until = NEVER
        if self.context.variant.resigns_with_its_session:
            self._stop_leading()

    def refused(self, epoch: LeaderEpoch) -> None:
        """Give up a role that the replica could not take. Others may lead, and the role is tried
        again, because the disk may allow later what it refuses now."""
        self._following = self._waiting = None
        if self.context.session != NO_SESSION:  # else the next one begins with a read
            self._refused_until = Millis(self.context.now + RETRY_MS)
        if self.leading is not None and self.leading.epoch == epoch:
            self.give_up()
            self.look()

    def stop(self) -> None:
        """Give up the leadership and make no further claims, because the broker will stop."""
        self._waiting = None
        if self.leading is not None:
            self.give_up()
            self.look()

    def close(self) -> None:
        """End the partition, because the replica will be deleted. Pending operations no longer
        matter."""
        self._stop_leading()
        self._waiting = None
        self._closed = True

    def tick(self) -> None:
        """Check the time of a waiting claim, of a new leader's wait, and of a refused role."""
        if self._refused_until and self.context.now >= self._refused_until:
            self._refused_until = NEVER
            self.look()
        if self._waiting is not None and self.context.now >= self._waiting.until:
            self._claim()
        if self.leading is not None:
            self.leading.act()

    @property
    def next_tick(self) -> Millis | None:
        """The next time at which time alone makes a difference."""
        if self._refused_until:
            return self._refused_until
        if self._waiting is not None:
            return None if self._busy else self._waiting.until
        return self.leading.next_tick if self.leading is not None else None

    # --- who leads -----------------------------------------------------------------------------

    def _reconcile(self, view: PartitionView) -> None:
        if self.is_suspect and self._leave_isr(view):
            return
        node = view.leader
        if node is None:
            self._leaderless(view)
        elif node.broker == self.context.me:
            self._led_by_us(view, node)
        else:
            self._led_by_another(view, node)

    def _led_by_us(self, view: PartitionView, node: LeaderNode) -> None:
        """Act on a ``leader`` that names this broker. It is of this session, or of an earlier one,
        whose node will vanish with it (the watch will fire). A broker is never its own follower."""
        if node.owner != self.context.session:
            if self.context.variant.resigns_with_its_session:
                self._stop_leading()
        elif self._gave_up == node.epoch or self._refused_until or self.context.stopping:
            self._remove_leader(node)
        elif self.leading is not None and self.leading.epoch == node.epoch:
            self.leading.reconcile(view)
        elif node.epoch == NO_EPOCH:
            self._take_epoch(view)
        elif view.isr is None:
            self._remove_leader(node)
        else:
            self._lead(node.epoch, view.isr.isr, view.isr.version, view)

    def _remove_leader(self, node: LeaderNode) -> None:
        self._gave_up = node.epoch
        if self.leading is not None:
            self._stop_leading()
        self.write((Delete(node=Node(Kind.LEADER, self.tp), expected=ANY_VERSION),), self._looked)

    def _looked(self, _event: Written) -> None:
        self.look()

    def _led_by_another(self, view: PartitionView, node: LeaderNode) -> None:
        """Do ``becomeFollower``, "if this broker is not already the follower of the current
        leader".

        A claim without its epoch is not followed yet, because the epoch will come (a value change).
        """
        self._waiting = self._gave_up = None
        if node.epoch == NO_EPOCH or not view.hosts(self.context.me):
            return
        if not self.context.variant.is_newer(self._known_epoch, node.epoch):
            return
        if self._following == (node.broker, node.epoch):
            return
        self._stop_leading()
        self._following = (node.broker, node.epoch)
        self._known_epoch = node.epoch
        isr = view.isr
        self.assume(
            leader=node.broker,
            epoch=node.epoch,
            isr=isr.isr if isr else (),
            version=isr.version if isr else ZkVersion(0),
            replicas=view.all_replicas,
        )

    def _leaderless(self, view: PartitionView) -> None:
        """Do ``leaderElection``."""
        context = self.context
        self._gave_up = None
        self._following = None
        if context.variant.resigns_with_its_session:
            self._stop_leading()
        able = not self._refused_until and not context.stopping
        if not able or not context.variant.may_lead(context.me, view):
            self._waiting = None
            return
        if self._waiting is None:
            preferred = view.assigned[0] == context.me
            patience = 0 if preferred else context.settings.preferred_replica_wait_ms
            self._waiting = _Wait(Millis(context.now + patience), view)
        elif not context.variant.claims_by_first_reading:
            self._waiting = _Wait(self._waiting.until, view)
        if context.now >= self._waiting.until:
            self._claim()

    def _claim(self) -> None:
        if self._waiting is None or self._busy:
            return
        view, self._waiting = self._waiting.view, None
        self._claimed_isr = view.isr.isr if view.isr else ()
        ops = self.context.variant.claim(self.context.me, self.tp, view)

        def written(event: Written) -> None:
            version = event.versions.get(Node(Kind.ISR, self.tp))
            put = next((op for op in ops if isinstance(op, PutIsr)), None)
            # Without an ISR the partition may be another one. If the topic was deleted and created
            # again with the same replicas since it was read, the former topic's log would lead.
            known = event.result is Result.DONE and view.isr is not None
            if known and put is not None and version is not None:
                self._lead(put.epoch, put.isr, version, view)
            else:
                self.look()

        self.write(ops, written)

    def _take_epoch(self, view: PartitionView) -> None:
        """Do ``getNewEpoch()``, as printed: read, add one, write to ``leader`` and to ``ISR``, with
        the ISR that was read before the claim."""
        epoch = LeaderEpoch(view.isr.epoch + 1 if view.isr else 0)
        self.context.write((SetLeader(partition=self.tp, epoch=epoch),))
        self.context.write(
            self.context.variant.write_isr(self.tp, self._claimed_isr, epoch, ANY_VERSION)
        )
        self._lead(epoch, self._claimed_isr, ZkVersion(0), view)

    def _lead(
        self, epoch: LeaderEpoch, isr: tuple[BrokerId, ...], version: ZkVersion, view: PartitionView
    ) -> None:
        self._stop_leading()
        self._waiting = self._following = None
        self._known_epoch = epoch
        self.leading = Leading(self, epoch=epoch, isr=isr, version=version, view=view)
        self.leading.begin()

    def give_up(self) -> None:
        """Stop serving. ``leader`` still belongs to this broker and must be deleted."""
        if self.leading is not None:
            self._gave_up = self.leading.epoch
            self._stop_leading()

    def _stop_leading(self) -> None:
        if self.leading is None:
            return
        resigned = Resigned(leader_epoch=self.leading.epoch)
        self.leading = None
        self.context.outbox.put(
            WatchProgress(partition=self.tp, wanted=False),
            Tell(partition=self.tp, event=resigned),
        )

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
        state = LeaderAndIsr(
            controller_epoch=NO_CONTROLLER_EPOCH,
            leader=leader,
            leader_epoch=epoch,
            isr=isr,
            replicas=replicas,
            zk_version=version,
            now=self.context.now,
            serves=serves,
            as_printed=self.context.variant.as_printed,
        )
        self.context.outbox.put(Assume(partition=self.tp, state=state, topic_id=self.topic_id))

    # --- after an unclean start ----------------------------------------------------------------

    def _leave_isr(self, view: PartitionView) -> bool:
        """Leave the ISR first, if necessary. Return whether that was necessary."""
        ops = leaving(self.context.me, self.tp, view)
        if ops is None:
            self.is_suspect = False
            return False

        def left(event: Written) -> None:
            if event.result is Result.DONE:
                self.is_suspect = False
            self.look()

        self.write(ops, left)
        return True


# --- after an unclean stop ------------------------------------------------------------------------
#
# The exit from the ISR after an unclean stop, by a replica that may have lost its log's end
# (fenced).


def leaving(me: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...] | None:
    """Return the write by which ``me`` leaves the ISR. None if there is no ISR to leave, or no
    replica would be left that may lead.

    Suppose broker 1 is in the ISR, loses power and with it records that it had acknowledged, and is
    back before its session is over. As the preferred replica it would lead, or it would be elected
    later, without the records of the others.

    If it is not in the ISR, it writes the ISR unchanged. A leader that saw it catch up before may
    be about to add it, and must be rejected.
    """
    isr = view.isr
    left = tuple(broker for broker in isr.isr if broker != me) if isr else ()
    heir = next((broker for broker in left if view.hosts(broker)), None)
    if isr is None or heir is None:
        return None
    ops: list[Op] = [
        *hosting(heir, tp, view),
        PutIsr(partition=tp, isr=left, epoch=isr.epoch, expected=isr.version),
    ]
    if view.leader is not None and view.leader.broker != me:
        request = Request(change=Change.ISR_CHANGED, partition=tp, leader=me, epoch=isr.epoch)
        ops.append(Check(node=Node(Kind.LEADER, tp), expected=ANY_VERSION))
        ops.append(Enqueue(broker=view.leader.broker, request=request))
    return tuple(ops)
