"""**LeadersStay**: a leader gives way to nobody, or to somebody outside the ISR, only when no
member of the ISR is left that could lead.

One that stops in order and is alone in sync is such a member until it is gone
(``ControlledShutdownPartitionLeaderElectionStrategy``). Deposed, it would stop a few ms later
anyway: what the early election costs is a moment without a leader, or acknowledged records where it
is unclean, and few clients ask in between. Whoever stops together with that leader stays in the ISR
as well: it has everything, and may lead if it is back first.

**EligibleLead**: where nobody leads, and a member of the ISR could, somebody is being elected. What
was decided and not written, since somebody else was faster, is to be decided again.

**DeadLeaveIsr**: nobody is in the ISR that a controller writes for a leader but who is there: it
counts for what it says to ``min.insync.replicas``, and acks=all waits for each of it.

Judged when the controller decides, by what it knows; and since hardly ever all who are in sync are
asked to stop, or die but for one that is, by what would be decided if they were, and if they did.
"""

import copy
from collections.abc import Set

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Effect, StateWrite, WriteStates
from ackproof.broker.controller.rules.plan import plan
from ackproof.broker.types import NO_LEADER, BrokerId, TopicPartition
from simulation.observer.leadership import decided
from simulation.violation import Violation


def stepped(context: Context, effects: tuple[Effect, ...]) -> None:
    """Raises Violation."""
    for effect in effects:
        if type(effect) is WriteStates:
            for write in effect.writes:
                _judge(context, write)


def settled(context: Context) -> None:
    """Who leads, and who would if all that are in sync were asked to stop, or if one was and the
    others died; raises Violation."""
    for tp, state, assignment in decided.settled(context):
        in_sync = context.online.intersection(state.isr)
        if state.leader in in_sync:
            _if_asked_to_stop(context, tp, in_sync)
            if len(state.isr) > 1:
                _if_alone_and_asked_to_stop(context, tp, state)
        elif state.leader not in context.live:
            able = decided.trusted(context, tp, state) & in_sync & set(assignment.replicas)
            if able:
                what = f"nobody leads {tp}, though {sorted(able)} could, and nothing is written"
                raise Violation("EligibleLead", what)


def _if_asked_to_stop(context: Context, tp: TopicPartition, in_sync: Set[BrokerId]) -> None:
    asked = copy.copy(context)
    asked.stopping = context.stopping | in_sync
    write = plan(asked, tp).write
    if write is not None:
        _judge(asked, write)


def _if_alone_and_asked_to_stop(
    context: Context, tp: TopicPartition, state: PartitionState
) -> None:
    asked, leader = copy.copy(context), state.leader
    asked.live, asked.stopping = {leader: context.live[leader]}, {leader}
    write = plan(asked, tp).write
    isr = state.isr if write is None else write.isr
    if isr != (leader,):
        what = f"if {leader}, which leads {tp}, were asked to stop when it is alone"
        raise Violation("DeadLeaveIsr", f"{what}, {list(isr)} would be its ISR")


def _judge(context: Context, write: StateWrite) -> None:
    tp = write.partition
    state, assignment = context.states.get(tp), context.assignment(tp)
    dead = sorted(set(write.isr) - context.live.keys())
    if dead and write.leader != NO_LEADER:
        what = f"{write.leader} is to lead {tp}, and {dead}, who are not there"
        raise Violation("DeadLeaveIsr", f"{what}, are in its ISR {list(write.isr)}")
    if state is None or assignment is None:
        return
    trusted = decided.trusted(context, tp, state)
    if write.leader in context.stopping:
        left = sorted((trusted & context.stopping) - set(write.isr))
        if left:
            what = f"{write.leader} leads {tp} until it is gone, and {left}, who stop with it"
            raise Violation("LeadersStay", f"{what}, are taken out of the ISR {list(state.isr)}")
    if write.leader in state.isr:
        return
    able = trusted & context.online & set(assignment.replicas)
    able |= trusted & context.stopping & {state.leader}
    if able:
        gives_way = f"{state.leader} gives way to {write.leader} as the leader of {tp}"
        raise Violation("LeadersStay", f"{gives_way}, though {sorted(able)} could lead")
