"""Has written what is to be written, and tells the brokers.

Decisions are made from what is known, not from what happened: :meth:`Partitions.reconsider` may be
called for any partition at any time. While a write is under way its partition is left alone; when
the outcome is known it is reconsidered.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.controller.plan import bounced, left_by, plan, without_who_joined
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
        """Take in a partition that was not known; without a state it never had a leader."""
        context = self._context
        context.partition_phases.move(tp, PartitionPhase.NEW)
        assignment = context.assignment(tp)
        for broker in assignment.replicas if assignment else ():
            context.replica_phases.move(tp, broker, ReplicaPhase.NEW)
        if state is not None:
            self.adopt(tp, state)
            self.follow_brokers([tp])

    def forget(self, topic: str) -> None:
        """The topic is gone, with all that was known and wanted of its partitions."""
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
        """Take a state that was read, unless a newer one is known."""
        context = self._context
        known, intent = context.states.get(tp), context.intents[tp]
        if known is None or known.zk_version <= state.zk_version:
            if known is not None and intent.suspects:
                context.intents[tp] = without_who_joined(intent, known, state, context.live)
            context.states[tp] = state
            context.settle_phase(tp)

    def suspect(self, tp: TopicPartition, brokers: Collection[BrokerId]) -> None:
        """These may have lost what they had not flushed."""
        intent = self._context.intents[tp]
        self._context.intents[tp] = replace(intent, suspects=intent.suspects.union(brokers))

    def suspect_bounced(self, tps: Iterable[TopicPartition]) -> None:
        """At an election: suspect those who have registered anew since the states count on them.
        Nobody may have seen them go.

        A broker that is leader and controller loses power, and is registered again before its
        rival, now elected, looks: all seems as it was. Told to lead on in its epoch with a shorter
        log, it would append other records where followers hold acknowledged ones, and these would
        count as in sync as soon as it has passed their ends.
        """
        for tp in tps:
            self.suspect(tp, bounced(self._context.states[tp], self._context.live))

    def follow_brokers(self, tps: Iterable[TopicPartition]) -> None:
        """Make replicas that have served Online or Offline, as their brokers are."""
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
        """Have what is not as it should be written."""
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
        """Take in what was written; None when there is no such partition any more."""
        context = self._context
        write = context.writing.pop(tp, None)
        if write is None or context.assignment(tp) is None:
            return None
        self.adopt(tp, write.written_at(version))
        # Wishes (preferred, unclean_once) stay: they may have come up during the write.
        context.intents[tp] = replace(context.intents[tp], forced=False, begun_anew=False)
        return write

    def keep_suspects(self, write: StateWrite) -> bool:
        """Whether there are any: what was written was decided before a broker in its ISR went
        down, and the next write will say so.

        1 is being given its preferred leadership back when it loses power and returns. Announced
        as written, it would lead with what is left of its log, and the others cut theirs to match.
        """
        intents, tp = self._context.intents, write.partition
        intents[tp] = left_by(write, intents[tp])
        return bool(intents[tp].suspects)

    def read_again(self, tp: TopicPartition, fresh: PartitionState | None) -> bool:
        """Take in a state that was read again after a conflict; False when there is none. Brokers
        may not have been told of it (see :meth:`introduce`), even if nothing is to be written any
        more."""
        context = self._context
        context.writing.pop(tp, None)
        if fresh is None or not context.assignment(tp) or context.deletes(tp.topic):
            return False
        self.adopt(tp, fresh)
        intent = context.intents[tp]
        if intent.begun_anew:
            # Of 1 and 2, who both bounced, 1 was to lead anew, and the ISR was 1, 2 and 3 already:
            # 3 is away, and has everything.
            context.intents[tp] = replace(intent, begun_anew=False)
            self.suspect_bounced([tp])
        return True

    # --- announce ---------------------------------------------------------------------------

    def announce(self, tp: TopicPartition, before: PartitionState | None) -> None:
        """Tell the partition's brokers of their roles and all brokers of the new state."""
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
        """Tell brokers that have just come up all of their roles.

        Partitions with a write under way are left out: the old state may name as leader a broker
        that lost its log's tail in a crash, and followers would cut theirs to match. Their turn
        comes with the outcome.
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
