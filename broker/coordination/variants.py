"""The two ways to take the document at its word: as printed, and fenced.

Each method is a place where the document loses data or leaves open who wins; the variants differ
here, and in how a reassignment ends (:mod:`broker.coordination.leadership`), and nowhere
else. ``docs/coordination.md`` has the table: line, what it loses, the fence.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

from ackproof.broker.coordination.events import Check, CreateLeader, Op, PutIsr
from ackproof.broker.coordination.nodes import ABSENT, ANY_VERSION, Kind, Node, PartitionView
from ackproof.broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition, ZkVersion

Isr = tuple[BrokerId, ...]


class Variant(ABC):
    """What is done where the document has a hole. ``as_printed`` goes into the replica's
    LeaderAndIsr: ``r.hw = r.leo`` at ``becomeLeader``, and those of any epoch are believed."""

    as_printed: bool
    staged_reassignment: bool
    """``checkReassignedReplicas`` closes the old replicas first, and switches over afterwards."""
    resigns_with_its_session: bool
    """A leader whose session is over stops serving, before it knows whether another one leads."""
    leaves_isr_when_unclean: bool
    """A replica that may have lost its log's end leaves the ISR before it does anything else."""
    sends_together: bool
    """State change requests go out in one write with what they follow from."""
    keeps_all_kinds: bool
    """``shrink`` takes no request out of a full queue that nobody has put in again."""
    claims_by_first_reading: bool
    """``leaderElection`` reads the ISR, then waits, then claims, all by that reading."""
    believes_its_isr: bool
    """``p.ISR.delete(r); write p.ISR to ZK``: the leader's own ISR counts, whatever becomes of the
    write."""
    drops_who_is_gone: bool
    """A leader takes who is not registered any more out of its ISR, before a record waits for
    it."""

    @abstractmethod
    def may_lead(self, me: BrokerId, view: PartitionView) -> bool:
        """``leaderElection``: ``(r in AR) && (ISR is empty || r in ISR)``."""

    @abstractmethod
    def claim(self, me: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...]:
        """``successfully write r as the current leader of r.partition in ZK``."""

    @abstractmethod
    def is_news(self, known: LeaderEpoch, told: LeaderEpoch) -> bool:
        """Whether to follow a leader of epoch ``told`` after one of ``known``."""

    @abstractmethod
    def write_isr(
        self, tp: TopicPartition, isr: Isr, epoch: LeaderEpoch, version: ZkVersion
    ) -> tuple[Op, ...]:
        """``write p.ISR to ZK``, by the leader of ``epoch``."""

    @abstractmethod
    def in_sync(
        self, me: BrokerId, isr: Isr, caught_up: Collection[BrokerId], log_end: Offset
    ) -> Isr:
        """``r.partition.ISR = the current set of replicas in sync with r``, after the wait.
        ``log_end`` is the leader's."""

    @abstractmethod
    def close_is_due(self, me: BrokerId, view: PartitionView) -> bool:
        """``we don't need to check epoch here``: whether a close-replica is carried out."""

    @abstractmethod
    def session(self, session: int) -> int | None:
        """In which session writes are made; None: in whichever there is."""

    @abstractmethod
    def as_leader(self, tp: TopicPartition) -> tuple[Op, ...]:
        """What else must hold for a write that only the leader may make."""


class Printed(Variant):
    """As the document prints it, its holes included."""

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
        """An ISR that is empty, or not seen yet, lets anybody lead."""
        isr = view.isr.isr if view.isr else ()
        return me in view.assigned and (not isr or me in isr)

    def claim(self, me: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...]:  # noqa: ARG002
        """The claim alone; epoch and ISR are written afterwards (``becomeLeader``)."""
        return (CreateLeader(partition=tp, epoch=NO_EPOCH),)

    def is_news(self, known: LeaderEpoch, told: LeaderEpoch) -> bool:  # noqa: ARG002
        """Whoever is in ``leader`` is the leader."""
        return True

    def write_isr(
        self,
        tp: TopicPartition,
        isr: Isr,
        epoch: LeaderEpoch,
        version: ZkVersion,  # noqa: ARG002
    ) -> tuple[Op, ...]:
        """Over whatever is there."""
        return (PutIsr(partition=tp, isr=isr, epoch=epoch, expected=ANY_VERSION),)

    def in_sync(
        self,
        me: BrokerId,
        isr: Isr,
        caught_up: Collection[BrokerId],
        log_end: Offset,  # noqa: ARG002
    ) -> Isr:
        """All that have caught up, in the ISR or not."""
        return all_in_sync(me, isr, caught_up)

    def close_is_due(self, me: BrokerId, view: PartitionView) -> bool:  # noqa: ARG002
        """Always: "to be able to handle delete topic/delete partition for dead brokers"."""
        return True

    def session(self, session: int) -> int | None:  # noqa: ARG002
        """A write goes out whenever there is a connection."""
        return None

    def as_leader(self, tp: TopicPartition) -> tuple[Op, ...]:  # noqa: ARG002
        """Nothing."""
        return ()


