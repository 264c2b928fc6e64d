"""Writes of partition states, and announcements of them to the brokers.

Decisions follow from the known state, and not from what happened: :meth:`Partitions.reconsider` may
be called for any partition at any time. A partition with a pending write is left alone, and
reconsidered when the outcome is known.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.controller.plan import (
    bounced,
    left_by,
    plan,
    with_unregistered_joiners,
    without_joiners,
)
from ackproof.broker.controller.requests import Outbox
from ackproof.broker.controller.state_machines import PartitionPhase, ReplicaPhase
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion

SERVING = (ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE)


class Partitions:
    """The partitions of one controller epoch."""

    def __init__(self, context: Context, outbox: Outbox) -> None:
        self._context = context
        self._outbox = outbox

    def discover(self, tp: TopicPartition, state: PartitionState | None) -> None:
        """Take over a partition that was not known. Without a state it never had a leader."""
        context = self._context
        context.partition_phases.move(tp, PartitionPhase.NEW)
        assignment = context.assignment(tp)
        for broker in assignment.replicas if assignment else ():
            context.replica_phases.move(tp, broker, ReplicaPhase.NEW)
        if state is not None:
            self.adopt(tp, state)
            self.follow_brokers([tp])

    def forget(self, topic: str) -> None:
        """Drop a topic that is gone, with everything known and desired of its partitions."""
        context = self._context
        for tp in list(context.partitions_of(topic)):
            context.states.pop(tp, None)
            context.writing.pop(tp, None)
            context.intents.forget(tp)
            context.partition_phases.forget(tp)
            context.replica_phases.forget(tp)
        context.topics.pop(topic, None)
        context.unclean.discard(topic)
        context.deletions.pop(topic, None)

    def adopt(self, tp: TopicPartition, state: PartitionState) -> None:
        """Take over a state that was read, unless a newer one is known."""
        context = self._context
        known, intent = context.states.get(tp), context.intents[tp]
        if known is None or known.zk_version <= state.zk_version:
            if known is not None:
                intent = without_joiners(intent, known, state, context.live)
                context.intents[tp] = with_unregistered_joiners(intent, known, state, context.live)
            context.states[tp] = state
            context.settle_phase(tp)

    def suspect(self, tp: TopicPartition, brokers: Collection[BrokerId]) -> None:
        """Mark brokers that may have lost records that they had not flushed."""
        intent = self._context.intents[tp]
        self._context.intents[tp] = replace(intent, suspects=intent.suspects.union(brokers))

    def suspect_bounced(self, tps: Iterable[TopicPartition]) -> None:
        """Suspect, at an election, brokers that have registered again since the states relied on
        them.

        Their absence may have gone unnoticed. Suppose a broker that is leader and controller loses
        power, and registers again before the newly elected controller reads. Everything looks
        unchanged. If it were told to continue in its epoch with a shorter log, it would append
        other records where followers hold acknowledged ones. These followers would count as in sync
        as soon as it has passed their ends.
        """
        for tp in tps:
            self.suspect(tp, bounced(self._context.states[tp], self._context.live))

    def follow_brokers(self, tps: Iterable[TopicPartition]) -> None:
        """Move replicas that have served to Online or Offline, like their brokers."""
        self._outbox.each(tps, self._follow_brokers)

    def _follow_brokers(self, tp: TopicPartition) -> None:
        context = self._context
        for broker, phase in context.replica_phases.of(tp):
            waits = phase is ReplicaPhase.NEW and tp not in context.states
            if phase in SERVING and not waits:
                live = broker in context.online
                to = ReplicaPhase.ONLINE if live else ReplicaPhase.OFFLINE
                context.replica_phases.move(tp, broker, to)
        context.settle_phase(tp)

    # --- writes -----------------------------------------------------------------------------

    def reconsider(self, tps: Iterable[TopicPartition]) -> None:
        """Write the states that are not as they should be."""
        self._outbox.each(tps, self._reconsider)

    def _reconsider(self, tp: TopicPartition) -> None:
        context = self._context
        if tp in context.writing:
            return
        planned = plan(context, tp)
        context.intents[tp] = planned.intent
        if planned.write is not None:
            context.writing[tp] = planned.write
            self._outbox.write(planned.write)

    def written(self, tp: TopicPartition, version: ZkVersion) -> StateWrite | None:
        """Process a successful write, and return it, or None when its partition no longer
        exists."""
        context = self._context
        write = context.writing.pop(tp, None)
        if write is None or context.assignment(tp) is None:
            return None
        self.adopt(tp, write.written_at(version))
        # The requests (preferred, unclean_once) stay: they may have arrived during the write.
        context.intents[tp] = replace(context.intents[tp], forced=False, single_log_start=False)
        return write

    def keep_suspects(self, write: StateWrite) -> bool:
        """Return whether suspects are left. The write was decided before a broker in its ISR went
        down, and the next write will take that into account.

        Suppose broker 1 is being given its preferred leadership back when it loses power and
        returns. If the write were announced, broker 1 would lead with the rest of its log, and the
        others would truncate theirs to match.
        """
        intents, tp = self._context.intents, write.partition
        intents[tp] = left_by(write, intents[tp])
        return bool(intents[tp].suspects)

    def read_again(self, tp: TopicPartition, fresh: PartitionState | None) -> bool:
        """Take over a state that was read again after a conflict, and return whether there is one.
        Brokers may not have been told of it (see :meth:`introduce`), even if nothing needs to be
        written any more."""
        context = self._context
        context.writing.pop(tp, None)
        if fresh is None or not context.assignment(tp) or context.deletes(tp.topic):
            return False
        self.adopt(tp, fresh)
        intent = context.intents[tp]
        if intent.single_log_start:
            # Brokers 1 and 2 both bounced, and broker 1 was to lead in a new epoch. But the ISR was
            # 1, 2 and 3 already, and 3, which is down, has all records.
            context.intents[tp] = replace(intent, single_log_start=False)
            self.suspect_bounced([tp])
        return True

    # --- announce ---------------------------------------------------------------------------

    def announce(self, tp: TopicPartition, before: PartitionState | None) -> None:
        """Tell the partition's brokers their roles, and all brokers the new state."""
        context, batch = self._context, self._outbox.batch
        assignment, state = context.assignment(tp), context.states[tp]
        assert assignment is not None
        for broker in assignment.replicas:
            if broker not in context.live:
                continue
            leads_or_led = broker in (state.leader, before.leader if before else None)
            if broker in context.stopping and not leads_or_led:
                batch.stop(broker, tp, state.leader_epoch, delete=False)
            else:
                batch.role(context, broker, tp, assignment.replicas)
        self.follow_brokers([tp])
        batch.metadata(context.live, [tp])

    def introduce(self, brokers: Collection[BrokerId]) -> None:
        """Tell brokers that have just started all of their roles.

        Partitions with a pending write are left out. Their old state may name as leader a broker
        that lost the tail of its log in a crash, and followers would truncate theirs to match. They
        follow when the outcome is known.
        """
        context, batch = self._context, self._outbox.batch
        for broker in brokers:
            tps = context.partitions_on([broker])
            for tp in tps:
                assignment = context.assignment(tp)
                left_out = tp in context.writing or context.deletes(tp.topic)
                if tp in context.states and assignment and not left_out:
                    batch.role(context, broker, tp, assignment.replicas)
            if context.writing.keys().isdisjoint(tps):
                batch.complete(broker)
