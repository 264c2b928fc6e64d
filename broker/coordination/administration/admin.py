"""The admin commands: create and delete topics, add and remove partitions (seed 001, "Admin
commands"), and what Kafka's admin APIs ask for besides.

Each is a generator of :mod:`broker.coordination.administration.admin_steps`. As printed they are a
line at a time; fenced, what belongs together is one write. In both, a step is done for all
partitions of a topic before the next step: a thousand partitions then take about as long as one.
"""

import enum
from collections.abc import Generator, Iterable, Mapping

from ackproof.broker.coordination.administration.admin_steps import (
    AdminWrite,
    AdminWritten,
    Answer,
    AwaitChange,
    ReadNodes,
    ReadReassigned,
    ReadTopic,
    Step,
    TopicNodes,
    Waited,
)
from ackproof.broker.coordination.administration.admin_writes import AdminWrites, Names, Replicas
from ackproof.broker.coordination.administration.hold import Hold
from ackproof.broker.coordination.events import (
    Check,
    CreateTopic,
    Delete,
    DeletePartition,
    DeleteTopic,
    Op,
    PutAssigned,
    Result,
)
from ackproof.broker.coordination.nodes import (
    ADMIN,
    ADMIN_EPOCH,
    ANY_VERSION,
    Change,
    Kind,
    Node,
    PartitionView,
    StateChangeRequest,
)
from ackproof.broker.types import TopicPartition


class Outcome(enum.Enum):
    """How a command ended."""

    DONE = "done"
    EXISTS = "Topic topic exists with live partitions"
    UNKNOWN = "there is no such topic or partition"
    TIMED_OUT = "the state change requests were not consumed in time"
    QUEUE_FULL = "FollowerStateChangeQueueFull"
    CONFLICT = "something else was written meanwhile"


Command = Generator[Step, Answer, Outcome]

COMPLETED_AT_ONCE = 1_000
"""Partitions. A write of ZooKeeper's has at most 1 MB (``jute.maxbuffer``)."""


