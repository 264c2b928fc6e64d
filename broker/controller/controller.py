"""The controller, with one step per event.

It owns the context of one controller epoch, from :class:`Elected` to :class:`Resigned`. Between
epochs it knows nothing and does nothing. The order of actions at an election is Kafka's. Brokers
first learn which brokers are live, then their roles. Only then are missing leaders elected.

A broker that registers again between two reads has bounced. It counts as failed, then as new, and
its new endpoints come with its new registration. Not handled: replicas on failed log directories,
and registrations overwritten by their brokers. Kafka's brokers overwrite theirs when their
listeners change at run time, which ours cannot.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import PartitionState, TopicAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Effect, Event, StatesWritten
from ackproof.broker.controller.orders import Deletions, Elections, Reassignments
from ackproof.broker.controller.partitions import Partitions
from ackproof.broker.controller.pending import (
    PendingDeletion,
    PendingElection,
    PendingOrder,
    Pendings,
    PendingShutdown,
)
from ackproof.broker.controller.requests import Outbox
from ackproof.broker.types import BrokerId, TopicPartition


class Controller:
    """The controller of broker ``controller_id``, without I/O.

    ``inter_broker_listener`` names the endpoint by which brokers reach each other
    (``inter.broker.listener.name``).
    """

    def __init__(self, controller_id: BrokerId, inter_broker_listener: str = "PLAINTEXT") -> None:
        self._outbox = Outbox(controller_id, inter_broker_listener)
        self._epoch: _Epoch | None = None

    @property
    def context(self) -> Context | None:
        """The state of this controller epoch, for others to read. None between epochs."""
        return None if self._epoch is None else self._epoch.context

    def step(self, event: Event) -> tuple[Effect, ...]:
        """Process one event, and return the effects in the order in which they must be
        carried out."""
        if isinstance(event, events.Elected):
            self._epoch = _Epoch(event, self._outbox)
        elif isinstance(event, events.Resigned):
            self._epoch = None
        if self._epoch is not None:
            self._epoch.take(event)
        return () if self._epoch is None else self._outbox.take(self._epoch.context)


class _Epoch:
    """The parts that live as long as this broker is the controller."""

    def __init__(self, event: events.Elected, outbox: Outbox) -> None:
        """Create the parts. Nothing is known before ``event`` is processed."""
        self.context = Context(
            event.epoch, waits_for_isr=event.waits_for_isr, by_isr_order=event.by_isr_order
        )
        self._outbox = outbox
        self._pendings = Pendings()
        self._partitions = Partitions(self.context, outbox)
        self._deletions = Deletions(self.context, outbox, self._pendings)
        self._reassignments = Reassignments(self.context, outbox, self._partitions, self._deletions)
        self._writes = Writes(self.context, outbox, self._partitions, self._reassignments)
        self._elections = Elections(self.context, outbox, self._partitions, self._pendings)
        self._handlers: Mapping[type, Callable[[Any], None]] = {
            events.Elected: self._elected,
            events.BrokersChanged: self._brokers_changed,
            events.TopicsChanged: self._topics_changed,
            events.IsrChanged: self._isr_changed,
            events.StatesWritten: self._states_written,
            events.PreferredElectionAsked: lambda e: self._elections.follow_znode(e.partitions),
            events.ElectionAsked: self._elections.ask,
            events.UncleanElectionsChanged: lambda e: self._elections.unclean_changed(e.enabled),
            events.RebalanceLeaders: lambda e: self._elections.give_back(e.imbalance_percentage),
            events.ControlledShutdownAsked: self._controlled_shutdown_asked,
            events.DeletionAsked: lambda e: self._deletions.ask(e.topics),
            events.ReassignmentAsked: lambda e: self._reassignments.ask(e.targets),
            events.ReassignmentsAltered: self._reassignments.alter,
            events.StopReplicaAnswered: self._stop_replica_answered,
        }
        self._settlements: Mapping[type, Callable[[Any], None]] = {
            PendingShutdown: self._answer_shutdown,
            PendingOrder: lambda _: self._elections.drop_order(),
            PendingElection: self._elections.answer,
            PendingDeletion: self._begin_deletion,
        }

    def take(self, event: Event) -> None:
        """Process an event. Effects that it had before an error are carried out all the same.
        Otherwise state writes would stay marked as pending, and their partitions would be ignored
        for ever."""
        try:
            self._handlers[type(event)](event)
            self._settle()
        except Exception as error:  # noqa: BLE001  reported, with its event
            token = getattr(event, "token", None)
            self._outbox.put(events.Failed(what=type(event).__name__, error=error, token=token))

    def _elected(self, event: events.Elected) -> None:
        context = self.context
        context.live = dict(event.live)
        context.topics = dict(event.topics)
        context.unclean = set(event.unclean)
        self._discover(context.partitions(), event.states)
        self._partitions.suspect_bounced(context.states)
        # Send all metadata before anything else. Whatever a broker learned from former controllers
        # and is not in it is gone (MetadataCache.update).
        self._outbox.batch.metadata(context.live, context.partitions())
        self._outbox.flush(context)
        self._partitions.reconsider(context.partitions())
        self._partitions.introduce(context.live)

    # --- brokers ----------------------------------------------------------------------------

    def _brokers_changed(self, event: events.BrokersChanged) -> None:
        known = self.context.live
        bounced = {b for b in known if b in event.live and event.live[b].epoch > known[b].epoch}
        died = {b for b in known if b not in event.live} | bounced
        came = {b for b in event.live if b not in known} | bounced
        if died:
            self._brokers_down(died)
        if came:
            self._brokers_up({b: event.live[b] for b in sorted(came)})

    def _brokers_down(self, died: set[BrokerId]) -> None:
        """Elect other leaders for the partitions of brokers that went down."""
        context = self.context
        context.live = {b: live for b, live in context.live.items() if b not in died}
        context.stopping -= died
        affected = context.partitions_on(died)
        for tp in affected:
            self._partitions.suspect(tp, died)
        self._deletions.brokers_down(died)
        self._partitions.follow_brokers(affected)
        self._partitions.reconsider(affected)
        self._outbox.batch.metadata(context.live, ())

    def _brokers_up(self, came: Mapping[BrokerId, Any]) -> None:
        """Tell new brokers everything, and elect leaders for partitions that waited for them."""
        context = self.context
        self._outbox.batch.metadata(context.live, ())
        context.live.update(came)
        self._outbox.batch.metadata(came, context.partitions())
        self._outbox.flush(context)
        affected = context.partitions_on(came.keys())
        self._partitions.follow_brokers(affected)
        self._partitions.reconsider(affected)
        self._partitions.introduce(came.keys())
        self._deletions.brokers_up(came.keys())

    def _controlled_shutdown_asked(self, event: events.ControlledShutdownAsked) -> None:
        context = self.context
        live = context.live.get(event.broker)
        if live is None or event.broker_epoch not in (-1, live.epoch):
            error = ErrorCode.broker_not_available if live is None else ErrorCode.stale_broker_epoch
            self._outbox.put(events.AnswerShutdown(token=event.token, error=error))
            return
        context.stopping.add(event.broker)
        affected = [tp for tp in context.partitions_on([event.broker]) if self._hands_over(tp)]
        self._partitions.follow_brokers(affected)
        self._partitions.reconsider(affected)
        self._stop_followers(event.broker, affected)
        self._pendings.add(
            PendingShutdown(partitions=tuple(affected), broker=event.broker, token=event.token)
        )

    def _hands_over(self, tp: TopicPartition) -> bool:
        """Return whether another broker could lead the partition (as in Kafka's
        ``doControlledShutdown``).

        Suppose the deletion of a topic waits for broker 3, which is down. No leader is elected for
        the topic any more. If it counted, broker 1, which led it, would be told at each attempt
        that it still leads.
        """
        assignment = self.context.assignment(tp)
        replicated = assignment is not None and len(assignment.replicas) > 1
        return replicated and not self.context.deletes(tp.topic)

    def _stop_followers(self, broker: BrokerId, tps: list[TopicPartition]) -> None:
        """Stop replicas outside the ISR at once, because no state must be written for them."""
        for tp in tps:
            state = self.context.states.get(tp)
            if state and tp not in self.context.writing and state.leader != broker:
                self._outbox.batch.stop(broker, tp, state.leader_epoch, delete=False)

    def _answer_shutdown(self, asked: PendingShutdown) -> None:
        states = self.context.states
        led = (tp for tp in asked.partitions if tp in states and states[tp].leader == asked.broker)
        remaining = tuple(filter(self._hands_over, led))
        self._put_last(
            events.AnswerShutdown(token=asked.token, error=ErrorCode.none, remaining=remaining)
        )

    def _put_last(self, effect: Effect) -> None:
        """Put an effect after the requests that are being collected."""
        self._outbox.flush(self.context)
        self._outbox.put(effect)

    # --- topics and partitions --------------------------------------------------------------

    def _topics_changed(self, event: events.TopicsChanged) -> None:
        """Take over new, extended and deleted topics.

        Partitions that are added to a topic while it is being deleted are ignored, as in Kafka
        (``processPartitionModifications``). No broker is told of them, and their znodes are removed
        with the topic's. Kafka also restores the former assignment.

        Suppose brokers 1 and 2 are deleting partition 0 when partition 1 is added. If it were taken
        over, it would have replicas that no broker was told to delete. The topic would then stay
        until the controller changes.
        """
        context = self.context
        for topic in (*event.gone, *self._made_again(event.topics)):
            self._forget(topic)
        context.unclean = (context.unclean - event.topics.keys()) | event.unclean
        found: list[TopicPartition] = []
        for topic, assigned in event.topics.items():
            known = context.topics.get(topic)
            if context.deletes(topic):
                continue
            if known is None:
                context.topics[topic] = assigned
            else:
                merged = {**assigned.partitions, **known.partitions}
                context.topics[topic] = type(assigned)(
                    topic_id=known.topic_id, partitions=dict(sorted(merged.items()))
                )
            old = known.partitions if known else {}
            found += [TopicPartition(topic, p) for p in assigned.partitions if p not in old]
        self._discover(found, event.states)
        self._partitions.reconsider(found)

    def _made_again(self, topics: Mapping[str, TopicAssignment]) -> list[str]:
        """Return the topics that were deleted and created again under the same name between two
        reads."""
        known = self.context.topics
        return [t for t in topics if t in known and known[t].topic_id != topics[t].topic_id]

    def _discover(
        self, tps: Iterable[TopicPartition], states: Mapping[TopicPartition, PartitionState]
    ) -> None:
        self._outbox.each(tps, lambda tp: self._partitions.discover(tp, states.get(tp)))

    def _isr_changed(self, event: events.IsrChanged) -> None:
        context = self.context
        known = [tp for tp in event.states if context.assignment(tp) is not None]
        self._outbox.each(known, lambda tp: self._partitions.adopt(tp, event.states[tp]))
        self._outbox.batch.metadata(context.live, known)
        self._partitions.reconsider(known)
        self._put_last(events.DropIsrChanges(notifications=event.notifications))

    def _forget(self, topic: str) -> None:
        self._partitions.forget(topic)
        self._settle()

    def _stop_replica_answered(self, event: events.StopReplicaAnswered) -> None:
        for topic in self._deletions.answered(event.broker, event.errors):
            self._end_deletion(topic)

    def _begin_deletion(self, pending: PendingDeletion) -> None:
        self._deletions.begin(pending.topic)
        if self._deletions.is_deleted(pending.topic):
            self._end_deletion(pending.topic)

    def _end_deletion(self, topic: str) -> None:
        topic_id = self.context.topics[topic].topic_id
        self._forget(topic)
        self._outbox.put(events.DeleteTopic(topic=topic, topic_id=topic_id))

    # --- writes -----------------------------------------------------------------------------

    def _states_written(self, event: events.StatesWritten) -> None:
        moved = self._writes.take(event)
        self._settle()
        self._reassignments.conclude(moved)

    def _settle(self) -> None:
        """Continue with the actions whose writes have completed."""
        for pending in self._pendings.take_settled(self.context.writing):
            self._outbox.attempt(
                "an action after state writes", partial(self._settlements[type(pending)], pending)
            )


# --- state writes ---------------------------------------------------------------------------------
#
# The outcomes of state writes: a written state is announced, and a conflict is decided again.


class Writes:
    """The processing of the outcomes of :class:`~broker.controller.events.WriteStates`."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        partitions: Partitions,
        reassignments: Reassignments,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._partitions = partitions
        self._reassignments = reassignments

    def take(self, event: StatesWritten) -> tuple[TopicPartition, ...]:
        """Process outcomes, and return the partitions whose reassignment they complete."""
        unannounced: list[TopicPartition] = []
        moved: list[TopicPartition] = []

        def written(tp: TopicPartition) -> None:
            before = self._context.states.get(tp)
            write = self._partitions.written(tp, event.written[tp])
            if write is None:
                return
            if self._reassignments.finish(tp):
                moved.append(tp)
            if self._partitions.keep_suspects(write):
                unannounced.append(tp)
            else:
                self._partitions.announce(tp, before)

        def conflict(tp: TopicPartition) -> None:
            if self._partitions.read_again(tp, event.conflicts[tp]):
                unannounced.append(tp)

        def tell(tp: TopicPartition) -> None:
            if tp in self._context.states and tp not in self._context.writing:
                self._partitions.announce(tp, None)

        self._outbox.each(event.written, written)
        self._outbox.each(event.conflicts, conflict)
        self._partitions.reconsider([*event.written, *unannounced])
        self._outbox.each(unannounced, tell)
        return tuple(moved)
