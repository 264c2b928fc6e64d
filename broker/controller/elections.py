"""Elections on request: by administrators, by the leader rebalance, or after a changed setting.

The rules for choosing leaders are in :mod:`broker.controller.plan`. This module decides for which
partitions they are applied again, and what the requester is answered (KIP-183, KIP-460).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import (
    Answer,
    DropPreferredElection,
    ElectionAsked,
    Outcome,
)
from ackproof.broker.controller.partitions import Partitions
from ackproof.broker.controller.pending import PendingElection, PendingOrder, Pendings
from ackproof.broker.controller.requests import Outbox
from ackproof.broker.types import BrokerId, TopicPartition


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
