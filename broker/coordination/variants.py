"""The two readings of the document: as printed, and fenced.

Each method is a place where the document loses data or leaves open which broker wins. The variants
differ here, and in how a reassignment ends (:mod:`broker.coordination.leadership`), and nowhere
else. ``docs/coordination.md`` has the table: line, what it loses, the fence.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

from ackproof.broker.coordination.events import Check, CreateLeader, Op, PutIsr
from ackproof.broker.coordination.nodes import ABSENT, ANY_VERSION, Kind, Node, PartitionView
from ackproof.broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition, ZkVersion

Isr = tuple[BrokerId, ...]


class Variant(ABC):
    """The behaviour at the places where the document has a hole. ``as_printed`` goes into the
    replica's LeaderAndIsr: ``r.hw = r.leo`` at ``becomeLeader``, and states of any epoch count."""

    as_printed: bool
    staged_reassignment: bool
    """Whether ``checkReassignedReplicas`` closes the old replicas first, and switches over
    afterwards."""
    resigns_with_its_session: bool
    """Whether a leader whose session is over stops serving, before it knows of another leader."""
    leaves_isr_when_unclean: bool
    """Whether a replica that may have lost its log's end leaves the ISR before anything else."""
    sends_together: bool
    """Whether state change requests are written together with what they follow from."""
    keeps_all_kinds: bool
    """Whether ``shrink`` removes a request from a full queue only if it was put in again."""
    claims_by_first_reading: bool
    """Whether ``leaderElection`` reads the ISR, then waits, then claims, all by that one read."""
    believes_its_isr: bool
    """Whether the leader's own ISR counts, whatever the outcome of the write (``p.ISR.delete(r);
    write p.ISR to ZK``)."""
    drops_who_is_gone: bool
    """Whether a leader removes unregistered brokers from its ISR, before a record waits for
    them."""

    @abstractmethod
    def may_lead(self, me: BrokerId, view: PartitionView) -> bool:
        """Return whether ``me`` may lead (``leaderElection``): ``(r in AR) && (ISR is empty || r in
        ISR)``."""

    @abstractmethod
    def claim(self, me: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...]:
        """Return the write of ``successfully write r as the current leader of r.partition in
        ZK``."""

    @abstractmethod
    def is_newer(self, known: LeaderEpoch, received: LeaderEpoch) -> bool:
        """Return whether to follow a leader of epoch ``received`` after one of ``known``."""

    @abstractmethod
    def write_isr(
        self, tp: TopicPartition, isr: Isr, epoch: LeaderEpoch, version: ZkVersion
    ) -> tuple[Op, ...]:
        """Return the write of ``write p.ISR to ZK``, by the leader of ``epoch``."""

    @abstractmethod
    def in_sync(
        self, me: BrokerId, isr: Isr, caught_up: Collection[BrokerId], log_end: Offset
    ) -> Isr:
        """Return ``r.partition.ISR = the current set of replicas in sync with r``, after the wait.
        ``log_end`` is the leader's."""

    @abstractmethod
    def close_is_due(self, me: BrokerId, view: PartitionView) -> bool:
        """Return whether a close-replica is carried out (``we don't need to check epoch here``)."""

    @abstractmethod
    def session(self, session: int) -> int | None:
        """Return the session in which writes are made, or None for whichever there is."""

    @abstractmethod
    def as_leader(self, tp: TopicPartition) -> tuple[Op, ...]:
        """Return what else must hold for a write that only the leader may make."""


class Printed(Variant):
    """The document as printed, with its holes."""

    as_printed = True
    staged_reassignment = True
    resigns_with_its_session = False
    leaves_isr_when_unclean = False
    sends_together = False
    keeps_all_kinds = False
    claims_by_first_reading = True
    believes_its_isr = True
    drops_who_is_gone = False

    def may_lead(self, me: BrokerId, view: PartitionView) -> bool:
        """Return True for any replica if the ISR is empty, or not seen yet."""
        isr = view.isr.isr if view.isr else ()
        return me in view.assigned and (not isr or me in isr)

    def claim(self, me: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...]:  # noqa: ARG002
        """Return the claim alone. Epoch and ISR are written afterwards (``becomeLeader``)."""
        return (CreateLeader(partition=tp, epoch=NO_EPOCH),)

    def is_newer(self, known: LeaderEpoch, received: LeaderEpoch) -> bool:  # noqa: ARG002
        """Return True: whatever broker is in ``leader`` is the leader."""
        return True

    def write_isr(
        self,
        tp: TopicPartition,
        isr: Isr,
        epoch: LeaderEpoch,
        version: ZkVersion,  # noqa: ARG002
    ) -> tuple[Op, ...]:
        """Return a write that overwrites any ISR."""
        return (PutIsr(partition=tp, isr=isr, epoch=epoch, expected=ANY_VERSION),)

    def in_sync(
        self,
        me: BrokerId,
        isr: Isr,
        caught_up: Collection[BrokerId],
        log_end: Offset,  # noqa: ARG002
    ) -> Isr:
        """Return all replicas that have caught up, in the ISR or not."""
        return all_in_sync(me, isr, caught_up)

    def close_is_due(self, me: BrokerId, view: PartitionView) -> bool:  # noqa: ARG002
        """Return True: "to be able to handle delete topic/delete partition for dead brokers"."""
        return True

    def session(self, session: int) -> int | None:  # noqa: ARG002
        """Return None: a write goes out whenever there is a connection."""
        return None

    def as_leader(self, tp: TopicPartition) -> tuple[Op, ...]:  # noqa: ARG002
        """Return no condition."""
        return ()


