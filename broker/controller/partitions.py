"""Decides who leads, has it written, and tells the brokers.

Decisions are made from what is known, not from what happened: :meth:`Partitions.reconsider` may be
called for any partition at any time and does nothing when all is as it should be. So repeated,
late or reordered events do no harm. While a write is under way its partition is left alone; when
the outcome is known it is reconsidered.
"""

from collections.abc import Callable, Collection, Iterable

from broker.controller.cluster import PartitionState
from broker.controller.context import Context
from broker.controller.election import Choice, choose, first_leader
from broker.controller.events import StatesWritten, StateWrite
from broker.controller.outbox import Outbox
from broker.controller.partition_state import PartitionPhase
from broker.controller.replica_state import ReplicaPhase
from broker.types import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition, ZkVersion

SERVING = (ReplicaPhase.NEW, ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE)
FIRST_EPOCH = LeaderEpoch(0)


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
            context.adopt(tp, state)
            self.follow_brokers([tp])

    def forget(self, topic: str) -> None:
        """The topic is gone, with all that was known of its partitions."""
        context = self._context
        for tp in list(context.partitions_of(topic)):
            context.states.pop(tp, None)
            context.writing.pop(tp, None)
            context.preferred.discard(tp)
            context.unclean_once.discard(tp)
            context.taken_back.discard(tp)
            context.forced.discard(tp)
            context.begun_anew.discard(tp)
            context.suspects.pop(tp, None)
            context.partition_phases.forget(tp)
            context.replica_phases.forget(tp)
        context.topics.pop(topic, None)
        context.unclean.discard(topic)
        context.deleting.discard(topic)

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

    # --- decide -----------------------------------------------------------------------------

    def reconsider(self, tps: Iterable[TopicPartition]) -> None:
        """Have what is not as it should be written."""
        self._outbox.each(tps, self._reconsider)

    def _reconsider(self, tp: TopicPartition) -> None:
        if tp in self._context.writing:
            return
        write = self._decide(tp)
        if write is not None:
            self._context.writing[tp] = write
            self._outbox.write(write)

    def _decide(self, tp: TopicPartition) -> StateWrite | None:
        context = self._context
        assignment, state = context.assignment(tp), context.states.get(tp)
        if assignment is None or tp.topic in context.deleting:
            return None
        if state is None:
            first = first_leader(assignment.replicas, context.online)
            return None if first is None else self._write(tp, first, FIRST_EPOCH, None)
        if state.controller_epoch > context.epoch:
            return None  # a successor's: it knows of brokers that came or went since
        unclean = tp.topic in context.unclean or tp in context.unclean_once
        self._trust_if_nobody_else(tp, state, unclean=unclean)
        suspects, reassigned = context.suspects_among(tp), context.reassigned(tp)
        choice = choose(
            state,
            assignment.target if reassigned else assignment.replicas,
            online=context.online - suspects,
            stopping=context.stopping - suspects,
            unclean=unclean,
            preferred=tp in context.preferred,
        )
        if tp in context.begun_anew and choice.leader != NO_LEADER:
            choice = Choice(choice.leader, (choice.leader,))
        unchanged = choice == Choice(state.leader, state.isr)
        if unchanged and not reassigned and tp not in context.forced:
            context.preferred.discard(tp)
            context.unclean_once.discard(tp)
            self._suspect_who_may_have_joined(tp, state)
            return None
        return self._write(tp, choice, LeaderEpoch(state.leader_epoch + 1), state.zk_version)

    def _suspect_who_may_have_joined(self, tp: TopicPartition, state: PartitionState) -> None:
        """There is nothing to write: suspects count as failed already, or nobody leads. Those
        whom the ISR lacks remain suspects nevertheless.

        3 is let into the ISR and loses power before the leader has notified anybody of that. As
        far as is known here it was not in the ISR, and it is back when the notification comes:
        it would stay in the ISR with a shorter log, and lead as soon as the leader dies.
        """
        suspects = self._context.suspects
        left = suspects.pop(tp, set()) - set(state.isr)
        if left and state.leader != NO_LEADER:
            suspects[tp] = left

    def _trust_if_nobody_else(
        self, tp: TopicPartition, state: PartitionState, *, unclean: bool
    ) -> None:
        """When all of the ISR bounced, as after a power cut of the whole cluster, whatever they
        lost nobody has more. One of them leads in a new epoch, by which followers cut to what is
        left; in the old one it would append behind the end that it lost. It is alone in the ISR:
        who has less would lead as soon as it dies, and is let in when it has caught up.

        With ``waits_for_isr`` one that is away is waited for, as KIP-966 has it: 2 lost power and
        is back, and 1, which dies before 2 has left the ISR, has all that was acknowledged on its
        disk. Seed 002 has whoever is back first lead ("any of them"), and so does an unclean
        election: one of the ISR that is there loses less than others.
        """
        context, isr = self._context, set(state.isr)
        suspects, able = context.suspects_among(tp), context.online & isr
        waited = not context.waits_for_isr or isr <= suspects & context.live.keys()
        if able and able <= suspects and (unclean or waited):
            context.suspects.pop(tp, None)
            context.forced.add(tp)
            context.begun_anew.add(tp)

    def _write(
        self, tp: TopicPartition, choice: Choice, epoch: LeaderEpoch, expected: ZkVersion | None
    ) -> StateWrite:
        return StateWrite(
            partition=tp,
            leader=choice.leader,
            leader_epoch=epoch,
            isr=choice.isr,
            controller_epoch=self._context.epoch,
            expected=expected,
            broker_epochs={
                member: self._trusted_up_to(tp, choice, member) for member in choice.isr
            },
        )

    def _trusted_up_to(self, tp: TopicPartition, choice: Choice, member: BrokerId) -> int:
        """The broker epoch as which ``member`` is in the ISR that is written.

        It stays what it was, unless the ISR begins anew. 3 loses power and is back, and before this
        controller looks, it takes the dead 2 out of the ISR and dies itself. By the time of that
        write, its successor would take 3 for one that never was away.
        """
        context, state = self._context, self._context.states.get(tp)
        if state is None or member not in state.isr:
            return context.live[member].epoch
        begins_anew = state.leader == NO_LEADER or tp in context.begun_anew
        if begins_anew and choice.leader != NO_LEADER and member in context.live:
            return context.live[member].epoch
        return state.trusted_up_to(member)

    # --- outcomes ---------------------------------------------------------------------------

    def written(self, event: StatesWritten, done: Callable[[TopicPartition], None]) -> None:
        """Take in outcomes: announce what was written (``done`` is called for it before), and
        decide again what met a conflict."""
        untold: list[TopicPartition] = []

        def take(tp: TopicPartition) -> None:
            if not self._take(tp, event.written[tp], done):
                untold.append(tp)

        def conflict(tp: TopicPartition) -> None:
            if self._read_again(tp, event.conflicts[tp]):
                untold.append(tp)

        def tell(tp: TopicPartition) -> None:
            if tp in self._context.states and tp not in self._context.writing:
                self.announce(tp, None)

        self._outbox.each(event.written, take)
        self._outbox.each(event.conflicts, conflict)
        self.reconsider([*event.written, *untold])
        self._outbox.each(untold, tell)

    def _take(
        self, tp: TopicPartition, version: ZkVersion, done: Callable[[TopicPartition], None]
    ) -> bool:
        """False when it was not announced because something else will have to be written."""
        context = self._context
        write = context.writing.pop(tp, None)
        if write is None or context.assignment(tp) is None:
            return True
        before = context.states.get(tp)
        context.adopt(tp, write.written_at(version))
        # Wishes (preferred, unclean_once) stay: they may have come up during the write.
        context.forced.discard(tp)
        context.begun_anew.discard(tp)
        done(tp)
        if self._still_suspected(write):
            return False
        self.announce(tp, before)
        return True

    def _still_suspected(self, write: StateWrite) -> bool:
        """Whether the write was decided before a broker in its ISR went down: the next one will
        say so. Without a leader the ISR is kept, so that is no sign.

        1 is being given its preferred leadership back when it loses power and returns. Announced
        as written, it would lead with what is left of its log, and the others cut theirs to match.
        """
        tp, suspects = write.partition, self._context.suspects
        left = suspects.pop(tp, set()) & set(write.isr)
        if left and write.leader != NO_LEADER:
            suspects[tp] = left
        return tp in suspects

    def _read_again(self, tp: TopicPartition, fresh: PartitionState | None) -> bool:
        """Take in a state that was read again. Brokers may not have been told of it (see
        :meth:`introduce`), even if nothing is to be written any more."""
        context = self._context
        context.writing.pop(tp, None)
        if fresh is None or not context.assignment(tp) or tp.topic in context.deleting:
            return False
        context.adopt(tp, fresh)
        if tp in context.begun_anew:
            # Of 1 and 2, who both bounced, 1 was to lead anew, and the ISR was 1, 2 and 3 already:
            # 3 is away, and has everything.
            context.begun_anew.discard(tp)
            context.suspect_bounced([tp])
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
                left_out = tp in context.writing or tp.topic in context.deleting
                if tp in context.states and assignment and not left_out:
                    batch.role(context, broker, tp, assignment.replicas)
            if context.writing.keys().isdisjoint(tps):
                batch.complete(broker)
