"""The admin commands: create and delete topics, add and remove partitions (*Design V2*, "Admin
commands"), and the other operations of Kafka's admin APIs. Any broker runs them.
"""

import enum
import uuid
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ackproof.broker.coordination.events import (
    Check,
    CreateTopic,
    Delete,
    DeletePartition,
    DeleteTopic,
    Dequeue,
    Enqueue,
    Fault,
    Lifecycle,
    Op,
    PutAssigned,
    Refused,
    Result,
    Stage,
    TakeTopic,
)
from ackproof.broker.coordination.nodes import (
    ABSENT,
    ADMIN,
    ADMIN_EPOCH,
    ANY_VERSION,
    Change,
    Kind,
    Node,
    PartitionView,
    QueuedRequest,
    StateChangeRequest,
)
from ackproof.broker.coordination.queues import superfluous
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion

# --- steps ----------------------------------------------------------------------------------------
#
# The steps of the admin commands (*Design V2*, "Admin commands").
#
# A command is a generator. It yields a step, is sent the answer,
# and returns its outcome. It has no clock and no ZooKeeper of its own. Any broker can run any
# command, several at once, and an interrupted command can be run again.
#
# ==================  ===========================================================================
# step                answer sent back
# ==================  ===========================================================================
# ``ReadTopic``       :class:`TopicNodes`
# ``ReadNodes``       the partition's :class:`PartitionView`
# ``ReadReassigned``  the topics in ``/brokers/partitions_reassigned``: ``tuple[str, ...]``
# ``ReadQueues``      the entries by broker: ``Mapping[BrokerId, tuple[QueuedRequest, ...]]``
# ``AdminWrite``      :class:`AdminWritten`
# ``AwaitChange``     :class:`Waited`
# ``Lifecycle``,      None: they must be logged
# ``Refused``
# ==================  ===========================================================================
#
# Reads are tried again while a connection is possible. The runner of the command ends it when its
# client's time is up.


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopic:
    """Read ``/brokers/topics/T`` and ``/brokers/partitions_reassigned/T`` with all below."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicNodes:
    """The answer to :class:`ReadTopic`.

    ``version`` and ``topic_id`` are those of ``/brokers/topics/T``, read before the rest; ABSENT
    and None if it does not exist. ``partitions`` has every partition that has a node below either
    path, by number.
    """

    version: ZkVersion
    topic_id: uuid.UUID | None
    partitions: Mapping[int, PartitionView]

    @property
    def exists(self) -> bool:
        """Whether ``/brokers/topics/T`` exists."""
        return self.version != ABSENT

    @property
    def live(self) -> bool:
        """Whether it has a partition."""
        return any(view.replicas is not None for view in self.partitions.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadNodes:
    """Read the nodes of one partition, because each of a thousand is waited for separately."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReassigned:
    """List ``/brokers/partitions_reassigned``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadQueues:
    """Read these brokers' queues. A queue that does not exist counts as empty."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminWrite:
    """Carry out all of ``ops`` or none, in whichever session there is."""

    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminWritten:
    """The answer to :class:`AdminWrite`. When DONE, ``queued`` has the names of its Enqueues, in
    their order."""

    result: Result
    queued: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitChange:
    """Wait until a child of one of these brokers' queues or the partition's
    ``partitions_reassigned`` changes, or the command's time is up
    (``waitTillStateChangeRequestConsumed``).

    Changes since the command last read the queues count.
    """

    brokers: tuple[BrokerId, ...]
    partition: TopicPartition


class Waited(enum.Enum):
    """The answer to :class:`AwaitChange`."""

    CHANGED = enum.auto()
    NOTHING_SEEN = enum.auto()
    """No change was seen yet. A regular read finds what a watch has missed."""
    TIME_IS_UP = enum.auto()


Step: TypeAlias = (
    ReadTopic
    | ReadNodes
    | ReadReassigned
    | ReadQueues
    | AdminWrite
    | AwaitChange
    | Lifecycle
    | Refused
)
Answer: TypeAlias = Any
"""The answer that the table above gives for the step."""


# --- commands -------------------------------------------------------------------------------------


# --- topics in hand -------------------------------------------------------------------------------
#
# The claim of an admin command on its topic (fenced).


class Hold:
    """A claim on a topic by the version of ``/brokers/topics/T``, which each write of the command
    raises.

    Of two commands, the one that read the topic later continues, and the other is rejected. Without
    this, the following could happen:

    1. One command adds a partition while the other deletes all that it has read.
    2. The second puts the partition's node in ``partitions_reassigned`` again: empty, and at
       version 0.
    3. The first completes what it has begun, and finds its node there as it left it.
    """

    def __init__(self, topic: str, nodes: TopicNodes) -> None:
        self.version = nodes.version
        self._topic = topic
        self._topic_id = nodes.topic_id

    def taking(self) -> Op:
        """Return the op to write together with the next write."""
        return TakeTopic(topic=self._topic, topic_id=self._topic_id, expected=self.version)

    def moved_on(self) -> None:
        """Note that it was written."""
        self.version = ZkVersion(self.version + 1)


