"""What is to be written of a partition, from what is known of the cluster and what is wanted.

Pure: it may be asked of any partition at any time, and has nothing to write when all is as it
should be. So repeated, late or reordered events do no harm.
"""

from collections.abc import Set
from dataclasses import dataclass, replace

from ackproof.broker.controller.cluster import PartitionState, ReplicaAssignment
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import StateWrite
from ackproof.broker.controller.intent import Intent
from ackproof.broker.controller.rules.election import Choice, choose, first_leader
from ackproof.broker.controller.rules.suspicion import suspects, who_may_have_joined
from ackproof.broker.types import NO_LEADER, BrokerId, LeaderEpoch, TopicPartition

FIRST_EPOCH = LeaderEpoch(0)


@dataclass(frozen=True, slots=True)
class Plan:
    """A state to write, if any, and the intent that is left."""

    write: StateWrite | None
    intent: Intent


def plan(context: Context, tp: TopicPartition) -> Plan:
    """For one partition of which nothing is being written."""
    assignment, state, intent = context.assignment(tp), context.states.get(tp), context.intents[tp]
    if assignment is None or context.deletes(tp.topic):
        return Plan(None, intent)
    if state is None:
        return Plan(_first(context, tp, assignment), intent)
    if state.controller_epoch > context.epoch:
        return Plan(None, intent)  # a successor's: it knows of brokers that came or went since
    unclean = tp.topic in context.unclean or intent.unclean_once
    intent = trusting_if_nobody_else(context, assignment, state, intent, unclean=unclean)
    suspected = suspects(intent, state, context.live)
    reassigned = is_reassigned(context, assignment, state, intent)
    choice = choose(
        state,
        assignment.target if reassigned else assignment.replicas,
        online=context.online - suspected,
        stopping=context.stopping - suspected,
        unclean=unclean,
        preferred=intent.preferred,
        by_isr_order=context.by_isr_order,
    )
    if intent.begun_anew and choice.leader != NO_LEADER:
        choice = Choice(choice.leader, (choice.leader,))
    unchanged = choice == Choice(state.leader, state.isr)
    if unchanged and not reassigned and not intent.forced:
        granted = replace(intent, preferred=False, unclean_once=False)
        return Plan(None, who_may_have_joined(granted, state))
    return Plan(_next(context, tp, state, intent, choice), intent)


def is_reassigned(
    context: Context, assignment: ReplicaAssignment, state: PartitionState, intent: Intent
) -> bool:
    """Whether a reassignment has come to its last phase: all target replicas are in sync, or,
    when it was cancelled, any of them."""
    if not assignment.adding and not assignment.removing:
        return False
    target = set(assignment.target)
    in_sync = (set(state.isr) & context.online) - suspects(intent, state, context.live)
    return not target.isdisjoint(in_sync) if intent.taken_back else target <= in_sync


def trusting_if_nobody_else(
    context: Context,
    assignment: ReplicaAssignment,
    state: PartitionState,
    intent: Intent,
    *,
    unclean: bool,
) -> Intent:
    """When all of the ISR bounced, as after a power cut of the whole cluster, whatever they
    lost nobody has more. One of them leads in a new epoch, by which followers cut to what is
    left; in the old one it would append behind the end that it lost. It is alone in the ISR:
    who has less would lead as soon as it dies, and is let in when it has caught up.

    With ``waits_for_isr`` one that is away is waited for, as KIP-966 has it: 2 lost power and
    is back, and 1, which dies before 2 has left the ISR, has all that was acknowledged on its
    disk. Seed 002 has whoever is back first lead ("any of them"), and so does an unclean
    election: one of the ISR that is there loses less than others.

    It must be a replica. A person writes another assignment, and the next controller finds 3 alone
    in the ISR, bounced, and no replica any more: trusted, it could not lead, and would be a suspect
    again, trusted again and written down again, and the controller do nothing else for ever.
    """
    isr = set(state.isr)
    suspected = suspects(intent, state, context.live)
    able = context.online & isr & set(assignment.replicas)
    waited = not context.waits_for_isr or isr <= suspected & context.live.keys()
    if able and able <= suspected and (unclean or waited):
        return replace(intent, suspects=frozenset(), forced=True, begun_anew=True)
    return intent


def _first(
    context: Context, tp: TopicPartition, assignment: ReplicaAssignment
) -> StateWrite | None:
    choice = first_leader(assignment.replicas, context.online)
    if choice is None:
        return None
    return StateWrite(
        partition=tp,
        leader=choice.leader,
        leader_epoch=FIRST_EPOCH,
        isr=choice.isr,
        controller_epoch=context.epoch,
        expected=None,
        broker_epochs={member: context.live[member].epoch for member in choice.isr},
    )


def _next(
    context: Context, tp: TopicPartition, state: PartitionState, intent: Intent, choice: Choice
) -> StateWrite:
    begins_anew = choice.leader != NO_LEADER and (state.leader == NO_LEADER or intent.begun_anew)
    vouched_anew = context.live.keys() if begins_anew else frozenset[BrokerId]()
    return StateWrite(
        partition=tp,
        leader=choice.leader,
        leader_epoch=LeaderEpoch(state.leader_epoch + 1),
        isr=choice.isr,
        controller_epoch=context.epoch,
        expected=state.zk_version,
        broker_epochs={
            member: _trusted_up_to(context, state, member, vouched_anew) for member in choice.isr
        },
    )


def _trusted_up_to(
    context: Context, state: PartitionState, member: BrokerId, vouched_anew: Set[BrokerId]
) -> int:
    """The broker epoch as which ``member`` is in the ISR that is written.

    It stays what it was, unless the ISR begins anew. 3 loses power and is back, and before this
    controller looks, it takes the dead 2 out of the ISR and dies itself. By the time of that
    write, its successor would take 3 for one that never was away.
    """
    if member not in state.isr or member in vouched_anew:
        return context.live[member].epoch
    return state.trusted_up_to(member)