class Fenced(Variant):
    """The same, with a fence at each hole."""

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
        """An ISR that is empty lets nobody lead; one that is not there yet, of a new partition,
        any replica (and the claim creates it, so that it must still not be there).

        One of RAR that is in the ISR may lead, too: 1 and 2 are in the ISR, 2 of RAR; 1 loses its
        log's end, leaves, and nobody of AR is left. A partition whose replicas have all been sent
        their close-replica needs no leader.
        """
        if view.is_closing:
            return False
        if view.isr is None:
            return me in view.assigned
        return view.hosts(me) and me in view.isr.isr

    def claim(self, me: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...]:
        """Leader, epoch and ISR in one, if the ISR is still the one that was read.

        1 reads ISR {1, 2} and waits for the preferred replica; meanwhile 2 leads, goes on alone
        with {2}, acknowledges and dies. By its old reading 1 would lead without what 2 has. And
        two that read one epoch, the one slow, would lead in the same one.
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

    def is_news(self, known: LeaderEpoch, told: LeaderEpoch) -> bool:
        """Not if it is older: ZooKeeper's servers lag, and the watch will tell."""
        return told >= known

    def write_isr(
        self, tp: TopicPartition, isr: Isr, epoch: LeaderEpoch, version: ZkVersion
    ) -> tuple[Op, ...]:
        """Over what this leader knows to be there, and while it is the leader.

        A new leader's claim wrote the ISR, so that with this version there was none. A leader that
        was removed, with nobody after it yet, would pass the check of the version alone.
        """
        assert isr, "an ISR is never empty"
        return (
            *self.as_leader(tp),
            PutIsr(partition=tp, isr=isr, epoch=epoch, expected=version),
        )

    def in_sync(
        self, me: BrokerId, isr: Isr, caught_up: Collection[BrokerId], log_end: Offset
    ) -> Isr:
        """Those of the ISR that have caught up. The others may join by their next fetch, which
        says what they have by then: one that had caught up may have lost its log's end since.

        Of a log that is empty nothing can be lost: the ISR of a new partition begins whole.
        """
        if log_end == 0:
            return all_in_sync(me, isr, caught_up)
        return tuple(broker for broker in isr if broker == me or broker in caught_up)

    def close_is_due(self, me: BrokerId, view: PartitionView) -> bool:
        """If the partition is to be deleted, or this broker is no replica of it and will be none.

        A close-replica that was put before this broker was assigned anew, read now, would delete
        what it has acknowledged since.
        """
        return view.moving_to == () or not view.hosts(me)

    def session(self, session: int) -> int | None:
        """The one in which it was decided."""
        return session

    def as_leader(self, tp: TopicPartition) -> tuple[Op, ...]:
        """``leader`` is there. Together with the version of the ISR: and it is this one's."""
        return (Check(node=Node(Kind.LEADER, tp), expected=ANY_VERSION),)


def all_in_sync(me: BrokerId, isr: Isr, caught_up: Collection[BrokerId]) -> Isr:
    """The leader, those of the ISR that have caught up, then the others that have."""
    others = [b for b in isr if b in caught_up and b != me]
    return (me, *others, *sorted(set(caught_up) - set(others) - {me}))


def hosting(broker: BrokerId, tp: TopicPartition, view: PartitionView) -> tuple[Op, ...]:
    """That ``broker`` hosts the partition as it was read."""
    checks = [(Kind.REPLICAS, view.replicas)]
    if broker not in view.assigned:
        checks.append((Kind.REASSIGNED, view.reassigned))
    return tuple(
        Check(node=Node(kind, tp), expected=found.version) for kind, found in checks if found
    )


VARIANTS: Mapping[str, Callable[[], Variant]] = {"printed": Printed, "fenced": Fenced}
"""By the values of ``ackproof.coordination.variant``."""