def held(hold: Hold | None, ops: tuple[Op, ...]) -> tuple[Op, ...]:
    """Return ``ops`` under the claim on their topic, or unchanged without one."""
    return ops if hold is None else (hold.taking(), *ops)


# --- writes ---------------------------------------------------------------------------------------
#
# The writes of admin commands, and what they wait for (*Design V2*, "Admin commands").


Replicas = tuple[BrokerId, ...]
Names = dict[BrokerId, set[str]]
Sending = Generator[Step, Answer, "Names | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminWrites:
    """The writes of admin commands: as printed one line at a time, and fenced as one write of what
    belongs together. ``queue_max`` is that of :class:`Settings`."""

    fenced: bool = True
    queue_max: int = 1_000

    @property
    def absent(self) -> ZkVersion:
        """The expected version of a node that must be created. As printed, an existing node is
        overwritten."""
        return ABSENT if self.fenced else ANY_VERSION

    def write(self, *ops: Op, hold: Hold | None = None) -> Generator[Step, Answer, Result]:
        """Write all ops in one write, or as printed one after the other."""
        if self.fenced:
            return (yield from self.write_together(ops, hold))
        for op in ops:
            yield AdminWrite(ops=(op,))
        return Result.DONE

    def write_together(
        self, ops: tuple[Op, ...], hold: Hold | None
    ) -> Generator[Step, Answer, Result]:
        """Write all ops in one write, under the claim on the topic if there is one."""
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
        """Carry out ``sendStateChange`` for each request, after ``with_ops``.

        Return the names of the entries. The result is None if a queue is full (fenced: nothing was
        written), or if the write was rejected. Fenced, the command waits for a full queue until its
        time is up. Otherwise a topic with more partitions than a queue has room for would be
        rejected at each attempt.
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
        """Wait as in ``waitTillStateChangeRequestConsumed``.

        As printed, any change in a queue counts: the topic may exist before its replicas are
        started. (If the queues are empty before the watch is set, the printed wait would never end,
        and is left out.)
        """
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
        """Wait for the close-replicas that the leader sends. Fenced: first the leader must have
        sent them (shown by the version of ``partitions_reassigned``), and then none may be left."""
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
        """Return whether to read again, False if the time is up. As printed, only a watch that
        fires counts. Otherwise a topic's paths could be deleted before its leader has read that it
        must be deleted, and the logs would stay for good."""
        while True:
            waited: Waited = yield AwaitChange(brokers=brokers, partition=tp)
            if self.fenced or waited is not Waited.NOTHING_SEEN:
                return waited is not Waited.TIME_IS_UP


# --- commands -------------------------------------------------------------------------------------
#
# The admin commands: create and delete topics, add and remove partitions (*Design V2*, "Admin
# commands"), and the other operations of Kafka's admin APIs.
#
# Each command is a generator of :mod:`broker.coordination.admin`. As printed it proceeds one
# line at a time. Fenced, what belongs together is one write. In both, a step is done for all
# partitions of a topic before the next step, so that a thousand partitions take about as long as
# one.


class Outcome(enum.Enum):
    """The outcome of a command."""

    DONE = "done"
    EXISTS = "Topic topic exists with live partitions"
    UNKNOWN = "there is no such topic or partition"
    TIMED_OUT = "the state change requests were not consumed in time"
    QUEUE_FULL = "FollowerStateChangeQueueFull"
    CONFLICT = "something else was written meanwhile"


Command = Generator[Step, Answer, Outcome]

COMPLETED_AT_ONCE = 1_000
"""The number of partitions completed in one write. A write to ZooKeeper has at most 1 MB
(``jute.maxbuffer``)."""


class Admin(AdminWrites):
    """The admin commands under one variant."""

    # --- topics -------------------------------------------------------------------------------

    def create_topic(self, topic: str, assignment: Mapping[int, Replicas]) -> Command:
        """Carry out ``createTopic`` with the replicas by partition. There is no leader before all
        are started.

        Fenced, the clean-up comes after the topic is claimed. Otherwise, of two commands that
        create it at once, each would take the other's beginning for a failed attempt and remove it.
        Some brokers would have read the first id by then, and others the second.
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
        """Carry out ``cleanFailedTopicCreationAttempts``. Return False if a topic it visits has
        live partitions.

        It visits every topic in ``partitions_reassigned``, and cancels the reassignments of live
        partitions of other topics.
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
        """Undo what was begun for a partition. Return False if that was rejected."""
        moving_to = view.moving_to or ()
        closes = [(broker, _request(Change.CLOSE_REPLICA, tp)) for broker in moving_to]
        gone: tuple[Op, ...] = (DeletePartition(partition=tp),)
        if view.reassigned is not None:
            version = view.reassigned.version if hold else ANY_VERSION
            gone = (Delete(node=Node(Kind.REASSIGNED, tp), expected=version), *gone)
        return (yield from self.send(closes, gone, hold)) is not None

    def delete_topic(self, topic: str) -> Command:
        """Carry out ``deleteTopic``: delete all its partitions, then its path."""
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
        """Delete a topic (fenced). A concurrent write about the topic causes another read.
        Otherwise a partition added after the first read would remain as the topic's only one. A
        later topic of that name, with another id, is left alone."""
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
        """Delete all partitions. Return CONFLICT if another command has written about the topic."""
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
        """Carry out ``addPartition`` for each of ``assignment``.

        Write the reassigned path, send start-replica to all, wait until these are consumed, and
        write the ``replicas`` path. Fenced, return CONFLICT if the topic is being deleted, or
        another command writes about it.
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
        """Write ``replicas`` of partitions whose replicas are all started.

        Fenced, many are written at once. Suppose only the first of three is written, and the
        creator is gone. The topic then has a live partition, so the others are not taken for the
        rest of a failed attempt. ``__consumer_offsets`` once had groups without a coordinator for
        this reason.
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
        """Carry out ``deletePartition``, as printed, for each partition: write an empty reassigned
        path, wait until the leader's close-replicas are consumed, and delete the paths."""
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
        """Move a partition to ``target``, in place of an earlier target. The command is done when
        the move is requested, and the leader does the rest."""
        view = yield from _view(tp)
        if view.replicas is None or view.moving_to == ():
            return Outcome.UNKNOWN
        return (yield from self._replace_reassigned(tp, view, target))

    def cancel_reassignment(self, tp: TopicPartition) -> Command:
        """Cancel a reassignment (KIP-455) by one to AR. The document has no such command.

        Return CONFLICT while no member of AR is in the ISR. As printed, its new replicas stay where
        they are.
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
        """Carry out ``checkLoadBalancing`` on request: remove a leader that is not the preferred
        replica, if that is in the ISR. Return CONFLICT if it is not, or leads already."""
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
        """Create ``partitions_reassigned`` again, in place of the existing node.

        It must be a new node because leaders watch children and not values, and because a version
        above 0 says that close-replicas are sent. ``replicas`` is written once more, unchanged:

        - Suppose a leader completes the move to 2 just when it is replaced by one to 3. The new
          node has version 0 like the old one. It would be removed, and the partition would be on 2.
        - The same version ensures that ``removing`` has every broker named since ``view`` was read,
          because ``replicas`` is read before ``partitions_reassigned``.
        """
        node = Node(Kind.REASSIGNED, tp)
        old = view.reassigned
        removing = _removing(view, target) if self.fenced else ()
        put = PutAssigned(node=node, replicas=target, removing=removing, expected=self.absent)
        ops: tuple[Op, ...] = (put,)
        if old is not None and self.fenced:
            ops = (Delete(node=node, expected=old.version), *ops)
        if target and view.isr is not None and self.fenced:
            # A member of the ISR must remain that hosts the partition, and so may lead.
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
    """Return the brokers that may have a replica to close, and that neither AR nor the new RAR
    names.

    A broker named by RAR, or by a former one, may have been started, whatever the partition's
    leader was told. Suppose broker 1 has broker 3 start a replica, the reassignment is replaced,
    and broker 1 loses the leadership. Broker 3 is in neither AR nor the new RAR, nor in the ISR
    yet, and no broker would close its replica.

    It is therefore recorded when RAR no longer names it (KIP-455 has it in the same node), and not
    when it is started. Broker 3 may have been started by its own reading of RAR, when it began.
    """
    named = dict.fromkeys((*view.removing, *(view.moving_to or ())))
    return tuple(broker for broker in named if broker not in {*view.assigned, *target})


def _request(change: Change, tp: TopicPartition) -> StateChangeRequest:
    return StateChangeRequest(change=change, partition=tp, leader=ADMIN, epoch=ADMIN_EPOCH)


def _delete(kind: Kind, topic: str, partition: int) -> Delete:
    return Delete(node=Node(kind, TopicPartition(topic, partition)), expected=ANY_VERSION)
