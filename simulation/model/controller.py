"""The decisions of a controller, judged by what it knows at that moment.

- **Isr/restarted-broker-stays**: when a controller has nothing to write, the ISR of a led partition
  has no broker that registered again since it joined. Such a broker may have lost the end of its
  log.
- **Election/restarted-broker-leads**: no such broker gets leadership or is named as leader. It
  would append after the end that it lost, and its followers would truncate their logs.
- **Election/leader-replaced-without-need**: a leader is replaced by none, or by a broker outside
  the ISR, only when no member of the ISR could lead
  (``ControlledShutdownPartitionLeaderElectionStrategy``).
- **Election/eligible-leader-not-elected**: if there is no leader and a member of the ISR could
  lead, one is elected.
- **Isr/dead-broker-stays**: an ISR that is written with a leader has only live brokers, since each
  counts for ``min.insync.replicas``.
- **Election/leadership-kept-at-shutdown**: a broker that stops in order leads nothing that another
  broker could lead.
"""

from collections.abc import Iterator, Sequence, Set
from weakref import WeakKeyDictionary

from ackproof.broker.controller.cluster import PartitionState, ReplicaAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import (
    AnswerShutdown,
    Effect,
    Send,
    StateWrite,
    WriteStates,
)
from ackproof.broker.controller.plan import bounced, suspects
from ackproof.broker.types import NO_LEADER, BrokerId, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from simulation.violation import Violation


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
        self._known: dict[TopicPartition, PartitionState] = {}
        self._joined: dict[tuple[TopicPartition, BrokerId], int] = {}
        """The broker epoch of each broker when it joined an ISR. A leader that has not seen the
        broker's registration lets it in without an epoch."""

    def stepped(self, context: Context, effects: Sequence[Effect]) -> None:
        """Judge a step; raises Violation."""
        self.check_bounced_brokers(context, effects)
        check_leaders(context, effects)

    # --- brokers that registered again --------------------------------------------------------

    def check_bounced_brokers(self, context: Context, effects: Sequence[Effect]) -> None:
        """Judge brokers that registered again and lead or are in sync. Raises Violation."""
        for tp, state in context.states.items():
            self._note_joined(context, tp, state)
        for tp, state, _ in settled(context):
            there = [] if state.leader == NO_LEADER else self._bounced(context, tp, state)
            if there:
                what = f"brokers {there}, which restarted, stay in the ISR {list(state.isr)}"
                raise Violation(
                    "Isr/restarted-broker-stays", f"{tp}: {what}, and nothing is written"
                )
        for effect in effects:
            if type(effect) is Send and isinstance(effect.request, LeaderAndIsrRequest):
                self._check_sent_leaders(context, effect.broker, effect.request)

    def _check_sent_leaders(
        self, context: Context, broker: BrokerId, request: LeaderAndIsrRequest
    ) -> None:
        for topic in request.topic_states:
            for part in topic.partition_states:
                tp = TopicPartition(topic.topic_name, part.partition_index)
                state = context.states.get(tp)
                if state is not None and state.leader in self._bounced(context, tp, state):
                    what = f"broker {broker} is informed that {state.leader} leads {tp} since epoch"
                    what = f"{what} {state.leader_epoch}, and {state.leader} has restarted since"
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
    """Yield the partitions that stay and of which nothing is being written, except those that a
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
    """Judge the present leaders, the elections and the controlled shutdowns. Raises Violation."""
    for effect in effects:
        if type(effect) is WriteStates:
            for write in effect.writes:
                _check_state_write(context, write)
        elif type(effect) is AnswerShutdown:
            _check_shutdown(context, effect)
    for tp, state, assignment in settled(context):
        able = _trusted(context, tp, state) & context.online & set(assignment.replicas)
        if able and state.leader not in context.live:
            what = f"{tp} has no leader, though {sorted(able)} could lead, and nothing is written"
            raise Violation("Election/eligible-leader-not-elected", what)


def _check_state_write(context: Context, write: StateWrite) -> None:
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


def _check_shutdown(context: Context, answer: AnswerShutdown) -> None:
    for tp in answer.remaining:
        state = context.states[tp]
        others = context.live.keys() - context.stopping - {state.leader}
        able = others & _trusted(context, tp, state)
        if able:
            what = f"broker {state.leader} keeps leading {tp} when it stops, though {sorted(able)}"
            raise Violation("Election/leadership-kept-at-shutdown", f"{what} could lead")
