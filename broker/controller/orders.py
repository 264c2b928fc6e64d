"""Orders to the controller: delete topics, move replicas, and elect leaders on request."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import ReplicaAssignment
from ackproof.broker.controller.context import Context, TopicDeletion
from ackproof.broker.controller.events import (
    Answer,
    DropDeletion,
    DropPreferredElection,
    DropReassignments,
    ElectionAsked,
    Outcome,
    ReassignmentsAltered,
    WriteAssignment,
)
from ackproof.broker.controller.partitions import Partitions
from ackproof.broker.controller.pending import (
    PendingDeletion,
    PendingElection,
    PendingOrder,
    Pendings,
)
from ackproof.broker.controller.plan import is_reassigned
from ackproof.broker.controller.requests import EPOCH_DURING_DELETE, Outbox
from ackproof.broker.controller.state_machines import ReplicaPhase
from ackproof.broker.types import BrokerId, TopicPartition

# --- deletion -------------------------------------------------------------------------------------
#
# The deletion of topics (Kafka's ``TopicDeletionManager``).
#
# 1. All brokers are told that the topic has no leader any more (-2).
# 2. The broker of each replica is told to stop and delete it.
# 3. When all have confirmed, the topic's znodes are removed. This happens at once if there is no
#    replica to confirm, as in Kafka (``areAllReplicasForTopicDeleted`` is true of no replicas).
#
# The deletion of a replica on a broker that is down waits for that broker, and the topic stays in
# ``/admin/delete_topics`` until then. A topic that is being reassigned is deleted after the
# reassignment.


class Deletions:
    """The topics that are being deleted."""

    def __init__(self, context: Context, outbox: Outbox, pendings: Pendings) -> None:
        self._context = context
        self._outbox = outbox
        self._pendings = pendings

    def ask(self, topics: Collection[str]) -> None:
        """Process a request to delete topics. Repeating it is harmless."""
        for topic in sorted(topics):
            if topic in self._context.topics:
                self._context.deletions.setdefault(topic, TopicDeletion.ORDERED)
            else:
                self._outbox.put(DropDeletion(topic=topic))
        self.advance()

    def advance(self) -> None:
        """Begin to delete the topics that may be deleted now."""
        context = self._context
        for topic in sorted(context.deletions):
            assigned = context.topics[topic].partitions.values()
            moved = any(assignment.adding or assignment.removing for assignment in assigned)
            if not moved and not context.deletes(topic):
                context.deletions[topic] = TopicDeletion.STARTED
                tps = tuple(context.partitions_of(topic))
                self._pendings.add(PendingDeletion(topic=topic, partitions=tps))

    def begin(self, topic: str) -> None:
        """Have the replicas of a topic deleted, once no write for its partitions is pending."""
        context = self._context
        tps = list(context.partitions_of(topic))
        self._outbox.batch.metadata(context.live, tps)
        for tp in tps:
            context.settle_phase(tp)
            for broker, phase in context.replica_phases.of(tp):
                if phase in (ReplicaPhase.DELETION_STARTED, ReplicaPhase.DELETION_SUCCESSFUL):
                    continue
                context.replica_phases.move(tp, broker, ReplicaPhase.OFFLINE)
                self.delete_replica(tp, broker)

    def delete_replica(self, tp: TopicPartition, broker: BrokerId) -> None:
        """Have an Offline replica deleted, if its broker is live."""
        if broker in self._context.live:
            self._context.replica_phases.move(tp, broker, ReplicaPhase.DELETION_STARTED)
            self._outbox.batch.stop(broker, tp, EPOCH_DURING_DELETE, delete=True)
        else:
            self._context.replica_phases.move(tp, broker, ReplicaPhase.DELETION_INELIGIBLE)

    def brokers_down(self, brokers: Collection[BrokerId]) -> None:
        """Mark the replicas on these brokers as waiting, because they will not confirm their
        deletion."""
        phases = self._context.replica_phases
        for tp in phases.partitions():
            for broker, phase in phases.of(tp):
                if broker in brokers and phase is ReplicaPhase.DELETION_STARTED:
                    phases.move(tp, broker, ReplicaPhase.DELETION_INELIGIBLE)

    def brokers_up(self, brokers: Collection[BrokerId]) -> None:
        """Delete the replicas whose deletion waited for these brokers."""
        phases = self._context.replica_phases
        for tp in phases.partitions():
            for broker, phase in phases.of(tp):
                if broker in brokers and phase is ReplicaPhase.DELETION_INELIGIBLE:
                    phases.move(tp, broker, ReplicaPhase.OFFLINE)
                    self.delete_replica(tp, broker)

    def answered(
        self, broker: BrokerId, errors: Mapping[TopicPartition, ErrorCode]
    ) -> tuple[str, ...]:
        """Process a broker's answer to StopReplica, and return the topics that have no replica
        left."""
        phases = self._context.replica_phases
        for tp, error in errors.items():
            if phases[tp, broker] is not ReplicaPhase.DELETION_STARTED:
                continue
            # The request went to a former registration, whose end brokers_down reports sooner or
            # later. If this counted as a refusal after brokers_down, the answer to the next request
            # would be ignored. No further request would follow, and the topic would stay for ever.
            if error is ErrorCode.stale_broker_epoch:
                continue
            if error is not ErrorCode.none:
                phases.move(tp, broker, ReplicaPhase.DELETION_INELIGIBLE)
                continue
            phases.move(tp, broker, ReplicaPhase.DELETION_SUCCESSFUL)
            if not self._context.deletes(tp.topic):
                phases.move(tp, broker, ReplicaPhase.NON_EXISTENT)
        return tuple(filter(self.is_deleted, sorted({tp.topic for tp in errors})))

    def is_deleted(self, topic: str) -> bool:
        """Return whether a topic that is being deleted has no replica left. A tool may have written
        its znode without a partition. Then no broker is asked, and no answer would end the
        deletion."""
        phases = self._context.replica_phases
        tps = self._context.partitions_of(topic)
        left = {phase for tp in tps for _, phase in phases.of(tp)}
        return self._context.deletes(topic) and left <= {ReplicaPhase.DELETION_SUCCESSFUL}


# --- reassignment ---------------------------------------------------------------------------------
#
# The move of replicas from brokers to others (KIP-455).
#
# 1. The assignment becomes old and new replicas together. ``adding`` and ``removing`` are noted in
# the topic's znode, so that another controller can continue. The new replicas begin to fetch.
# 2. When all target replicas are in the ISR, a state is written that contains only them, led by one
# of them. They are told so, and the others are told to stop and delete.
# 3. The assignment becomes the target.
#
# A new reassignment of a partition replaces the one in progress. A cancellation is a reassignment
# to the former replicas that ends as soon as any of them is in sync. It has whatever was
# acknowledged meanwhile, and the others catch up as always.
#
# A replica removed from a broker that is down is deleted when the broker comes back, unless the
# controller has changed by then. ZooKeeper does not record it, and its log stays on the broker's
# disk until an operator deletes it. Kafka 3.9 with ZooKeeper leaves it there in either case: its
# brokers look for stray replicas only on the word of a KRaft controller (KAFKA-15605). The log is
# not taken for that of a later topic of the same name (``broker/log/partition_metadata.py``).


class Reassignments:
    """The partitions that are being moved."""

    def __init__(
        self, context: Context, outbox: Outbox, partitions: Partitions, deletions: Deletions
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._partitions = partitions
        self._deletions = deletions

    def ask(self, targets: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> None:
        """Begin each reassignment that the znode names, or refuse it."""
        for tp, target in sorted(targets.items()):
            begun = self._begin_if_allowed(tp, target)
            assignment = self._context.assignment(tp)
            if begun.error is not ErrorCode.none:
                self._outbox.put(DropReassignments(partitions=(tp,), refused=begun.text))
            elif assignment and not assignment.adding and not assignment.removing:
                self._outbox.put(DropReassignments(partitions=(tp,)))

    def alter(self, event: ReassignmentsAltered) -> None:
        """Begin or cancel reassignments, and answer. These partitions are removed from the znode,
        because the next controller would carry it out again."""
        outcomes: dict[TopicPartition, Outcome] = {}
        for tp, target in sorted(event.targets.items()):
            if target is None:
                outcomes[tp] = self._take_back(tp)
            else:
                outcomes[tp] = self._begin_if_allowed(tp, target)
        begun = tuple(tp for tp, outcome in outcomes.items() if outcome.error is ErrorCode.none)
        if begun:
            self._outbox.put(DropReassignments(partitions=begun))
        self._outbox.put(Answer(token=event.token, outcomes=outcomes))

    def _begin_if_allowed(self, tp: TopicPartition, target: tuple[BrokerId, ...]) -> Outcome:
        assignment = self._context.assignment(tp)
        if assignment is None or self._context.deletes(tp.topic):
            return _unknown(tp)
        unusable = self._unusable(tp, target)
        if unusable is not None:
            return Outcome(ErrorCode.invalid_replica_assignment, unusable)
        if assignment.target != target:
            self._begin(tp, assignment, target, cancelled=False)
        return Outcome(ErrorCode.none)

    def _unusable(self, tp: TopicPartition, target: Sequence[BrokerId]) -> str | None:
        if not target or len(set(target)) != len(target):
            return f"replicas {list(target)} of {tp} are none, or one broker twice"
        unknown = [broker for broker in target if broker not in self._context.live]
        return f"replicas {unknown} of {tp} are on brokers that are not live" if unknown else None

    def _take_back(self, tp: TopicPartition) -> Outcome:
        assignment = self._context.assignment(tp)
        if assignment is None or self._context.deletes(tp.topic):
            return _unknown(tp)
        if not assignment.adding and not assignment.removing:
            return Outcome(ErrorCode.no_reassignment_in_progress, f"{tp} is not being reassigned")
        former = tuple(broker for broker in assignment.replicas if broker not in assignment.adding)
        self._begin(tp, assignment, former, cancelled=True)
        return Outcome(ErrorCode.none)

    def _begin(
        self,
        tp: TopicPartition,
        now: ReplicaAssignment,
        target: tuple[BrokerId, ...],
        *,
        cancelled: bool,
    ) -> None:
        former = tuple(broker for broker in now.replicas if broker not in now.adding)
        abandoned = tuple(b for b in now.adding if b not in target and b not in former)
        removing = tuple(broker for broker in former + abandoned if broker not in target)
        self._assign(
            tp,
            ReplicaAssignment(
                replicas=target + removing,
                adding=tuple(broker for broker in target if broker not in former),
                removing=removing,
            ),
        )
        self._outbox.put(WriteAssignment(topic=tp.topic, assignment=self._context.topics[tp.topic]))
        for broker in target:
            self._bring_back(tp, broker)
        intents, led = self._context.intents, tp in self._context.states
        forced = intents[tp].forced or led
        intents[tp] = replace(intents[tp], cancelled=cancelled, forced=forced)
        self._partitions.reconsider([tp])

    def _bring_back(self, tp: TopicPartition, broker: BrokerId) -> None:
        """Prepare a replica that comes back to a broker. If its deletion is in progress it will be
        new after it: its broker is told to delete it before anything else."""
        phases = self._context.replica_phases
        if phases[tp, broker] is ReplicaPhase.DELETION_STARTED:
            phases.move(tp, broker, ReplicaPhase.DELETION_SUCCESSFUL)
            phases.move(tp, broker, ReplicaPhase.NON_EXISTENT)
        if phases[tp, broker] is ReplicaPhase.NON_EXISTENT:
            phases.move(tp, broker, ReplicaPhase.NEW)
        elif phases[tp, broker] is ReplicaPhase.DELETION_INELIGIBLE:
            phases.move(tp, broker, ReplicaPhase.ONLINE)

    def _assign(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        topics = self._context.topics
        parts = {**topics[tp.topic].partitions, tp.partition: assignment}
        topics[tp.topic] = replace(topics[tp.topic], partitions=parts)

    def finish(self, tp: TopicPartition) -> bool:
        """Complete the move if the written state contains only target replicas, and have the others
        deleted. Return whether the move is complete."""
        context = self._context
        assignment, state, intent = context.assignment(tp), context.states[tp], context.intents[tp]
        if assignment is None or not is_reassigned(context, assignment, state, intent):
            return False
        if not set(state.isr) <= set(assignment.target):
            return False
        self._assign(tp, ReplicaAssignment(replicas=assignment.target))
        context.intents[tp] = replace(intent, cancelled=False)
        for broker in assignment.removing:
            if context.replica_phases[tp, broker] in (ReplicaPhase.NEW, ReplicaPhase.ONLINE):
                context.replica_phases.move(tp, broker, ReplicaPhase.OFFLINE)
            if context.replica_phases[tp, broker] is ReplicaPhase.OFFLINE:
                self._deletions.delete_replica(tp, broker)
        return True

    def conclude(self, moved: tuple[TopicPartition, ...]) -> None:
        """Write the final assignments, after the brokers were told."""
        if not moved:
            return
        self._outbox.flush(self._context)
        for topic in sorted({tp.topic for tp in moved}):
            self._outbox.put(WriteAssignment(topic=topic, assignment=self._context.topics[topic]))
        self._outbox.put(DropReassignments(partitions=moved))
        self._deletions.advance()


def _unknown(tp: TopicPartition) -> Outcome:
    return Outcome(ErrorCode.unknown_topic_or_partition, f"{tp} does not exist")


# --- elections ------------------------------------------------------------------------------------
#
# Elections on request: by administrators, by the leader rebalance, or after a changed setting.
#
# The rules for choosing leaders are in :mod:`broker.controller.plan`. Here it is decided for which
# partitions they are applied again, and what the requester is answered (KIP-183, KIP-460).


class Elections:
    """The elections of leaders on request."""

    def __init__(
        self, context: Context, outbox: Outbox, partitions: Partitions, pendings: Pendings
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._partitions = partitions
        self._pendings = pendings

    def give_back(self, imbalance_percentage: int) -> None:
        """Move leaderships to preferred replicas where too many are elsewhere."""
        self._prefer(imbalanced(self._context, imbalance_percentage))

    def follow_znode(self, tps: Iterable[TopicPartition]) -> None:
        """Elect preferred leaders. The znode is removed when all of them are written."""
        known = [tp for tp in tps if self._context.assignment(tp) is not None]
        self._prefer(known)
        self._pendings.add(PendingOrder(partitions=tuple(known)))

    def drop_order(self) -> None:
        """Remove ``/admin/preferred_replica_election``, because all its partitions are written."""
        self._outbox.flush(self._context)
        self._outbox.put(DropPreferredElection())

    def _prefer(self, tps: list[TopicPartition]) -> None:
        intents = self._context.intents
        for tp in tps:
            intents[tp] = replace(intents[tp], preferred=True)
        self._partitions.reconsider(tps)

    def _elect_once(self, tps: list[TopicPartition]) -> None:
        intents = self._context.intents
        for tp in tps:
            intents[tp] = replace(intents[tp], unclean_once=True)
        self._partitions.reconsider(tps)

    def unclean_changed(self, enabled: Mapping[str, bool]) -> None:
        """Take over changed permissions for unclean elections. Partitions without a leader get one
        if their topic now allows it."""
        context = self._context
        for topic in enabled.keys() & context.topics.keys():
            if enabled[topic]:
                context.unclean.add(topic)
                self._partitions.reconsider(list(context.partitions_of(topic)))
            else:
                context.unclean.discard(topic)

    # --- ElectLeaders -----------------------------------------------------------------------

    def ask(self, event: ElectionAsked) -> None:
        """Elect leaders, and answer when all are written. In a request for all partitions, those
        that need no election are not mentioned."""
        everything = event.partitions is None
        named = list(self._context.partitions() if event.partitions is None else event.partitions)
        refused = {tp: no for tp in named if (no := self._refusal(tp, event.unclean)) is not None}
        wanted = [tp for tp in named if tp not in refused]
        if everything:
            refused = {}
        if event.unclean:
            self._elect_once(wanted)
        else:
            self._prefer(wanted)
        self._pendings.add(
            PendingElection(
                partitions=tuple(wanted),
                unclean=event.unclean,
                refused=refused,
                token=event.token,
            )
        )

    def answer(self, asked: PendingElection) -> None:
        """Answer with the outcomes, because all elections are written."""
        outcomes = {tp: self._outcome(tp, asked.unclean) for tp in asked.partitions}
        self._outbox.flush(self._context)
        self._outbox.put(Answer(token=asked.token, outcomes={**asked.refused, **outcomes}))

    def _refusal(self, tp: TopicPartition, unclean: bool) -> Outcome | None:
        context = self._context
        assignment = context.assignment(tp)
        if assignment is None:
            return Outcome(ErrorCode.unknown_topic_or_partition, f"{tp} does not exist")
        if context.deletes(tp.topic):
            return Outcome(ErrorCode.invalid_topic_exception, f"{tp.topic} is being deleted")
        leader = self._leader(tp)
        if (leader in context.live) if unclean else (leader == assignment.replicas[0]):
            return Outcome(ErrorCode.election_not_needed, f"{tp} is led by {leader}")
        return None

    def _outcome(self, tp: TopicPartition, unclean: bool) -> Outcome:
        assignment = self._context.assignment(tp)
        if assignment is None:
            return Outcome(ErrorCode.unknown_topic_or_partition, f"{tp} was deleted")
        leader = self._leader(tp)
        if unclean and leader not in self._context.live:
            return Outcome(
                ErrorCode.eligible_leaders_not_available, f"{tp}: no replica of it is online"
            )
        if not unclean and leader != assignment.replicas[0]:
            return Outcome(
                ErrorCode.preferred_leader_not_available,
                f"{tp}: replica {assignment.replicas[0]} is not online and in sync",
            )
        return Outcome(ErrorCode.none)

    def _leader(self, tp: TopicPartition) -> BrokerId | None:
        state = self._context.states.get(tp)
        return None if state is None else state.leader


# --- leader rebalance -----------------------------------------------------------------------------
#
# The partitions that ``auto.leader.rebalance.enable`` returns to their preferred leaders.


def imbalanced(context: Context, percentage: int) -> list[TopicPartition]:
    """Return the partitions to move to their preferred leaders.

    These are led by another broker although their preferred replica is online and in the ISR. A
    broker gets its partitions back if others lead more than ``percentage`` of those that it should
    lead (``leader.imbalance.per.broker.percentage``).
    """
    should_lead: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for tp in context.partitions():
        assignment = context.assignment(tp)
        if assignment and assignment.replicas and not context.deletes(tp.topic):
            should_lead[assignment.replicas[0]].append(tp)
    chosen: list[TopicPartition] = []
    for broker in sorted(should_lead.keys() & context.online):
        mine = should_lead[broker]
        elsewhere = [tp for tp in mine if tp in context.states and not _leads(context, broker, tp)]
        if len(elsewhere) * 100 > percentage * len(mine):
            chosen += [tp for tp in elsewhere if broker in context.states[tp].isr]
    return chosen


def _leads(context: Context, broker: BrokerId, tp: TopicPartition) -> bool:
    return context.states[tp].leader == broker
