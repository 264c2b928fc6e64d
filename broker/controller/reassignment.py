"""The move of replicas from brokers to others (KIP-455).

1. The assignment becomes old and new replicas together. ``adding`` and ``removing`` are noted in
   the topic's znode, so that another controller can continue. The new replicas begin to fetch.
2. When all target replicas are in the ISR, a state is written that contains only them, led by one
   of them. They are told so, and the others are told to stop and delete.
3. The assignment becomes the target.

A new reassignment of a partition replaces the one in progress. A cancellation is a reassignment to
the former replicas that ends as soon as any of them is in sync. It has whatever was acknowledged
meanwhile, and the others catch up as always.

A replica removed from a broker that is down is deleted when the broker comes back, unless the
controller has changed by then. ZooKeeper does not record it, and its log stays on the broker's disk
until an operator deletes it. Kafka 3.9 with ZooKeeper leaves it there in either case: its brokers
look for stray replicas only on the word of a KRaft controller (KAFKA-15605). The log is not taken
for that of a later topic of the same name (``broker/log/partition_metadata.py``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import ReplicaAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.deletion import Deletions
from ackproof.broker.controller.events import (
    Answer,
    DropReassignments,
    Outcome,
    ReassignmentsAltered,
    WriteAssignment,
)
from ackproof.broker.controller.partitions import Partitions
from ackproof.broker.controller.plan import is_reassigned
from ackproof.broker.controller.requests import Outbox
from ackproof.broker.controller.state_machines import ReplicaPhase
from ackproof.broker.types import BrokerId, TopicPartition


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
