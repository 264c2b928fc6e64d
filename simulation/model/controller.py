"""What a controller decides, judged by what it knows itself when it has decided.

* **Controller/role-not-sent**: when a leader is decided, all live replicas are told, and also a
  former leader that is about to stop. A deposed leader that is not told leads on: it acknowledges
  acks=1 writes that are lost. **Controller/answered-before-sent**: they are told before the request
  is answered.
* **Isr/restarted-broker-stays**: where a controller has nothing to write, no broker that registered
  anew since it joined is in the ISR of a led partition: it may have lost its log's end.
* **Election/restarted-broker-leads**: nor is such a broker told to lead, or named as leader. It
  would append after the end that it lost, and its followers would truncate theirs.
* **Election/leader-replaced-without-need**: a leader is replaced by none, or by a broker outside
  the ISR, only when no member of the ISR could lead
  (``ControlledShutdownPartitionLeaderElectionStrategy``).
* **Election/eligible-leader-not-elected**: where there is no leader and a member of the ISR could
  lead, one is elected.
* **Isr/dead-broker-stays**: an ISR that is written with a leader has only live brokers: each counts
  for ``min.insync.replicas``.
* **Election/leadership-kept-at-shutdown**: a broker that stops in order leads nothing that another
  broker could lead.
* **Deletion/hosted-replica-counts-as-deleted**: no replica of a topic that stays counts as deleted
  (Kafka's ``NonExistentReplica``): when its topic goes, it would not be told to delete its log.
* **Deletion/replica-forgotten**: of a topic that is being deleted, every replica is being deleted,
  has been, or waits for its broker.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Final
from weakref import WeakKeyDictionary

from ackproof.broker.controller.cluster import PartitionState, ReplicaAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import (
    Answer,
    AnswerShutdown,
    DropIsrChanges,
    DropPreferredElection,
    Effect,
    Send,
    StateWrite,
    WriteStates,
)
from ackproof.broker.controller.plan import bounced, suspects
from ackproof.broker.controller.state_machines import ReplicaPhase
from ackproof.broker.types import NO_LEADER, BrokerId, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest
from simulation.violation import Violation

ANSWERS: Final = (Answer, AnswerShutdown, DropIsrChanges, DropPreferredElection)
GOING: Final = (
    ReplicaPhase.DELETION_STARTED,
    ReplicaPhase.DELETION_SUCCESSFUL,
    ReplicaPhase.DELETION_INELIGIBLE,
)

Role = tuple[int, int]
"""A leader and its epoch."""


class ControllersModel:
    """The controllers of all brokers, each in its epoch."""

    def __init__(self) -> None:
        self._by_context: WeakKeyDictionary[Context, ControllerModel] = WeakKeyDictionary()

    def stepped(self, context: Context, effects: Sequence[Effect]) -> None:
        """Judge a step of a controller that knows ``context`` then; raises Violation."""
        self._by_context.setdefault(context, ControllerModel()).stepped(context, effects)


class ControllerModel:
    """One controller in one epoch."""

    def __init__(self) -> None:
        self._told: dict[tuple[BrokerId, int], dict[TopicPartition, Role]] = {}
        """What each broker was told last, by broker and broker epoch."""
        self._known: dict[TopicPartition, PartitionState] = {}
        self._joined: dict[tuple[TopicPartition, BrokerId], int] = {}
        """The broker epoch of each broker when it joined an ISR: a leader that has not seen its
        registration yet lets it in without one."""

    def stepped(self, context: Context, effects: Sequence[Effect]) -> None:
        """Judge a step; raises Violation."""
        self.check_roles(context, effects)
        self.check_bounced(context, effects)
        check_leaders(context, effects)
        check_deletions(context)

    # --- roles ------------------------------------------------------------------------------

    def check_roles(self, context: Context, effects: Sequence[Effect]) -> None:
        """Judge who was told of the leaders; raises Violation."""
        answered: Effect | None = None
        for effect in effects:
            if isinstance(effect, ANSWERS):
                answered = effect
            elif type(effect) is Send:
                self._sent(effect)
                if answered is not None and isinstance(effect.request, LeaderAndIsrRequest):
                    what = f"{type(answered).__name__} comes before broker {effect.broker} is told"
                    raise Violation(
                        "Controller/answered-before-sent", f"{what} its roles, in one step"
                    )
        for tp, state, assignment in settled(context):
            now = (state.leader, state.leader_epoch)
            for broker in context.live.keys() & set(assignment.replicas):
                told = self._told.get((broker, context.live[broker].epoch), {}).get(tp)
                stops = broker in context.stopping
                if told != now and (not stops or (told is not None and told[0] == broker)):
                    what = f"{state.leader} leads {tp} in epoch {state.leader_epoch}"
                    raise Violation(
                        "Controller/role-not-sent", f"{what}, and broker {broker} heard {told}"
                    )

    def _sent(self, effect: Send) -> None:
        request = effect.request
        if isinstance(request, LeaderAndIsrRequest):
            roles = self._told.setdefault((effect.broker, request.broker_epoch), {})
            for topic in request.topic_states:
                for part in topic.partition_states:
                    tp = TopicPartition(topic.topic_name, part.partition_index)
                    roles[tp] = part.leader, part.leader_epoch
        elif isinstance(request, StopReplicaRequest):
            roles = self._told.setdefault((effect.broker, request.broker_epoch), {})
            for each in request.topic_states:
                for stop in each.partition_states:
                    if stop.delete_partition:
                        roles.pop(TopicPartition(each.topic_name, stop.partition_index), None)

    # --- brokers that registered anew ---------------------------------------------------------

    def check_bounced(self, context: Context, effects: Sequence[Effect]) -> None:
        """Judge where brokers that registered anew lead or are in sync; raises Violation."""
        for tp, state in context.states.items():
            self._note_joined(context, tp, state)
        for tp, state, _ in settled(context):
            there = [] if state.leader == NO_LEADER else self._bounced(context, tp, state)
            if there:
                what = f"brokers {there}, which bounced, stay in the ISR {list(state.isr)}"
                raise Violation(
                    "Isr/restarted-broker-stays", f"{tp}: {what}, and nothing is written"
                )
        for effect in effects:
            if type(effect) is Send and isinstance(effect.request, LeaderAndIsrRequest):
                self._bounced_do_not_lead(context, effect.broker, effect.request)

    def _bounced_do_not_lead(
        self, context: Context, broker: BrokerId, request: LeaderAndIsrRequest
    ) -> None:
        for topic in request.topic_states:
            for part in topic.partition_states:
                tp = TopicPartition(topic.topic_name, part.partition_index)
                state = context.states.get(tp)
                if state is not None and state.leader in self._bounced(context, tp, state):
                    what = f"broker {broker} is told that {state.leader} leads {tp} since epoch"
                    what = f"{what} {state.leader_epoch}, and it has bounced since"
                    raise Violation("Election/restarted-broker-leads", what)

    def _bounced(self, context: Context, tp: TopicPartition, state: PartitionState) -> list[int]:
        live = context.live
        there = (b for b in bounced(state, live) if self._joined.get((tp, b)) != live[b].epoch)
        return sorted(there)

    def _note_joined(self, context: Context, tp: TopicPartition, state: PartitionState) -> None:
        known, self._known[tp] = self._known.get(tp), state
        if known is None or known is state:
            return
        for broker in context.live.keys() & set(state.isr) - set(known.isr):
            if context.live[broker].epoch < state.mzxid:
                self._joined[tp, broker] = context.live[broker].epoch


def settled(
    context: Context,
) -> Iterator[tuple[TopicPartition, PartitionState, ReplicaAssignment]]:
    """Return the partitions that stay and of which nothing is being written, but for those that a
    successor has written."""
    for tp, state in context.states.items():
        assignment = context.assignment(tp)
        if assignment is None or tp in context.writing or context.deletes(tp.topic):
            continue
        if state.controller_epoch <= context.epoch:
            yield tp, state, assignment


def _trusted(context: Context, tp: TopicPartition, state: PartitionState) -> Set[BrokerId]:
    """Return the members of the ISR whose logs have what it says."""
    return set(state.isr) - suspects(context.intents[tp], state, context.live)


# --- leaders ------------------------------------------------------------------------------------


def check_leaders(context: Context, effects: Sequence[Effect]) -> None:
    """Judge who leads, is to lead, or hands over; raises Violation."""
    for effect in effects:
        if type(effect) is WriteStates:
            for write in effect.writes:
                _leaders_stay(context, write)
        elif type(effect) is AnswerShutdown:
            _hands_over(context, effect)
    for tp, state, assignment in settled(context):
        able = _trusted(context, tp, state) & context.online & set(assignment.replicas)
        if able and state.leader not in context.live:
            what = f"{tp} has no leader, though {sorted(able)} could lead, and nothing is written"
            raise Violation("Election/eligible-leader-not-elected", what)


def _leaders_stay(context: Context, write: StateWrite) -> None:
    tp = write.partition
    state, assignment = context.states.get(tp), context.assignment(tp)
    dead = sorted(set(write.isr) - context.live.keys())
    if dead and write.leader != NO_LEADER:
        what = f"{write.leader} is to lead {tp}, and its ISR {list(write.isr)} has {dead}"
        raise Violation("Isr/dead-broker-stays", f"{what}, which are not alive")
    if state is None or assignment is None:
        return
    trusted = _trusted(context, tp, state)
    if write.leader in context.stopping:
        left = sorted((trusted & context.stopping) - set(write.isr))
        if left:
            what = f"{write.leader} leads {tp} until it stops, and {left}, which stop with it"
            raise Violation(
                "Election/leader-replaced-without-need",
                f"{what}, are taken out of the ISR {list(state.isr)}",
            )
    if write.leader in state.isr:
        return
    able = trusted & context.online & set(assignment.replicas)
    able |= trusted & context.stopping & {state.leader}
    if able:
        what = f"{write.leader} replaces {state.leader} as the leader of {tp}"
        raise Violation(
            "Election/leader-replaced-without-need", f"{what}, though {sorted(able)} could lead"
        )


def _hands_over(context: Context, answer: AnswerShutdown) -> None:
    for tp in answer.remaining:
        state = context.states[tp]
        others = context.live.keys() - context.stopping - {state.leader}
        able = others & _trusted(context, tp, state)
        if able:
            what = f"broker {state.leader} keeps leading {tp} when it stops, though {sorted(able)}"
            raise Violation("Election/leadership-kept-at-shutdown", f"{what} could lead")


# --- deletions ----------------------------------------------------------------------------------


def check_deletions(context: Context) -> None:
    """Judge which replicas are deleted; raises Violation."""
    for tp in context.replica_phases.partitions():
        deletes = context.deletes(tp.topic)
        moves_on = deletes and tp.topic in context.deletions and not _is_written(context, tp.topic)
        for broker, phase in context.replica_phases.of(tp):
            if not deletes and phase is ReplicaPhase.DELETION_SUCCESSFUL:
                what = f"the replica of {tp} on broker {broker} counts as deleted, and its topic"
                raise Violation("Deletion/hosted-replica-counts-as-deleted", f"{what} stays")
            if moves_on and phase not in GOING:
                what = f"{tp.topic} is being deleted, and {tp} on broker {broker} is"
                raise Violation("Deletion/replica-forgotten", f"{what} {phase.value}")


def _is_written(context: Context, topic: str) -> bool:
    return not context.writing.keys().isdisjoint(tuple(context.partitions_of(topic)))