class Admin(AdminWrites):
    """The commands, under one variant."""

    # --- topics -------------------------------------------------------------------------------

    def create_topic(self, topic: str, assignment: Mapping[int, Replicas]) -> Command:
        """``createTopic``: replicas by partition; nobody leads before all of them are started.

        Fenced, the clean-up comes after the topic is taken: of two that create it at once, each
        took the other's beginning for a failed attempt, and removed it. Brokers had read its id by
        then, and others the next one.
        """
        if not self.fenced:
            return (yield from self._create_as_printed(topic, assignment))
        nodes: TopicNodes = yield ReadTopic(topic=topic)
        if nodes.live:
            return Outcome.EXISTS
        created: AdminWritten = yield AdminWrite(
            ops=(CreateTopic(topic=topic, expected=nodes.version),)
        )
        if created.result is not Result.DONE:
            return Outcome.EXISTS if created.result is Result.REFUSED else Outcome.CONFLICT
        nodes = yield ReadTopic(topic=topic)
        if nodes.live:
            return Outcome.EXISTS
        hold = Hold(topic, nodes)
        for partition, view in sorted(nodes.partitions.items()):
            if not (yield from self._clean(TopicPartition(topic, partition), view, hold)):
                return Outcome.CONFLICT
        return (yield from self._add_partitions(topic, assignment, hold))

    def _create_as_printed(self, topic: str, assignment: Mapping[int, Replicas]) -> Command:
        if not (yield from self._clean_failed_attempts(topic)):
            return Outcome.EXISTS
        created: AdminWritten = yield AdminWrite(ops=(CreateTopic(topic=topic),))
        if created.result is not Result.DONE:
            nodes: TopicNodes = yield ReadTopic(topic=topic)
            if nodes.live or created.result is Result.REFUSED:
                return Outcome.EXISTS
        return (yield from self._add_partitions(topic, assignment, None))

    def _clean_failed_attempts(self, topic: str) -> Generator[Step, Answer, bool]:
        """``cleanFailedTopicCreationAttempts``; False: a topic that is gone over has live
        partitions.

        It goes over every topic that is in ``partitions_reassigned``, and takes the reassignments
        of live partitions of other topics back.
        """
        topics: tuple[str, ...] = yield ReadReassigned()
        for name in topics:
            nodes: TopicNodes = yield ReadTopic(topic=name)
            begun = {p: v for p, v in nodes.partitions.items() if v.reassigned is not None}
            live = [p for p, view in begun.items() if view.replicas is not None]
            for partition in live:
                yield AdminWrite(ops=(_delete(Kind.REASSIGNED, name, partition),))
            if live:
                return False
            for partition, view in sorted(begun.items()):
                yield from self._clean(TopicPartition(name, partition), view, None)
            if name == topic and not nodes.live:
                yield AdminWrite(ops=(DeleteTopic(topic=topic),))
        return True

    def _clean(
        self, tp: TopicPartition, view: PartitionView, hold: Hold | None
    ) -> Generator[Step, Answer, bool]:
        """Take back what was begun of a partition; False: it was refused."""
        moving_to = view.moving_to or ()
        closes = [(broker, _request(Change.CLOSE_REPLICA, tp)) for broker in moving_to]
        gone: tuple[Op, ...] = (DeletePartition(partition=tp),)
        if view.reassigned is not None:
            version = view.reassigned.version if hold else ANY_VERSION
            gone = (Delete(node=Node(Kind.REASSIGNED, tp), expected=version), *gone)
        return (yield from self.send(closes, gone, hold)) is not None

    def delete_topic(self, topic: str) -> Command:
        """``deleteTopic``: all its partitions, then its path."""
        nodes: TopicNodes = yield ReadTopic(topic=topic)
        if not nodes.exists:
            return Outcome.UNKNOWN
        if self.fenced:
            return (yield from self._delete_topic(topic, nodes))
        outcome = yield from self._delete_partitions(topic, sorted(nodes.partitions))
        if outcome is Outcome.DONE:
            yield AdminWrite(ops=(DeleteTopic(topic=topic),))
        return outcome

    def _delete_topic(self, topic: str, nodes: TopicNodes) -> Command:
        """Fenced. Whoever writes about the topic meanwhile has it looked at again: a partition that
        was added behind the first look would be the topic's only one, and nobody's to delete. One
        of that name which is made later, and has another id, is let be."""
        topic_id = nodes.topic_id
        while nodes.exists and nodes.topic_id == topic_id:
            hold = Hold(topic, nodes)
            outcome = yield from self._delete_all(topic, nodes, hold)
            if outcome is Outcome.TIMED_OUT:
                return outcome
            if outcome is Outcome.DONE:
                gone = DeleteTopic(topic=topic, expected=hold.version)
                yield AdminWrite(ops=(gone,))
            else:
                waited: Waited = yield AwaitChange(brokers=(), partition=TopicPartition(topic, 0))
                if waited is Waited.TIME_IS_UP:
                    return Outcome.TIMED_OUT
            nodes = yield ReadTopic(topic=topic)
        return Outcome.DONE

    def _delete_all(self, topic: str, nodes: TopicNodes, hold: Hold) -> Command:
        """CONFLICT: somebody else has written about the topic."""
        live = {}
        for partition, view in sorted(nodes.partitions.items()):
            tp = TopicPartition(topic, partition)
            if view.replicas is None:
                if not (yield from self._clean(tp, view, hold)):
                    return Outcome.CONFLICT
                continue
            live[tp] = view
            if (yield from self._ask_for_deletion(tp, view, hold)) is not Outcome.DONE:
                return Outcome.CONFLICT
        for tp, view in live.items():
            if not (yield from self.closed(tp, _brokers(view))):
                return Outcome.TIMED_OUT
            gone = _delete(Kind.REASSIGNED, topic, tp.partition)
            removed = yield from self.write(DeletePartition(partition=tp), gone, hold=hold)
            if removed is not Result.DONE:
                return Outcome.CONFLICT
        return Outcome.DONE

    # --- partitions ---------------------------------------------------------------------------

    def add_partitions(self, topic: str, assignment: Mapping[int, Replicas]) -> Command:
        """``addPartition``, for each of ``assignment``: reassigned path, start-replica to all, wait
        until these are consumed, ``replicas`` path.

        Fenced, CONFLICT where the topic is being deleted, or somebody else writes about it.
        """
        hold = None
        if self.fenced:
            nodes: TopicNodes = yield ReadTopic(topic=topic)
            if not nodes.exists:
                return Outcome.UNKNOWN
            if any(view.moving_to == () for view in nodes.partitions.values()):
                return Outcome.CONFLICT
            hold = Hold(topic, nodes)
        return (yield from self._add_partitions(topic, assignment, hold))

    def _add_partitions(
        self, topic: str, assignment: Mapping[int, Replicas], hold: Hold | None
    ) -> Command:
        names: Names = {}
        for partition, replicas in sorted(assignment.items()):
            tp = TopicPartition(topic, partition)
            put = PutAssigned(
                node=Node(Kind.REASSIGNED, tp), replicas=replicas, expected=self.absent
            )
            starts = [(broker, _request(Change.START_REPLICA, tp)) for broker in replicas]
            sent = yield from self.send(starts, (put,), hold)
            if sent is None:
                return Outcome.QUEUE_FULL
            for broker, queued in sent.items():
                names.setdefault(broker, set()).update(queued)
        for partition, replicas in sorted(assignment.items()):
            tp = TopicPartition(topic, partition)
            if not (yield from self.consumed(tp, replicas, names)):
                return Outcome.TIMED_OUT
        return (yield from self._complete(topic, assignment, hold))

    def _complete(
        self, topic: str, assignment: Mapping[int, Replicas], hold: Hold | None
    ) -> Command:
        """``replicas`` of partitions whose replicas are all started.

        Fenced, of many at once. With the first of three there and the creator gone, the topic has a
        live partition: nobody takes the others for what a failed attempt has left, and
        ``__consumer_offsets`` had groups that nobody coordinated.
        """
        ops: list[Op] = []
        for partition, replicas in sorted(assignment.items()):
            node = Node(Kind.REPLICAS, TopicPartition(topic, partition))
            ops.append(PutAssigned(node=node, replicas=replicas, expected=self.absent))
            ops.append(_delete(Kind.REASSIGNED, topic, partition))
        for first in range(0, len(ops), 2 * COMPLETED_AT_ONCE):
            some = ops[first : first + 2 * COMPLETED_AT_ONCE]
            if (yield from self.write(*some, hold=hold)) is not Result.DONE:
                return Outcome.CONFLICT
        return Outcome.DONE

    def _delete_partitions(self, topic: str, partitions: Iterable[int]) -> Command:
        """``deletePartition``, as printed, for each: an empty reassigned path, wait until the
        leader's close-replicas are consumed, delete the paths."""
        deleting = sorted(partitions)
        nodes: TopicNodes = yield ReadTopic(topic=topic)
        if any(partition not in nodes.partitions for partition in deleting):
            return Outcome.UNKNOWN
        for partition in deleting:
            yield from self._ask_for_deletion(
                TopicPartition(topic, partition), nodes.partitions[partition], None
            )
        for partition in deleting:
            tp = TopicPartition(topic, partition)
            if not (yield from self.closed(tp, _brokers(nodes.partitions[partition]))):
                return Outcome.TIMED_OUT
            gone = _delete(Kind.REASSIGNED, topic, partition)
            yield from self.write(DeletePartition(partition=tp), gone)
        return Outcome.DONE

    def _ask_for_deletion(
        self, tp: TopicPartition, view: PartitionView, hold: Hold | None
    ) -> Command:
        if view.moving_to == ():
            return Outcome.DONE
        return (yield from self._replace_reassigned(tp, view, (), hold))

    # --- reassignments and elections ------------------------------------------------------------

    def reassign(self, tp: TopicPartition, target: Replicas) -> Command:
        """Move a partition to ``target``, in place of where it is moving to. Done when it is asked
        for: the leader does the rest."""
        view = yield from _view(tp)
        if view.replicas is None or view.moving_to == ():
            return Outcome.UNKNOWN
        return (yield from self._replace_reassigned(tp, view, target))

    def cancel_reassignment(self, tp: TopicPartition) -> Command:
        """Take a reassignment back (KIP-455), by one to AR; the document has no such thing.
        CONFLICT while nobody of AR is in the ISR. As printed its new replicas stay where they are.
        """
        view = yield from _view(tp)
        if view.replicas is None or not view.moving_to:
            return Outcome.UNKNOWN
        assert view.reassigned is not None
        if view.isr is None or not set(view.isr.isr) & set(view.assigned):
            return Outcome.CONFLICT
        if self.fenced:
            return (yield from self._replace_reassigned(tp, view, view.assigned))
        written: AdminWritten = yield AdminWrite(
            ops=(
                Check(node=Node(Kind.ISR, tp), expected=view.isr.version),
                Delete(node=Node(Kind.REASSIGNED, tp), expected=view.reassigned.version),
            )
        )
        return Outcome.DONE if written.result is Result.DONE else Outcome.CONFLICT

    def elect_preferred(self, tp: TopicPartition) -> Command:
        """``checkLoadBalancing``, asked for: remove a leader that is not the preferred replica, if
        that is in the ISR. CONFLICT: it is not, or leads already."""
        view = yield from _view(tp)
        if view.replicas is None:
            return Outcome.UNKNOWN
        preferred = view.assigned[0]
        leads = view.leader is not None and view.leader.broker == preferred
        if view.leader is None or view.isr is None or leads or preferred not in view.isr.isr:
            return Outcome.CONFLICT
        written: AdminWritten = yield AdminWrite(
            ops=(
                Check(node=Node(Kind.ISR, tp), expected=view.isr.version),
                Delete(node=Node(Kind.LEADER, tp), expected=ANY_VERSION),
            )
        )
        return Outcome.DONE if written.result is Result.DONE else Outcome.CONFLICT

    def _replace_reassigned(
        self,
        tp: TopicPartition,
        view: PartitionView,
        target: Replicas,
        hold: Hold | None = None,
    ) -> Command:
        """Anew, in place of what is there: leaders listen to children and not to values, and a
        version above 0 says that close-replicas are out.

        ``replicas`` is written once more, as it is. A leader completes the move to 2 just when it
        is replaced by one to 3: the new node has version 0 as the old one had, and it would be
        removed, and the partition be on 2. By the same version nobody is missing in ``removing``
        who was named since ``view`` was read: ``replicas`` is read before
        ``partitions_reassigned``.
        """
        node = Node(Kind.REASSIGNED, tp)
        old = view.reassigned
        removing = _removing(view, target) if self.fenced else ()
        put = PutAssigned(node=node, replicas=target, removing=removing, expected=self.absent)
        ops: tuple[Op, ...] = (put,)
        if old is not None and self.fenced:
            ops = (Delete(node=node, expected=old.version), *ops)
        if target and view.isr is not None and self.fenced:
            # One of the ISR must be left that hosts the partition, and so may lead.
            if not set(view.isr.isr) & {*view.assigned, *target}:
                return Outcome.CONFLICT
            ops = (Check(node=Node(Kind.ISR, tp), expected=view.isr.version), *ops)
        if view.replicas is not None and self.fenced:
            replicas = Node(Kind.REPLICAS, tp)
            version = view.replicas.version
            ops += (PutAssigned(node=replicas, replicas=view.assigned, expected=version),)
        result = yield from self.write_together(ops, hold)
        return Outcome.DONE if result is Result.DONE else Outcome.CONFLICT


