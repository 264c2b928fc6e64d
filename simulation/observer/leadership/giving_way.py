"""**LeadersStay**: a leader gives way to nobody, or to somebody outside the ISR, only when no
member of the ISR is left that could lead.

One that stops in order and is alone in sync is such a member until it is gone
(``ControlledShutdownPartitionLeaderElectionStrategy``). Deposed, it would stop a few ms later
anyway: what the early election costs is a moment without a leader, or acknowledged records where it
is unclean, and few clients ask in between. Whoever stops together with that leader stays in the ISR
as well: it has everything, and may lead if it is back first.

Judged when the controller decides, by what it knows; and since hardly ever all who are in sync are
asked to stop, by what would be decided if they were.
"""

import copy

from broker.controller.context import Context
from broker.controller.events import Effect, StateWrite, WriteStates
from broker.controller.rules.plan import plan
from simulation.observer.leadership import decided
from simulation.violation import Violation


def stepped(context: Context, effects: tuple[Effect, ...]) -> None:
    """Raises Violation."""
    for effect in effects:
        if type(effect) is WriteStates:
            for write in effect.writes:
                _judge(context, write)


def if_asked_to_stop(context: Context) -> None:
    """Each leader, and all that are in sync with it; raises Violation."""
    for tp, state, _ in decided.settled(context):
        in_sync = context.online.intersection(state.isr)
        if state.leader not in in_sync:
            continue
        asked = copy.copy(context)
        asked.stopping = context.stopping | in_sync
        write = plan(asked, tp).write
        if write is not None:
            _judge(asked, write)


def _judge(context: Context, write: StateWrite) -> None:
    tp = write.partition
    state, assignment = context.states.get(tp), context.assignment(tp)
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