class Fenced(Variant):
    """The document with a fence at each hole."""

    as_printed = False
    staged_reassignment = False
    resigns_with_its_session = True
    leaves_isr_when_unclean = True
    sends_together = True
    keeps_all_kinds = True
    claims_by_first_reading = False
    believes_its_isr = False
    drops_who_is_gone = True

    def may_lead(self, me: BrokerId, view: PartitionView) -> bool:
        """Return whether ``me`` may lead.

        With an empty ISR no replica may lead. Without an ISR, for a new partition, any replica may.
        The claim then creates the ISR, so that it must still not exist. A member of RAR that is in
        the ISR may lead, too. Suppose brokers 1 and 2 are in the ISR, and 2 is of RAR. Broker 1
        loses its log's end and leaves, and no member of AR is left. A partition whose replicas have
        all been sent their close-replica needs no leader.
        """
        if view.is_closing:
            return False
        if view.isr is None:
            return me in view.assigned
        return view.hosts(me) and me in view.isr.isr

    def claim(self, me: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...]:
        """Return the write of leader, epoch and ISR together, if the ISR is still the one that was
        read.

        Suppose broker 1 reads ISR {1, 2} and waits for the preferred replica. Meanwhile broker 2
        leads, continues alone with {2}, acknowledges and dies. By its old read, broker 1 would lead
        without the records of 2. Besides, if one of two brokers that read the same epoch is slow,
        both would lead in the same one.
        """
        isr: Isr = (me,)
        epoch, version = LeaderEpoch(0), ABSENT
        if view.isr is not None:
            isr, epoch = view.isr.isr, LeaderEpoch(view.isr.epoch + 1)
            version = view.isr.version
        return (
            *hosting(me, tp, view),
            CreateLeader(partition=tp, epoch=epoch),
            PutIsr(partition=tp, isr=isr, epoch=epoch, expected=version),
        )

    def is_newer(self, known: LeaderEpoch, received: LeaderEpoch) -> bool:
        """Return whether it is not older. ZooKeeper's servers lag, and the watch will fire."""
        return received >= known

    def write_isr(
        self, tp: TopicPartition, isr: Isr, epoch: LeaderEpoch, version: ZkVersion
    ) -> tuple[Op, ...]:
        """Return a write over the known ISR, valid only while this broker is the leader.

        A new leader's claim wrote the ISR, so that with this version there was none. A leader that
        was removed, and has no successor yet, would pass the check of the version alone.
        """
        assert isr, "an ISR is never empty"
        return (
            *self.as_leader(tp),
            PutIsr(partition=tp, isr=isr, epoch=epoch, expected=version),
        )

    def in_sync(
        self, me: BrokerId, isr: Isr, caught_up: Collection[BrokerId], log_end: Offset
    ) -> Isr:
        """Return the members of the ISR that have caught up.

        The others may join by their next fetch, which shows what they have by then. One that had
        caught up may have lost its log's end since. An empty log cannot lose anything: a new
        partition begins with a full ISR.
        """
        if log_end == 0:
            return all_in_sync(me, isr, caught_up)
        return tuple(broker for broker in isr if broker == me or broker in caught_up)

    def close_is_due(self, me: BrokerId, view: PartitionView) -> bool:
        """Return whether the partition must be deleted, or this broker is no replica of it and will
        be none.

        Suppose a close-replica was sent before this broker was assigned again, and is read now. It
        would delete what the broker has acknowledged since.
        """
        return view.moving_to == () or not view.hosts(me)

    def session(self, session: int) -> int | None:
        """Return the session in which the write was decided."""
        return session

    def as_leader(self, tp: TopicPartition) -> tuple[Op, ...]:
        """Return a check that ``leader`` exists. With the version of the ISR, it must be this
        broker's."""
        return (Check(node=Node(Kind.LEADER, tp), expected=ANY_VERSION),)


def all_in_sync(me: BrokerId, isr: Isr, caught_up: Collection[BrokerId]) -> Isr:
    """Return the leader, the members of the ISR that have caught up, then the others that have."""
    others = [b for b in isr if b in caught_up and b != me]
    return (me, *others, *sorted(set(caught_up) - set(others) - {me}))


def hosting(broker: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...]:
    """Return the checks that ``broker`` hosts the partition as it was read."""
    checks = [(Kind.REPLICAS, view.replicas)]
    if broker not in view.assigned:
        checks.append((Kind.REASSIGNED, view.reassigned))
    return tuple(
        Check(node=Node(kind, tp), expected=found.version) for kind, found in checks if found
    )


VARIANTS: Mapping[str, Callable[[], Variant]] = {"printed": Printed, "fenced": Fenced}
"""The variants by the values of ``ackproof.coordination.variant``."""