def _view(tp: TopicPartition) -> Generator[Step, Answer, PartitionView]:
    view: PartitionView = yield ReadNodes(partition=tp)
    return view


def _brokers(view: PartitionView) -> Replicas:
    isr = view.isr.isr if view.isr else ()
    moving = (*(view.moving_to or ()), *view.removing)
    return tuple(dict.fromkeys((*view.assigned, *moving, *isr)))


def _removing(view: PartitionView, target: Replicas) -> Replicas:
    """Whom RAR named, or a former one, may have been started, whatever its leader was told of that:
    1 has 3 start a replica, the order is replaced, and 1 gives way. 3 is in neither AR nor the new
    RAR, nor in the ISR yet: its replica would be nobody's to close.

    So it is written down with what names it no more (KIP-455 has it in the same node), and not with
    the start: 3 may have been started by its own reading of RAR, when it began.
    """
    named = dict.fromkeys((*view.removing, *(view.moving_to or ())))
    return tuple(broker for broker in named if broker not in {*view.assigned, *target})


def _request(change: Change, tp: TopicPartition) -> StateChangeRequest:
    return StateChangeRequest(change=change, partition=tp, leader=ADMIN, epoch=ADMIN_EPOCH)


def _delete(kind: Kind, topic: str, partition: int) -> Delete:
    return Delete(node=Node(kind, TopicPartition(topic, partition)), expected=ANY_VERSION)
